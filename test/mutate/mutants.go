//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"text/tabwriter"
	"time"
)

// rules is a run over mutants, with the values of the flags.
type rules struct {
	files    string // a regular expression
	sample   int
	seed     uint64
	parallel int
}

// tally holds the outcomes of a subject's mutants.
type tally struct {
	subject                     subject
	known                       int // changes that the rules know, whether they compile or not
	unrun                       int // of them in lines that no test runs
	killed, survived, identical int
	took                        time.Duration
}

// measure tries the mutants and returns how many survived that no test can notice.
func (r rules) measure(ctx context.Context) (survived int, err error) {
	only, err := regexp.Compile(r.files)
	if err != nil {
		return 0, fmt.Errorf("-mutants: %w", err)
	}
	b, done, err := open(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	b.env, b.rapidFlags = nil, []string{fmt.Sprint("-rapid.seed=", r.seed+1)}
	known, err := loadEquivalents(b.root)
	if err != nil {
		return 0, err
	}
	var all []tally
	for _, s := range subjects {
		if !only.MatchString(s.files) {
			continue
		}
		t, err := r.try(ctx, b, s, known)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", s.files, err)
		}
		all = append(all, t)
		survived += t.survived
	}
	if len(all) == 0 {
		return 0, fmt.Errorf("no subject matches -mutants %q", r.files)
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "files\tchanges\tnot run\ttried\tkilled\trate\tequivalent\ttime")
	for _, t := range all {
		tried := t.killed + t.survived
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%.1f %%\t%d\t%v\n", t.subject.files, t.known, t.unrun, tried, t.killed,
			100*float64(t.killed)/float64(max(1, tried)), t.identical, t.took.Round(time.Second))
	}
	return survived, table.Flush()
}

// try tries mutants of one subject, some at a time, and prints their outcomes.
func (r rules) try(ctx context.Context, b *bench, s subject, known map[equivalent]bool) (tally, error) {
	began := time.Now()
	t := tally{subject: s}
	all, err := s.mutants(b.root)
	if err != nil {
		return t, err
	}
	run, err := b.clean(ctx, s)
	if err != nil {
		return t, err
	}
	t.known = len(all)
	rand.New(rand.NewPCG(r.seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	all = slices.DeleteFunc(all, func(m mutant) bool {
		is, unrun := known[equivalent{m.file, m.change(), m.text}], unrun(run, m)
		if unrun {
			t.unrun++
		} else if is {
			t.identical++
		}
		return unrun || is
	})
	sample := r.sample
	if sample == 0 {
		sample = len(all)
	}
	for ctx.Err() == nil && len(all) > 0 && t.killed+t.survived < sample {
		some := all[:min(len(all), sample-t.killed-t.survived)] // some of them may not compile
		all = all[len(some):]
		if err := r.tryAll(ctx, b, s, some, &t); err != nil {
			return t, err
		}
	}
	t.took = time.Since(began)
	return t, ctx.Err()
}

// tryAll tries mutants and counts them in t.
func (r rules) tryAll(ctx context.Context, b *bench, s subject, some []mutant, t *tally) error {
	next := make(chan mutant)
	var workers sync.WaitGroup
	var mu sync.Mutex // guards t and errs
	var errs []error
	for i := range r.parallel {
		workers.Go(func() {
			for m := range next {
				o, err := b.tryMutant(ctx, s, m, fmt.Sprint("mutant", i))
				mu.Lock()
				switch {
				case errors.Is(err, errCompile):
				case err != nil:
					errs = append(errs, err)
				default:
					t.count(m, o)
				}
				mu.Unlock()
			}
		})
	}
	for _, m := range some {
		if ctx.Err() == nil {
			next <- m
		}
	}
	close(next)
	workers.Wait()
	return errors.Join(append(errs, ctx.Err())...)
}

// count counts a mutant and prints its outcome.
func (t *tally) count(m mutant, o outcome) {
	if o.failed {
		t.killed++
	} else {
		t.survived++
		o.how = "SURVIVED"
	}
	fmt.Printf("%s:%d: %s: %s: %s\n", m.file, m.line, m.change(), m.text, o.how)
}

// unrun reports whether a mutant's line is known to be run by no test.
func unrun(run map[string]bool, m mutant) bool {
	is, known := run[fmt.Sprint(m.file, ":", m.line)]
	return known && !is
}

// tryMutant plants a mutant and runs the subject's tests until one fails. The files of the mutant have the name name.
func (b *bench) tryMutant(ctx context.Context, s subject, m mutant, name string) (o outcome, err error) {
	text, err := os.ReadFile(filepath.Join(b.root, m.file))
	if err != nil {
		return o, err
	}
	for _, what := range s.tests {
		_ = os.RemoveAll(filepath.Join(b.dir, name)) // it is in the system's temporary directory
		o, err = b.try(ctx, fault{name: name, file: m.file, pkg: what.pkg, tests: what.pattern,
			text: string(text[:m.begin]) + m.new + string(text[m.end:])})
		if err != nil || o.failed {
			return o, err
		}
	}
	return o, nil
}

var coverBlock = regexp.MustCompile(`(?m)^github.com/hotparam/pipeline/(\S+):(\d+)\.\d+,(\d+)\.\d+ \d+ (\d+)$`)

// clean runs the subject's tests without a fault and records their time. It returns, by file:line, true for the lines
// that they run and false for the lines that they do not run.
func (b *bench) clean(ctx context.Context, s subject) (map[string]bool, error) {
	lines := map[string]bool{}
	for _, what := range s.tests {
		bin, err := b.binary(ctx, what)
		if err != nil {
			return nil, err
		}
		began := time.Now()
		if o := b.runClean(ctx, bin, what, 5*time.Minute); o.failed {
			return nil, fmt.Errorf("without a fault %s fails: %s\n%s", what.pkg, o.how, o.out)
		}
		b.usual[what] = time.Since(began)
		if what.scripts {
			continue
		}
		profile := filepath.Join(b.dir, "covered")
		cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-run", what.pattern, "-coverprofile", profile,
			"-coverpkg=github.com/hotparam/pipeline/"+filepath.Dir(s.files), ".")
		cmd.Dir = filepath.Join(b.root, what.pkg)
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s with coverage: %w\n%s", what.pkg, err, out)
		}
		text, err := os.ReadFile(profile)
		if err != nil {
			return nil, err
		}
		for _, m := range coverBlock.FindAllStringSubmatch(string(text), -1) {
			from, _ := strconv.Atoi(m[2]) // they are digits
			to, _ := strconv.Atoi(m[3])
			for n := from; n <= to; n++ {
				line := fmt.Sprint(m[1], ":", n)
				lines[line] = lines[line] || m[4] != "0"
			}
		}
	}
	return lines, nil
}
