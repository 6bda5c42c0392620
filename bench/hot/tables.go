package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/bench/internal/measure"
	"github.com/hotparam/pipeline/bench/internal/trace"
)

// given is the mean error for which the bytes are compared.
const given = 0.02

func tables(r *results) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nSeed %d, commit %s, %s, %s; load of the machine %s (other work), %s.\n", r.Seed, r.Commit,
		r.Versions["go"], r.Machine, r.Load, r.Took)
	for _, module := range []string{"github.com/keilerkonzept/topk", "github.com/pingcap/go-ycsb"} {
		fmt.Fprintf(&b, "%s %s. ", module, r.Versions[module])
	}
	b.WriteString("\n\n" + wrapped(trace.Attribution) + "\n### All traces together\n\n")
	b.WriteString(summary(r))
	fmt.Fprintf(&b, "\n### Bytes for a mean error of %.0f %%\n\n", 100*given)
	b.WriteString(bytesTable(r))
	b.WriteString("\n### CPU\n\n" + costTable(r))
	b.WriteString("\n### Traces\n\n| trace | what | requests | keys | seconds | hot from |\n" +
		"|---|---|---|---|---|---|\n")
	for _, t := range r.Traces {
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %.0f | %d |\n", t.Name, t.About, t.Requests, t.Keys, t.Seconds, t.Hot)
	}
	for _, t := range r.Traces {
		fmt.Fprintf(&b, "\n### %s\n\n%s", t.Name, scoreTable(rowsOf(r.Scores, t.Name)))
	}
	b.WriteString("\n")
	return b.String()
}

func rowsOf(rows []row, name string) []row {
	return slices.DeleteFunc(slices.Clone(rows), func(x row) bool { return x.Trace != name })
}

// scoreTable shows rows of one trace.
func scoreTable(rows []row) string {
	var b strings.Builder
	b.WriteString("| who | recall | precision | order | error | hot keys | at once | late: median, 95th | missed | " +
		"false alarms | an hour | bytes |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, x := range rows {
		late := "-"
		if x.Most > 0 {
			late = fmt.Sprintf("%.1f, %.1f s", float64(x.Half)/1000, float64(x.Most)/1000)
		}
		order := "-"
		if x.Rankings > 0 {
			order = fmt.Sprintf("%.3f", x.Order)
		}
		fmt.Fprintf(&b, "| %s | %.3f | %.3f | %s | %.2f %% | %d | %.0f %% | %s | %.0f %% | %d | %.0f | %d |\n",
			x.Contender, x.Recall, x.Precision, order, 100*x.Error, x.Episodes, 100*x.AtOnce, late, 100*x.Missed,
			x.Alarms, x.AlarmsHour, x.Bytes)
	}
	return b.String()
}

// contenders returns the names of the contenders in their order.
func (r *results) contenders() (names []string) {
	for _, x := range r.Scores {
		if !slices.Contains(names, x.Contender) {
			names = append(names, x.Contender)
		}
	}
	return names
}

// summary shows the mean over all traces, each of which counts alike, and the worst. Alarms are a median, because where
// every key seems hot there is no meaning in their mean.
func summary(r *results) string {
	var b strings.Builder
	b.WriteString("| who | recall (worst) | precision (worst) | order | error (worst) | at once | " +
		"late, worst 95th percentile | missed | false alarms an hour, median | " +
		"M updates per CPU second: web12, zipfian, flood |\n" +
		"|---|---|---|---|---|---|---|---|---|---|\n")
	for _, name := range r.contenders() {
		mean := func(of func(row) float64) string { return fmt.Sprintf("%.3f", r.mean(name, of)) }
		percent := func(of func(row) float64) string { return fmt.Sprintf("%.1f %%", 100*r.mean(name, of)) }
		both := func(of func(row) float64) string {
			return fmt.Sprintf("%s (%.2f)", mean(of), slices.Min(r.each(name, of)))
		}
		ordered := func(x row) float64 {
			if x.Rankings == 0 {
				return math.NaN()
			}
			return x.Order
		}
		wrong := func(x row) float64 { return 100 * x.Error }
		late := slices.Max(r.each(name, func(x row) float64 { return float64(x.Most) / 1000 }))
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %.2f %% (%.1f) | %s | %.1f s | %s | %.0f | %s |\n", name,
			both(func(x row) float64 { return x.Recall }), both(func(x row) float64 { return x.Precision }),
			mean(ordered), r.mean(name, wrong), slices.Max(r.each(name, wrong)),
			percent(func(x row) float64 { return x.AtOnce }), late, percent(func(x row) float64 { return x.Missed }),
			measure.Median(r.each(name, func(x row) float64 { return x.AlarmsHour })), r.speeds(name))
	}
	return b.String()
}

