package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/bench/internal/measure"
)

// outcome holds the trials of one way and window.
type outcome struct {
	way    way
	window time.Duration
	trials []*trial
	late   lateness  // of an idle program beside them
	load   [2]string // load average before and after
}

// measureWay does all trials of a way.
func measureWay(ctx context.Context, w *world, kind way, window time.Duration, opts options) (outcome, error) {
	out := outcome{way: kind, window: window}
	out.load[0] = loadAverage()
	tr := newTracer()
	s, err := openSite(ctx, w, kind, window, tr)
	if err != nil {
		return out, err
	}
	defer s.close()
	beside, err := startIdler(ctx)
	if err != nil {
		return out, err
	}
	defer beside.process.Stop()
	l := &load{way: &s.running, tr: tr, need: int64(rate * window.Seconds()), trials: opts.trials, quiet: opts.quiet,
		topics: opts.topics}
	if err := l.run(ctx); err != nil {
		return out, err
	}
	out.trials = l.got
	out.load[1] = loadAverage()
	out.late, err = beside.end()
	return out, err
}

// complaints returns an error if a topic was refused too early.
func complaints(all []outcome) error {
	var errs []error
	for _, o := range all {
		for _, t := range o.trials {
			if t.early {
				errs = append(errs, fmt.Errorf("%s, window %v: %s was refused before its threshold", o.way.name,
					o.window, t.key))
			}
		}
	}
	return errors.Join(errs...)
}

// times returns the results, sorted.
func (o *outcome) times() (list []time.Duration) {
	for _, t := range o.trials {
		list = append(list, t.marks.enforced.Sub(t.marks.over))
	}
	slices.Sort(list)
	return list
}

// sorted returns the times of a stage, sorted.
func (o *outcome) sorted(of func(*marks) time.Duration) (list []time.Duration) {
	for _, t := range o.trials {
		if !t.marks.heard.IsZero() { // our follower may be later than both sidecars
			list = append(list, of(&t.marks))
		}
	}
	slices.Sort(list)
	return list
}

// percentile returns the lowest value that p percent of the sorted list do not exceed.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max((len(sorted)*p+99)/100-1, 0)]
}

// stages are the parts of the time.
var stages = []struct {
	name string
	of   func(*marks) time.Duration
}{
	{"in tally", func(m *marks) time.Duration { return m.handed.Sub(m.over) }},
	{"to the aggregator, crossed", func(m *marks) time.Duration { return m.crossed.Sub(m.handed) }},
	{"to its judgement", func(m *marks) time.Duration { return m.judged.Sub(m.crossed) }},
	{"published, and read by a follower", func(m *marks) time.Duration { return m.heard.Sub(m.judged) }},
	{"to the refusal by both limiters", func(m *marks) time.Duration { return m.enforced.Sub(m.heard) }},
}

// write prints the stages and histograms.
func write(w io.Writer, all []outcome) error {
	var b strings.Builder
	writeStages(&b, all)
	writeHistograms(&b, all)
	_, err := io.WriteString(w, b.String())
	return err
}

// totals returns the sheet of all ways and windows.
func totals(all []outcome) *measure.Sheet {
	columns := []string{"p50, ms", "p90, ms", "p99, ms", "max, ms", "trials", "goal of p50, ms", "goal of p99, ms",
		"an idle program is late by p50, ms", "p99, ms of it", "max, ms of it"}
	for _, s := range stages {
		columns = append(columns, s.name+", median, ms")
	}
	sheet := measure.NewSheet(measure.Lower, columns...)
	for i := range all {
		o := &all[i]
		t := o.times()
		values := []float64{float(percentile(t, 50)), float(percentile(t, 90)), float(percentile(t, 99)),
			float(percentile(t, 100)), float64(len(t)), float(o.way.goal.p50), float(o.way.goal.p99), float(o.late.P50),
			float(o.late.P99), float(o.late.Max)}
		for _, s := range stages {
			values = append(values, float(percentile(o.sorted(s.of), 50)))
		}
		sheet.Add(fmt.Sprintf("%s, window %v", o.way.name, o.window), measure.Ours, values...)
	}
	return sheet
}

