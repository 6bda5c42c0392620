//go:build unix

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	survived, err := measure(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
	if survived > 0 {
		os.Exit(1)
	}
}

// measure runs the command of the flags and returns the number of faults that no test noticed.
func measure(ctx context.Context) (survived int, err error) {
	only := flag.String("run", "", "try only faults whose name matches this regular expression")
	at := flag.Int("parallel", 2, "how many faults or mutants are tried at a time")
	list := flag.Bool("list", false, "print the names of the faults and where they are")
	verbose := flag.Bool("v", false, "print what the tests of each fault wrote")
	since := flag.String("since", "", "try only faults in files, or noticed by tests, that differ from this commit")
	within := flag.Duration("within", 0, "with -since: begin no fault after this time; 0: try all")
	var byRule rules
	flag.StringVar(&byRule.files, "mutants", "", "plant no faults of the tables; change by rule what matches this "+
		"regular expression, such as limitcore, or . for the whole core")
	flag.IntVar(&byRule.sample, "sample", 0, "of each subject try so many mutants; 0: all")
	flag.Uint64Var(&byRule.seed, "seed", 1, "which mutants a sample has, and the seed of property tests")
	flag.Parse()
	if byRule.files != "" {
		byRule.parallel = max(1, *at)
		return byRule.measure(ctx)
	}
	faults, err := choose(*only)
	if err != nil {
		return 0, err
	}
	if *since != "" {
		if faults, err = changedSince(ctx, *since, faults); err != nil {
			return 0, err
		}
	}
	if *list {
		for _, f := range faults {
			fmt.Printf("%-44s %s\n", f.name, f.file)
		}
		return 0, nil
	}
	b, done, err := open(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	began := time.Now()
	if *since != "" {
		return b.tryWithin(ctx, faults, max(1, *at), *within)
	}
	if err := b.verify(ctx, faults); err != nil {
		return 0, err
	}
	fmt.Printf("without a fault all named tests pass (%v)\n", time.Since(began).Round(time.Second))
	results, err := b.tryAll(ctx, faults, max(1, *at))
	if err != nil {
		return 0, err
	}
	survived = report(faults, results, *verbose)
	fmt.Printf("%d planted, %d killed, %d survived (%v)\n", len(faults), len(faults)-survived, survived,
		time.Since(began).Round(time.Second))
	return survived, nil
}

// choose returns the faults whose names match.
func choose(pattern string) ([]fault, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("-run: %w", err)
	}
	all, err := load()
	if err != nil {
		return nil, err
	}
	var some []fault
	for _, f := range all {
		if re.MatchString(f.name) {
			some = append(some, f)
		}
	}
	if len(some) == 0 {
		return nil, fmt.Errorf("no fault matches -run %q", pattern)
	}
	return some, nil
}

// open makes a bench for the repository of the current directory.
func open(ctx context.Context) (b *bench, done func(), err error) {
	gomod, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/hotparam/pipeline").
		Output()
	if err != nil {
		return nil, nil, fmt.Errorf("run it in test/: %w", err)
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return nil, nil, err
	}
	b = &bench{root: strings.TrimSpace(string(gomod)), dir: dir, rapid: map[string]bool{},
		usual: map[tests]time.Duration{}, bins: map[tests]string{},
		env: []string{"HOTPARAM_REQUIRE_SERVERS=1", "HOTPARAM_NIGHTLY=1"}}
	return b, func() { _ = os.RemoveAll(dir) }, nil // files that are left are in the system's temporary directory
}

// result is the outcome of one fault.
type result struct {
	outcome
	err  error
	took time.Duration
}

// tryAll tries all faults, some at a time, and reports its progress on standard error.
func (b *bench) tryAll(ctx context.Context, faults []fault, parallel int) ([]result, error) {
	results, next := make([]result, len(faults)), make(chan int)
	var workers sync.WaitGroup
	for range parallel {
		workers.Go(func() {
			for i := range next {
				began := time.Now()
				r := &results[i]
				r.outcome, r.err = b.try(ctx, faults[i])
				r.took = time.Since(began)
				switch {
				case r.err != nil:
					r.how = fmt.Sprint("not tried: ", r.err)
				case !r.failed:
					r.how = "SURVIVED"
				}
				fmt.Fprintf(os.Stderr, "%3d of %d: %s: %s\n", i+1, len(faults), faults[i].name, r.how)
			}
		})
	}
	for i := range faults {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	workers.Wait()
	errs := []error{ctx.Err()}
	for i := range results {
		errs = append(errs, results[i].err)
	}
	return results, errors.Join(errs...)
}

// tryWithin tries faults package by package, as long as there is time.
func (b *bench) tryWithin(ctx context.Context, faults []fault, parallel int, within time.Duration) (int, error) {
	began, planted, survived := time.Now(), 0, 0
	for left := faults; len(left) > 0 && (within == 0 || time.Since(began) < within); {
		n := 1
		for n < min(len(left), 4*parallel) && left[n].pkg == left[0].pkg {
			n++
		}
		if err := b.verify(ctx, left[:n]); err != nil {
			return 0, err
		}
		results, err := b.tryAll(ctx, left[:n], parallel)
		if err != nil {
			return 0, err
		}
		planted, survived = planted+n, survived+report(left[:n], results, false)
		left = left[n:]
	}
	fmt.Printf("%d planted of %d that the change may concern, %d survived (%v)\n", planted, len(faults), survived,
		time.Since(began).Round(time.Second))
	return survived, nil
}

// report prints the table and returns how many survived.
func report(faults []fault, results []result, verbose bool) (survived int) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for i, f := range faults {
		r := results[i]
		how := r.how
		if !r.failed {
			survived++
			how += " " + f.pkg + " " + f.tests
		}
		fmt.Fprintf(table, "%s\t%s\t%.1f s\n", f.name, how, r.took.Seconds())
	}
	_ = table.Flush() // standard output
	if verbose {
		for i, f := range faults {
			fmt.Printf("\n=== %s\n%s", f.name, results[i].out)
		}
	}
	return survived
}
