package main

import (
	"fmt"
	"slices"
	"strings"
)

func tables(r *results) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nSeed %d, %s, %s; load of the machine %s (other work).\n", r.Seed, r.Go, r.Machine, r.Load)
	b.WriteString(
		"\n### Found and told\n\nT is 1000 requests in 5 s for made traffic. \"Late\" is of keys that were told later than by an exact count: median,\nlongest.\n\n")
	accuracyTable(&b, r, func(a accuracy) bool { return a.Group != "logs" })
	fmt.Fprintf(&b, "\n### By the rule of thumb: %d counters for each time that the rate goes into all requests\n\n",
		thumb)
	accuracyRows(&b, r.Thumb)
	if logs := func(a accuracy) bool { return a.Group == "logs" }; slices.ContainsFunc(r.Accuracy, logs) {
		b.WriteString("\n### Real logs, sped up\n\n")
		accuracyTable(&b, r, logs)
	}
	b.WriteString(
		"\n### Cost\n\n| traffic | counters | times the CPU of Go maps (lowest-highest) | M updates per CPU second | heap, MB | bytes a counter | heap after, MB |\n|---|---|---|---|---|---|---|\n")
	for _, c := range r.Cost {
		fmt.Fprintf(&b, "| %s | %d | %.2f (%.2f-%.2f) | %.1f | %.1f | %d | %.2f |\n", c.Stream, c.Counters, c.Times[0],
			c.Times[1], c.Times[2],
			c.PerSecond, float64(c.Heap)/1e6, c.Heap/int64(c.Counters), float64(c.Idle)/1e6)
	}
	b.WriteString("\n### Criteria\n\n| what happens |")
	for _, c := range criteria {
		b.WriteString(" `" + c.hot + "` |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(criteria)) + "\n")
	for _, o := range r.Criteria {
		b.WriteString("| " + o.Situation + " | " + strings.Join(o.Said, " | ") + " |\n")
	}
	b.WriteString("\n")
	return b.String()
}

func accuracyTable(b *strings.Builder, r *results, is func(accuracy) bool) {
	accuracyRows(b, slices.DeleteFunc(slices.Clone(r.Accuracy), func(a accuracy) bool { return !is(a) }))
}

func accuracyRows(b *strings.Builder, rows []accuracy) {
	b.WriteString(
		"| traffic | counters | recall | precision | E said | real error | mean error of hot keys | hot keys | told at once | late, ms | never |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, a := range rows {
		late := "-"
		if n := a.Crossed - a.SameTick - a.Never; n > 0 {
			late = fmt.Sprintf("%d; %d", a.DelayHalf, a.DelayMost)
		}
		fmt.Fprintf(b, "| %s | %d | %.3f | %.3f | %d | %d | %.2f %% | %d | %d | %s | %d |\n", a.Stream, a.Counters,
			a.Recall, a.Precision,
			a.Said, a.Real, 100*a.Mean, a.Crossed, a.SameTick, late, a.Never)
	}
}