func writeStages(b *strings.Builder, all []outcome) {
	b.WriteString("\n| median (p99) of the stages, ms | window |")
	for _, s := range stages {
		fmt.Fprintf(b, " %s |", s.name)
	}
	fmt.Fprintf(b, "\n|---|---%s|\n", strings.Repeat("|---", len(stages)))
	for i := range all {
		fmt.Fprintf(b, "| %s | %v |", all[i].way.name, all[i].window)
		for _, s := range stages {
			t := all[i].sorted(s.of)
			fmt.Fprintf(b, " %s (%s) |", ms(percentile(t, 50)), ms(percentile(t, 99)))
		}
		b.WriteString("\n")
	}
}

// bounds are the upper bounds of the bars, in ms.
var bounds = []int{20, 40, 60, 80, 100, 120, 150, 200, 300, 500, 1000}

// bars counts the values within each bound and above the bound before; the last bar counts the values above all bounds.
func bars(list []time.Duration) []int {
	out := make([]int, len(bounds)+1)
	for _, d := range list {
		i, _ := slices.BinarySearchFunc(bounds, d, func(bound int, d time.Duration) int {
			return cmp.Compare(time.Duration(bound)*time.Millisecond, d)
		})
		out[i]++
	}
	return out
}

func writeHistograms(b *strings.Builder, all []outcome) {
	const wide = 50
	for i := range all {
		t := all[i].times()
		fmt.Fprintf(b, "\n```\n%s, window %v: ms, trials\n", all[i].way.name, all[i].window)
		counts := bars(t)
		for k, n := range counts {
			label := fmt.Sprintf("> %d", bounds[len(bounds)-1])
			if k < len(bounds) {
				label = fmt.Sprintf("<= %d", bounds[k])
			}
			bar := strings.Repeat("#", (n*wide+len(t)-1)/max(len(t), 1))
			b.WriteString(strings.TrimRight(fmt.Sprintf("%7s %4d %s", label, n, bar), " ") + "\n")
		}
		b.WriteString("```\n")
	}
}

// writeJSON writes every trial.
func writeJSON(path string, all []outcome) error {
	type jsonTrial struct {
		Key    string    `json:"key"`
		MS     float64   `json:"ms"`
		Stages []float64 `json:"stages_ms"` // null if the follower was late
	}
	type jsonOutcome struct {
		Way    string      `json:"way"`
		Window string      `json:"window"`
		Load   [2]string   `json:"load"`
		Late   [3]float64  `json:"idle_program_late_ms"` // p50, p99, max
		P50    float64     `json:"p50_ms"`
		P90    float64     `json:"p90_ms"`
		P99    float64     `json:"p99_ms"`
		Max    float64     `json:"max_ms"`
		Stages []string    `json:"stages"`
		Trials []jsonTrial `json:"trials"`
	}
	var doc []jsonOutcome
	for i := range all {
		o := &all[i]
		t := o.times()
		j := jsonOutcome{Way: o.way.name, Window: o.window.String(), Load: o.load,
			Late: [3]float64{float(o.late.P50), float(o.late.P99), float(o.late.Max)},
			P50:  float(percentile(t, 50)), P90: float(percentile(t, 90)), P99: float(percentile(t, 99)),
			Max: float(percentile(t, 100))}
		for _, s := range stages {
			j.Stages = append(j.Stages, s.name)
		}
		for _, t := range o.trials {
			one := jsonTrial{Key: string(t.key), MS: float(t.marks.enforced.Sub(t.marks.over))}
			for _, s := range stages {
				if t.marks.heard.IsZero() {
					break // as in sorted
				}
				one.Stages = append(one.Stages, float(s.of(&t.marks)))
			}
			j.Trials = append(j.Trials, one)
		}
		doc = append(doc, j)
	}
	text, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

func float(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// ms formats whole milliseconds, and tenths below ten.
func ms(d time.Duration) string {
	if d < 10*time.Millisecond && d > -10*time.Millisecond && d%time.Millisecond != 0 {
		return fmt.Sprintf("%.1f", float(d))
	}
	return fmt.Sprintf("%.0f", float(d))
}
