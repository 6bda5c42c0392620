// Command adaptive runs the controller of adaptive limits on a simulated upstream, beside a sweep of fixed limits:
//
//	go run ./adaptive              # the table of RESULTS.md, and its pictures
//	go run ./adaptive -calm        # its table of sites that are not overloaded
//	go run ./adaptive "onset 10 x" # one scenario, second by second
//	go run ./adaptive -real FILE   # the table and pictures of a run of TestAdaptiveLimit_FindsCapacityAcrossLimiters
//	go run ./adaptive -demo FILE   # the picture of a run of hotparam demo -o json
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"

	"github.com/hotparam/pipeline/bench/internal/chart"
)

// Pictures that documents show are in the first folder, the other pictures beside RESULTS.md. Both are named from
// bench/.
const (
	documents = "../docs/adaptive"
	results   = "adaptive"
)

func main() {
	real := flag.String("real", "",
		"results of TestAdaptiveLimit_FindsCapacityAcrossLimiters, which -adaptive.results writes")
	demo := flag.String("demo", "", "result of hotparam demo -o json")
	rows := flag.String("rows", "", "only the rows of scenarios whose names match")
	draws := flag.Int("randoms", randoms, "how many random scenarios the last row has")
	calm := flag.Bool("calm", false, "only the table of sites that are not overloaded")
	flag.Parse()
	var err error
	switch {
	case *calm:
		calmTable()
	case *real != "":
		err = showReal(*real)
	case *demo != "":
		err = showDemo(*demo)
	case flag.NArg() > 0:
		trace(flag.Arg(0))
	default:
		err = study(*rows, *draws)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "study:", err)
		os.Exit(1)
	}
}

// study prints a line for each scenario, with means of three seeds, and draws two scenarios.
func study(rows string, draws int) error {
	wanted, err := regexp.Compile(rows)
	if err != nil {
		return err
	}
	fmt.Println(
		"| scenario | target held again after | seconds within it | answered, of the best fixed limit | swing | cold requests that failed | with no limit |")
	fmt.Println("|---|---|---|---|---|---|---|")
	drawn := map[string]string{"onset 10 x": documents + "/onset.svg", "capacity halved": results + "/halved.svg"}
	for _, s := range scenarios() {
		if s.special && s.over == 0 || !wanted.MatchString(s.name) {
			continue
		}
		fmt.Println(s.row())
		if file := drawn[s.name]; file != "" {
			if err := s.draw(file, s.simulate(math.Inf(1), false, 1)); err != nil {
				return err
			}
		}
	}
	if wanted.MatchString("random") {
		fmt.Println(summary(draws))
	}
	return nil
}

// row returns a line of the table. Of two sites that are controlled separately it shows the worse values, and the sum
// of their answers.
func (s *scenario) row() string {
	const seeds = 3
	total := score{within: 1}
	name, best, free := s.name, 0.0, 0.0
	if s.over > 0 {
		s.onset, name = s.over, s.name+", from its end on"
	}
	for _, p := range s.parts() {
		var sum score
		for seed := range uint64(seeds) {
			r := p.score(p.simulate(math.Inf(1), true, seed+1))
			sum.back = max(sum.back, r.back)
			sum.within += r.within / seeds
			sum.goodput += r.goodput / seeds
			sum.swing += r.swing / seeds
			sum.cold += r.cold / seeds
		}
		total = score{max(total.back, sum.back), min(total.within, sum.within), total.goodput + sum.goodput,
			max(total.swing, sum.swing), max(total.cold, sum.cold)}
		free = max(free, p.score(p.simulate(math.Inf(1), false, 1)).cold)
	}
	known := *s
	known.apart = s.beside != nil // there is one fixed limit for each upstream
	for _, p := range known.parts() {
		fixed, _ := p.bestFixed(1)
		best += fixed
	}
	ratio := "-"
	if best > 0 {
		ratio = fmt.Sprintf("%.0f %%", 100*total.goodput/best)
	}
	return fmt.Sprintf("| %s | %d s | %.0f %% | %s | ± %.0f %% | %.1f %% | %.0f %% |", name, total.back,
		100*total.within, ratio, 100*total.swing, 100*total.cold, 100*free)
}

// trace prints one scenario.
func trace(name string) {
	all := scenarios()
	for i := range randoms {
		all = append(all, random(i))
	}
	for _, s := range all {
		if s.name != name {
			continue
		}
		out := s.simulate(math.Inf(1), true, 1)
		fmt.Printf("%+v\n", s.score(out))
		for i, o := range out {
			fmt.Printf(
				"%3d hot %5d refused %5d cold %4d ok %4d failed %4d p90 %4.0f ms rate %6.0f cap %6.1f limited %v unreachable %v\n",
				i, o.hot, o.refused, o.cold, o.ok, o.failed, p90(&o), o.rate, o.inFlight, o.limited, o.unreachable)
		}
	}
}

func p90(o *second) float64 { return o.latency.Quantile(0.9).Seconds() * 1000 }

// draw draws a scenario with the controller beside the same scenario without a limit.
func (s *scenario) draw(file string, free []second) error {
	with := s.simulate(math.Inf(1), true, 1)
	latency := chart.Plot{Title: s.name + ": 9 of 10 requests let in are answered within, ms", Most: 2000,
		Mark: s.target.Latency.Seconds() * 1000}
	answered := chart.Plot{Title: "answered a second", Most: 1200}
	latency.Lines = []chart.Line{{Name: "adaptive", Values: values(with, p90)}, {Name: "no limit", Values: values(free, p90)}}
	ok := func(o *second) float64 { return float64(o.ok) }
	answered.Lines = []chart.Line{{Name: "adaptive", Values: values(with, ok)}, {Name: "no limit", Values: values(free, ok)}}
	return chart.Drawing{latency, answered}.Write(file)
}

func values(out []second, of func(*second) float64) []float64 {
	list := make([]float64, len(out))
	for i := range out {
		list[i] = of(&out[i])
	}
	return list
}

// showReal prints and draws the results of TestAdaptiveLimit_FindsCapacityAcrossLimiters.
func showReal(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var seen struct {
		Phases map[string][]struct {
			Phase                             string
			Within, Answered, ColdFailed, P90 float64
		}
		Seconds map[string][]struct{ P90, Answered float64 }
	}
	if err := json.Unmarshal(text, &seen); err != nil {
		return err
	}
	latency := chart.Plot{Title: "9 of 10 requests let in are answered within, ms", Most: 2000, Mark: 250}
	answered := chart.Plot{Title: "answered a second", Most: 240}
	fmt.Println("| limit | | seconds within 250 ms | median p90 | answered a second | cold requests that failed |")
	fmt.Println("|---|---|---|---|---|---|")
	for _, way := range []string{"adaptive", "none", "fixed twice too high", "fixed twice too low"} {
		for _, p := range seen.Phases[way] {
			fmt.Printf("| %s | %s | %.0f %% | %.0f ms | %.0f | %.1f %% |\n", way, p.Phase, 100*p.Within, p.P90,
				p.Answered, 100*p.ColdFailed)
		}
		var ms, ok []float64
		for _, s := range seen.Seconds[way] {
			ms, ok = append(ms, s.P90), append(ok, s.Answered)
		}
		latency.Lines = append(latency.Lines, chart.Line{Name: way, Values: ms})
		answered.Lines = append(answered.Lines, chart.Line{Name: way, Values: ok})
	}
	return chart.Drawing{latency, answered}.Write(results + "/real.svg")
}
