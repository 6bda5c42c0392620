package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// tables returns the tables of the page.
func tables(r *results) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nSeed %d, commit %s, %s, Redis %s, %s.\nLoad of the machine %s (before and after), %s.\n"+
		"Requests were sent up to %.1f ms late (99th percentile, worst run).\n", r.Seed, r.Commit,
		r.Go, r.Redis, r.Machine, r.Load, r.Took, r.late())
	for _, name := range slices.Sorted(maps.Keys(r.Missing)) {
		fmt.Fprintf(&b, "Without %s: %s.\n", name, r.Missing[name])
	}
	b.WriteString("\n### Contenders\n\n| who | version | limit of 100 a second |\n|---|---|---|\n")
	for _, f := range r.Contenders {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", f.Name, f.Version, f.Kind)
	}
	r.writeAccuracy(&b)
	for _, a := range r.Accuracy {
		if len(a.Exceeded) > 0 {
			fmt.Fprintf(&b, "\n%s admitted more than its algorithm may: %s.\n", a.Contender,
				strings.Join(a.Exceeded, "; "))
		}
	}
	r.writeShares(&b)
	for _, f := range faults() {
		r.writeFault(&b, f.name)
	}
	return b.String()
}

func (r *results) writeAccuracy(b *strings.Builder) {
	b.WriteString("\n### How many pass\n\n| who | most within 0.2 s, of the edges (its algorithm may) | within 1 s " +
		"| the flood, of what fits | edges, of what fits | below the limit, denied | " +
		"at random, denied (the bucket) | admitted: p50, p99, ms | errors |\n" + strings.Repeat("|---", 9) + "|\n")
	short, second := slices.Index(stretches, 200*time.Millisecond), slices.Index(stretches, time.Second)
	for _, a := range r.Accuracy {
		even, chance := a.tally(below), a.tally(random)
		fmt.Fprintf(b, "| %s | %d (%.0f) | %d (%.0f) | %.3f | %.2f | %s | %s (%s) | %.1f, %.1f | %d |\n", a.Contender,
			a.Most[edges][short], a.May[short], a.Most[edges][second], a.May[second], ofFit(a.tally(flooded)),
			ofFit(a.tally(edges)), percent(even.Asked-even.Admitted, even.Asked),
			percent(chance.Asked-chance.Admitted, chance.Asked), percent(chance.Asked-chance.Fit, chance.Asked), a.P50,
			a.P99, a.Errors)
	}
}

// ofFit returns the number of admitted requests of a key, divided by the number that an exact bucket admits.
func ofFit(t tally) float64 { return float64(t.Admitted) / float64(max(t.Fit, 1)) }

func percent(n, of int) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(of, 1))) }

func (r *results) writeShares(b *strings.Builder) {
	b.WriteString("\n### Who passes\n\n| who | readers answered | the reader with the least | " +
		"the greedy client, a second | admitted, of what fits |\n|---|---|---|---|---|\n")
	for _, a := range r.Accuracy {
		fmt.Fprintf(b, "| %s | %.1f %% | %.0f %% | %.0f | %.3f |\n", a.Contender, 100*a.Readers, 100*a.Worst, a.Greedy,
			ofFit(a.tally(crowded)))
	}
}

func (r *results) writeFault(b *strings.Builder, fault string) {
	fmt.Fprintf(b, "\n### The store is %s\n\n| who | hot key: p50, p99, max, ms (healthy p50, p99) | "+
		"no decision: hot key, pages | admitted, of what the rate gives; after the fault | "+
		"answers within 250 ms again after | first error |\n"+
		strings.Repeat("|---", 6)+"|\n", fault)
	for _, o := range r.Faults {
		if o.Fault != fault {
			continue
		}
		fmt.Fprintf(b, "| %s | %s, %s, %s (%s, %s) | %.1f %%, %.1f %% | %d of %.0f; %d of %.0f | %s | %s |\n",
			o.Contender, short(o.P50), short(o.P99), short(o.Max), short(o.Healthy50), short(o.Healthy99),
			100*o.Undecided, 100*o.PagesUndecided, o.Hot, o.Rate, o.HotAfter, o.RateAfter, o.sound(), cut(o.First))
	}
}

// late returns the worst 99th percentile of the times by which requests were sent late, in ms.
func (r *results) late() (worst float64) {
	for _, a := range r.Accuracy {
		worst = max(worst, a.Late99)
	}
	for _, o := range r.Faults {
		worst = max(worst, o.Late99)
	}
	return worst
}

// short formats a time in ms with two digits or more.
func short(ms float64) string {
	if ms >= 10 {
		return fmt.Sprintf("%.0f", ms)
	}
	return fmt.Sprintf("%.1f", ms)
}

// cut returns the beginning of an error, for a cell.
func cut(text string) string {
	text = strings.NewReplacer("|", "/", "\n", " ").Replace(text)
	if runes := []rune(text); len(runes) > 60 {
		return string(runes[:60]) + "…"
	}
	return text
}

// documentTable returns the summary for docs/performance.md.
func documentTable(r *results) string {
	var b strings.Builder
	b.WriteString("| | at most, within 0.2 s around the end of a second | a flood gets, of what fits | " +
		"readers beside a greedy client | store frozen: p99 of the hot key, no decision | gone: no decision | " +
		"failing over: no decision, answers again after |\n" +
		strings.Repeat("|---", 7) + "|\n")
	for _, a := range r.Accuracy {
		fmt.Fprintf(&b, "| %s | %d | %.3f | %.0f %% |", a.Contender, a.Most[edges][slices.Index(stretches,
			200*time.Millisecond)], ofFit(a.tally(flooded)), 100*a.Readers)
		for _, fault := range []string{"frozen", "gone", failover} {
			o := r.fault(a.Contender, fault)
			switch {
			case o == nil:
				b.WriteString(" – |")
			case fault == "frozen":
				fmt.Fprintf(&b, " %s ms, %.0f %% |", short(o.P99), 100*o.Undecided)
			case fault == "gone":
				fmt.Fprintf(&b, " %.0f %% |", 100*o.Undecided)
			default:
				fmt.Fprintf(&b, " %.0f %%, %s |", 100*o.Undecided, o.sound())
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// fault returns the outcome of a contender with a fault, or nil if there is none.
func (r *results) fault(contender, fault string) *outcome {
	for i := range r.Faults {
		if o := &r.Faults[i]; o.Contender == contender && o.Fault == fault {
			return o
		}
	}
	return nil
}

// sound says when all got decisions again.
func (o *outcome) sound() string {
	if !o.Settled {
		return "not within the run"
	}
	return fmt.Sprintf("%.0f ms", o.Recovery)
}
