package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/hotparam/pipeline/bench/internal/measure"
)

// results holds all measurements: results.json.
type results struct {
	Seed     uint64     `json:"seed"`
	Commit   string     `json:"commit,omitempty"`
	Machine  string     `json:"machine"`
	Go       string     `json:"go"`
	Load     string     `json:"load"` // load of the machine, before and after
	Accuracy []accuracy `json:"accuracy"`
	Thumb    []accuracy `json:"thumb"` // with thumb counters for each hot rate in all requests
	Cost     []cost     `json:"cost"`
	Criteria []outcome  `json:"criteria"`
}

func main() {
	dir := flag.String("dir", "detection", "where results.json, the page and the pictures are")
	traffic := flag.String("traffic", os.Getenv("HOTPARAM_TRAFFIC"), "directory of real logs")
	seed := flag.Uint64("seed", 1, "of the traffic")
	draw := flag.Bool("draw", false, "only write page and pictures, from results.json")
	quick := flag.Bool("quick", false, "a hundredth of the requests, and write nothing: to see it work")
	flag.Parse()
	if err := run(*dir, *traffic, *seed, *draw, *quick); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(dir, traffic string, seed uint64, draw, quick bool) error {
	if draw {
		r, err := measure.LoadResults[results](dir)
		if err != nil {
			return err
		}
		return write(dir, r)
	}
	part := 1.0
	if quick {
		part = 0.01
	}
	r, err := study(seed, part, traffic)
	if err != nil || quick {
		return err
	}
	if err := measure.SaveResults(dir, r); err != nil {
		return fmt.Errorf("study: %w", err)
	}
	return write(dir, r)
}

// study measures everything.
func study(seed uint64, part float64, traffic string) (*results, error) {
	r := &results{Seed: seed, Commit: measure.Commit(), Machine: measure.Machine(), Go: runtime.Version(),
		Load: measure.Load()}
	all := streams(seed, part)
	logs, err := logStreams(traffic)
	if err != nil {
		return nil, err
	}
	if part == 1 { // in smaller traffic hot keys have most of the requests
		if r.Thumb, err = rulesOfThumb(all); err != nil {
			return nil, err
		}
	}
	for _, s := range append(all, logs...) {
		for _, size := range s.sizes {
			a, err := measureAccuracy(s, size)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(os.Stderr,
				"%s, %d counters: recall %.4f, precision %.4f, error %d (said %d), %d of %d at once, %d never\n",
				s.name, size, a.Recall, a.Precision, a.Real, a.Said, a.SameTick, a.Crossed, a.Never)
			r.Accuracy = append(r.Accuracy, a)
		}
	}
	for _, s := range all {
		if !costly[s.name] {
			continue
		}
		costs, err := measureCost(s)
		if err != nil {
			return nil, err
		}
		for _, c := range costs {
			fmt.Fprintf(os.Stderr, "%s, %d counters: %.2f times maps, %.1f MB\n", s.name, c.Counters, c.Times[0],
				float64(c.Bytes)/1e6)
		}
		r.Cost = append(r.Cost, costs...)
	}
	for _, s := range situations() {
		o := judgeSituation(s)
		fmt.Fprintf(os.Stderr, "%s: %s\n", o.Situation, strings.Join(o.Said, ", "))
		r.Criteria = append(r.Criteria, o)
	}
	r.Load += " to " + measure.Load()
	return r, nil
}

// costly holds the streams whose cost is measured.
var costly = map[string]bool{"Zipf 1.0, 1 M keys": true, "Zipf 1.0, 10 M keys": true,
	"flood, 10 M keys once each": true}

// write writes the pictures and the tables of the page.
func write(dir string, r *results) error {
	files, err := render(dir, r)
	if err != nil {
		return err
	}
	return measure.WriteFiles(files)
}

// render returns the files that are made from results, by name.
func render(dir string, r *results) (map[string][]byte, error) {
	files, err := measure.RenderPage(dir, "bench/detection", tables(r), pictures(r))
	if err != nil {
		return nil, fmt.Errorf("study: %w", err)
	}
	return files, nil
}