// documentTable shows the figures of the summary that a reader of docs/performance.md needs.
func documentTable(r *results) string {
	var b strings.Builder
	b.WriteString("| | recall (worst) | precision (worst) | error | named at once | false alarms an hour, median | " +
		"updates per CPU second, flood | memory for an error of 2 %, zipfian |\n|---|---|---|---|---|---|---|---|\n")
	for _, who := range r.contenders() {
		recall, precision := func(x row) float64 { return x.Recall }, func(x row) float64 { return x.Precision }
		fmt.Fprintf(&b, "| %s | %.3f (%.2f) | %.3f (%.2f) | %.2f %% | %.0f %% | %.0f | %s M | %s |\n", who,
			r.mean(who, recall), slices.Min(r.each(who, recall)), r.mean(who, precision),
			slices.Min(r.each(who, precision)), 100*r.mean(who, func(x row) float64 { return x.Error }),
			100*r.mean(who, func(x row) float64 { return x.AtOnce }),
			measure.Median(r.each(who, func(x row) float64 { return x.AlarmsHour })),
			r.speed(who, "flood of unique keys"), r.leastBytes(who, "zipfian"))
	}
	return b.String()
}

// each returns a figure of a contender for each trace that has it.
func (r *results) each(name string, of func(row) float64) (all []float64) {
	for _, x := range r.Scores {
		if n := of(x); x.Contender == name && !math.IsNaN(n) {
			all = append(all, n)
		}
	}
	return all
}

func (r *results) mean(name string, of func(row) float64) (sum float64) {
	all := r.each(name, of)
	for _, n := range all {
		sum += n / float64(len(all))
	}
	return sum
}

// speeds returns the updates of a contender on the traces whose cost is measured.
func (r *results) speeds(name string) string {
	var speeds []string
	for _, c := range r.Costs {
		if c.Contender == name {
			speeds = append(speeds, r.speed(name, c.Trace))
		}
	}
	return strings.Join(speeds, " / ")
}

// speed returns the millions of updates of a contender per CPU second on a trace, or "-".
func (r *results) speed(name, on string) string {
	for _, c := range r.Costs {
		if c.Contender == name && c.Trace == on {
			return fmt.Sprintf("%.1f", c.Updates[0])
		}
	}
	return "-"
}

// leastBytes returns the smallest memory with which a contender had at most the given error on a trace.
func (r *results) leastBytes(name, on string) string {
	least := 0
	for _, x := range rowsOf(r.Sizes, on) {
		if x.Contender == name && x.Error <= given && (least == 0 || x.Bytes < least) {
			least = x.Bytes
		}
	}
	if least == 0 {
		return "more than 2 MiB"
	}
	return fmt.Sprintf("%d KiB", least>>10)
}

// bytesTable shows the smallest number of bytes with which a contender had the given error on a trace.
func bytesTable(r *results) string {
	var b strings.Builder
	var names []string
	for _, x := range r.Sizes {
		if !slices.Contains(names, x.Trace) {
			names = append(names, x.Trace)
		}
	}
	b.WriteString("| who | " + strings.Join(names, " | ") + " |\n|---|" + strings.Repeat("---|", len(names)) + "\n")
	for _, who := range r.contenders() {
		b.WriteString("| " + who + " |")
		for _, name := range names {
			b.WriteString(" " + r.leastBytes(who, name) + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func costTable(r *results) string {
	var b strings.Builder
	b.WriteString("| trace | who | M updates per CPU second (lowest-highest) | without judging | ours is better |\n" +
		"|---|---|---|---|---|\n")
	for _, c := range r.Costs {
		ours := fmt.Sprintf("%.2f x", c.Ours)
		if c.Contender == "hotparam" {
			ours = ""
		}
		fmt.Fprintf(&b, "| %s | %s | %.1f (%.1f-%.1f) | %.1f | %s |\n", c.Trace, c.Contender, c.Updates[0],
			c.Updates[1], c.Updates[2], c.Alone, ours)
	}
	return b.String()
}

// wrapped breaks a text into lines of at most 120 columns.
func wrapped(text string) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		if column > 0 && column+1+len(word) > 120 {
			b.WriteString("\n")
			column = 0
		} else if column > 0 {
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String() + "\n"
}
