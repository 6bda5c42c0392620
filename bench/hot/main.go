package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/hotparam/pipeline/bench/internal/counters"
	"github.com/hotparam/pipeline/bench/internal/measure"
	"github.com/hotparam/pipeline/bench/internal/trace"
)

// budget is the memory that all contenders get where nothing else is said, in bytes.
const budget = 256 << 10

// budgets are used on the sized traces, to compare the bytes for an error.
var budgets = []int{32 << 10, 64 << 10, 128 << 10, budget, 512 << 10, 1 << 20, 2 << 20}

// sized and costly hold the names of the traces that are measured with several budgets, and for their cost.
var (
	sized  = map[string]bool{"web12": true, "zipfian": true, "rotating hot set": true, "flood of unique keys": true}
	costly = map[string]bool{"web12": true, "zipfian": true, "flood of unique keys": true}
)

type options struct {
	dir, jar, write, trace string
	seed                   uint64
	rounds, hot            int
	draw, quick            bool
}

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", "hot", "where results.json, the page and the pictures are")
	flag.StringVar(&o.jar, "jar", "", "the file of "+trace.SimulatorArtifact+"; empty: mvn copies it")
	flag.StringVar(&o.write, "write", "", "only write the traces to this directory")
	flag.StringVar(&o.trace, "trace", "", "only compare on this trace: lines of time (ms), key and client")
	flag.IntVar(&o.hot, "hot", 500, "requests in 5 s from which a key of -trace is hot")
	flag.Uint64Var(&o.seed, "seed", 1, "of traces, clocks and chance")
	flag.IntVar(&o.rounds, "rounds", 5, "how often costs are measured")
	flag.BoolVar(&o.draw, "draw", false, "only write page and pictures, from results.json")
	flag.BoolVar(&o.quick, "quick", false, "few and short traces, and write nothing: to see it work")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(o options) error {
	switch {
	case o.draw:
		r, err := measure.LoadResults[results](o.dir)
		if err != nil {
			return err
		}
		return write(o.dir, r)
	case o.trace != "":
		t, err := readTrace(o.trace, o.hot)
		if err != nil {
			return err
		}
		r, err := study([]*trace.Trace{t}, o)
		if err != nil {
			return err
		}
		_, err = fmt.Print(scoreTable(r.Scores))
		return err
	}
	all, err := traces(findJar(o.jar), o.seed, o.quick)
	if err != nil {
		return err
	}
	if o.write != "" {
		return writeTraces(o.write, all)
	}
	r, err := study(all, o)
	if err != nil {
		return err
	}
	if o.quick {
		_, err := fmt.Print(tables(r))
		return err
	}
	if err := measure.SaveResults(o.dir, r); err != nil {
		return err
	}
	fmt.Print(summary(r))
	return write(o.dir, r)
}

// findJar returns the jar with the traces of requests, or "" if it cannot be had.
func findJar(file string) string {
	err := checkJar(file)
	if file == "" {
		file, err = fetchJar()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%v\nThe traces of requests are left out.\n", err)
		return ""
	}
	fmt.Fprintln(os.Stderr, trace.Attribution)
	return file
}

// study measures everything.
func study(all []*trace.Trace, o options) (*results, error) {
	exact, err := buildExact()
	if err != nil {
		return nil, err
	}
	defer exact.remove()
	began := time.Now()
	r := &results{Seed: o.seed, Machine: measure.Machine(), Load: measure.Load(), Versions: versions(),
		Commit: measure.Commit()}
	var worth []*trace.Trace
	for _, t := range all {
		if err := r.compare(t, exact, o); err != nil {
			return nil, err
		}
		if costly[t.Name] {
			worth = append(worth, t)
		}
	}
	if r.Costs, err = measureCosts(worth, o.seed, o.rounds); err != nil {
		return nil, err
	}
	r.Load += " to " + measure.Load()
	r.Took = time.Since(began).Round(time.Second).String()
	return r, nil
}

// compare scores all contenders on a trace.
func (r *results) compare(t *trace.Trace, exact exactProgram, o options) error {
	seconds := float64(t.Ends()) / 1000
	r.Traces = append(r.Traces, traceFacts{t.Name, t.About, len(t.Requests), len(t.Keys), seconds, t.Hot})
	known, err := exact.count(t)
	if err != nil {
		return err
	}
	requests := requestsOf(t)
	for _, c := range counters.Contenders() {
		for _, size := range budgets {
			if size != budget && (!sized[t.Name] || c.Unbounded) {
				continue
			}
			one := row{Trace: t.Name, Contender: c.Name, Budget: size}
			c.New(configOf(t, size, o.seed)) // fills the caches of the standard library
			before := heap()
			counter := c.New(configOf(t, size, o.seed))
			one.score = scoreTrace(requests, known, t.Hot, counter)
			one.Bytes = max(heap()-before, 0)
			runtime.KeepAlive(counter)
			if size == budget {
				fmt.Fprintf(os.Stderr,
					"%s, %s: recall %.3f, precision %.3f, error %.4f, at once %.2f, %d false alarms\n", t.Name,
					c.Name, one.Recall, one.Precision, one.Error, one.AtOnce, one.Alarms)
				r.Scores = append(r.Scores, one)
			}
			if sized[t.Name] {
				r.Sizes = append(r.Sizes, one)
			}
			if c.Name == "exact" && (one.Recall < 1 || one.Precision < 1 || one.Error > 0 || one.AtOnce < 1) {
				return fmt.Errorf("hot: %s: the exact contender differs from hot/exact: %+v", t.Name, one)
			}
		}
	}
	return nil
}

// versions returns the versions of the contenders and of the sources of traffic.
func versions() map[string]string {
	v := map[string]string{"go": runtime.Version(), "traces": trace.SimulatorArtifact}
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		switch m.Path {
		case "github.com/keilerkonzept/topk", "github.com/pingcap/go-ycsb":
			v[m.Path] = m.Version
		}
	}
	return v
}
