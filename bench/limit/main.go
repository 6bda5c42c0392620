package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/hotparam/pipeline/bench/internal/measure"
)

type options struct {
	dir, peers, only string
	seed             uint64
	seconds          int
	draw, quick      bool
}

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", "limit", "where results.json, the page and the picture are")
	flag.StringVar(&o.peers, "peers", "../bin/_peers", "where the programs of peers are, or are installed")
	flag.StringVar(&o.only, "only", ".", "only the contenders whose names match, and write nothing")
	flag.Uint64Var(&o.seed, "seed", 1, "of the random times")
	flag.IntVar(&o.seconds, "seconds", 12, "the length of the traffic that shows accuracy")
	flag.BoolVar(&o.draw, "draw", false, "only write page and picture, from results.json")
	flag.BoolVar(&o.quick, "quick", false, "three seconds without faults, and write nothing: do all contenders start?")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.draw {
		r, err := measure.LoadResults[results](o.dir)
		if err != nil {
			return err
		}
		return write(o.dir, r)
	}
	only, err := regexp.Compile(o.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if o.quick {
		o.seconds = 3
	}
	if o.seconds < 3 {
		return errors.New("-seconds: want 3 or more, because a round of the traffic has three")
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		return fmt.Errorf("limit: %w; install Redis or Valkey", err)
	}
	root, err := os.MkdirTemp("", "hotparam-limit-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	if err := buildOurs(ctx, root); err != nil {
		return err
	}
	peers, err := filepath.Abs(o.peers)
	if err != nil {
		return err
	}
	r := &results{Seed: o.seed, Machine: measure.Machine(), Load: measure.Load(), Commit: measure.Commit(),
		Go: runtime.Version(), Redis: versionBy("redis-server", "--version"), Missing: map[string]string{}}
	all := append([]contender{ours(r.Commit)}, libraries()...)
	missing := fetchPeers(ctx, peers, only)
	for _, c := range servers(peers) {
		if err := missing[c.name]; err != nil && only.MatchString(c.name) {
			r.leaveOut(c.name, err)
			continue
		}
		all = append(all, c)
	}
	all = slices.DeleteFunc(all, func(c contender) bool { return !only.MatchString(c.name) })
	if len(all) == 0 {
		return fmt.Errorf("-only: no contender matches %q", o.only)
	}
	if err := r.measure(ctx, all, o, root); err != nil {
		return err
	}
	if o.quick || o.only != "." {
		fmt.Print(tables(r))
		return nil
	}
	if err := measure.SaveResults(o.dir, r); err != nil {
		return err
	}
	return write(o.dir, r)
}

// measure runs all contenders.
func (r *results) measure(ctx context.Context, all []contender, o options, root string) error {
	began := time.Now()
	traffic := accuracyTraffic(o.seconds, o.seed)
	for _, c := range all {
		fmt.Fprintf(os.Stderr, "%s: accuracy\n", c.name)
		a, err := examine(ctx, c, traffic, root)
		if err != nil && c.name != measure.Ours && ctx.Err() == nil {
			r.leaveOut(c.name, err) // it may need rights that there are not here
			continue
		}
		if err != nil {
			return err
		}
		r.Contenders = append(r.Contenders, facts{c.name, c.version, c.kind})
		r.Accuracy = append(r.Accuracy, *a)
	}
	for _, f := range faults() {
		if o.quick {
			break
		}
		for _, c := range all {
			if !f.strikes(c) || r.Missing[c.name] != "" {
				continue
			}
			fmt.Fprintf(os.Stderr, "%s: the store is %s\n", c.name, f.name)
			one, err := endure(ctx, c, f, root)
			if err != nil && c.name != measure.Ours && ctx.Err() == nil {
				r.leaveOut(c.name+" while the store is "+f.name, err)
				continue
			}
			if err != nil {
				return err
			}
			r.Faults = append(r.Faults, *one)
		}
	}
	r.Load += " to " + measure.Load()
	r.Took = time.Since(began).Round(time.Second).String()
	return nil
}

// leaveOut records the reason why a contender is not compared.
func (r *results) leaveOut(name string, err error) {
	fmt.Fprintf(os.Stderr, "limit: without %s: %v\n", name, err)
	r.Missing[name] = err.Error()
}

// versionOf returns the version of a module of this program.
func versionOf(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		if m.Path == module {
			return m.Version
		}
	}
	return "unknown"
}
