package replay

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/rules"
)

type Options struct {
	// Color uses the colours of a terminal.
	Color bool
	// Width is the width of a line in columns; 0 means 100, and less than 60 means 60.
	Width int
	// NoRules is true if no rules were configured, so that the rules are rules.Default(). The report then shows how to
	// get rules.
	NoRules bool
	// Top is the number of rows of a table; 0 means 20.
	Top int
}

// Write writes the report for people, in UTF-8. Bytes of the log reach w only as printable characters, so that a client
// cannot send escape codes to a terminal by requesting them.
func Write(w io.Writer, r *Report, o Options) error {
	p := &page{w: bufio.NewWriter(w), Options: o}
	p.Width = max(cmp.Or(o.Width, 100), 60)
	p.Top = cmp.Or(o.Top, 20)
	p.writeSummary(r)
	if r.Requests > 0 {
		p.writeChart(&r.Timeline)
		p.writeKeys(r.Keys)
		p.writeThresholds(r)
		p.writeSpans("Hot", r.Hot)
		if len(r.Loops) > 0 {
			p.writeSpans("Loops: one or a few clients, so not hot", r.Loops)
		}
		p.writeDenials(r)
		p.writeClients(r.Clients)
	}
	p.writeBrokenLines(r)
	if err := p.w.Flush(); err != nil {
		return fmt.Errorf("replay: writing the report: %w", err)
	}
	return nil
}

// page is a report that is being written. Errors stay in w until Flush.
type page struct {
	w *bufio.Writer
	Options
}

func (p *page) printf(format string, args ...any) { fmt.Fprintf(p.w, format, args...) }

const (
	bold = "1"
	dim  = "2"
	red  = "31"
)

func (p *page) paintText(color, s string) string {
	if !p.Color {
		return s
	}
	return "\x1b[" + color + "m" + s + "\x1b[0m"
}

func (p *page) writeHeading(s string) { p.printf("\n%s\n", p.paintText(bold, s)) }

func (p *page) writeSummary(r *Report) {
	p.printf("%s requests by %s clients for %s keys\n",
		p.paintText(bold, Grouped(r.Requests)), Grouped(int64(r.DistinctClients)), Grouped(int64(r.DistinctKeys)))
	if r.Requests > 0 {
		p.printf("%s to %s UTC, %s\n", Clock(r.First), Clock(r.Last), formatSpan(r.Last-r.First+1))
	}
	p.writeSources(r.Sources)
	for _, n := range []struct {
		n    int64
		what string
	}{
		{r.Malformed, "lines are malformed and left out"},
		{r.Late, "lines came too late to be put in order and are left out (a longer lateness takes them in)"},
		{r.MalformedQueries, "requests have a query beyond the limits; they count under !malformed"},
		{r.NoRule, "requests match no rule"},
		{r.Dropped.Keys, "requests are for keys beyond the number that is tracked"},
		{r.Dropped.Clients, "requests are by clients beyond the number that is tracked"},
		{r.Dropped.Spans + r.Dropped.HotSeconds, "entries of hot keys are left out, there are too many"},
		{r.Dropped.Uncertain,
			"requests may be missing from the count of a key over its window, there were too many keys"},
		{r.Dropped.EarlySeconds, "seconds were judged early, because memory for putting lines in order was full"},
	} {
		if n.n > 0 {
			p.printf("%s %s\n", p.paintText(red, Grouped(n.n)), n.what)
		}
	}
	p.writeNoCosts(r.NoCosts)
}

// writeNoCosts names the rules whose keys cannot be hot.
func (p *page) writeNoCosts(names []string) {
	if len(names) == 0 {
		return
	}
	p.printf("no key can be hot by rule %s, because no line has the cost that it counts\n",
		Printable(strings.Join(names, ", rule ")))
}

func (p *page) writeSources(origins []SourceReport) {
	hidden := 0
	for i, o := range origins {
		if i >= p.Top && o.Error == "" {
			hidden++
			continue
		}
		p.printf("%s", o.Summary())
		if o.Error != "" {
			p.printf(", %s", p.paintText(red, Printable(o.Error)))
		}
		p.printf("\n")
	}
	if hidden > 0 {
		p.printf("and %s more files\n", Grouped(int64(hidden)))
	}
}

func (p *page) writeKeys(keys []Key) {
	p.writeHeading("Busiest keys")
	p.printf("%10s %8s %8s %10s  %s\n", "requests", "peak 1s", "peak 5s", "denied", "key")
	for _, k := range keys[:min(p.Top, len(keys))] {
		p.printf("%10s %8s %8s %10s  %s\n", Grouped(k.Requests), Grouped(k.Peak1s), Grouped(k.Peak5s),
			Grouped(k.Denied), Fit(Printable(string(k.Key)), p.Width-41))
	}
}

// writeThresholds shows how many keys each of several thresholds would have found, if no rules are configured.
func (p *page) writeThresholds(r *Report) {
	if !p.NoRules {
		return
	}
	d := rules.Default().Rules[0]
	p.writeHeading("The rule in force")
	p.printf("No --config: every path with its whole query is a key, hot from %g requests a second over %g s.\n",
		d.Hot.Rate, d.Hot.Window.Seconds())
	p.printf("%10s  %s\n", "keys", "would be hot from")
	for _, h := range r.HotAt {
		p.printf("%10s  %s/s\n", Grouped(h.Keys), Grouped(h.Rate))
	}
	p.printf("`hotparam learn` finds the paths, parameters and thresholds of this log and writes a configuration.\n")
}

// writeSpans shows the spans with the highest peaks, by time.
func (p *page) writeSpans(heading string, spans []Span) {
	p.writeHeading(heading)
	if len(spans) == 0 {
		p.printf("nothing\n")
		return
	}
	shown := slices.Clone(spans)
	slices.SortStableFunc(shown, func(a, b Span) int { return cmp.Compare(b.PeakRate, a.PeakRate) })
	shown = shown[:min(p.Top, len(shown))]
	slices.SortStableFunc(shown, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	until := untilFormat(shown)
	p.printf("%-19s  %-*s %10s %8s %8s  %s\n", "from", len(until), "until", "peak/s", "clients", "heaviest",
		"key (rule)")
	for _, s := range shown {
		text := Fit(Printable(string(s.Key)), p.Width-55-len(until)-len(s.Rule)) + " (" + s.Rule + ")"
		p.printf("%s  %s %10.1f %8s %8s  %s\n", Clock(s.From), time.Unix(s.Until, 0).UTC().Format(until),
			s.PeakRate, valueOrDash(s.Clients > 0, "%d", s.Clients),
			valueOrDash(s.Client != "", "%.0f %%", 100*s.ClientShare), text)
	}
	if more := len(spans) - len(shown); more > 0 {
		p.printf("and %s more with lower peaks\n", Grouped(int64(more)))
	}
}

// valueOrDash returns a value as text, or a dash if the value is not known.
func valueOrDash(is bool, format string, value any) string {
	if !is {
		return "-"
	}
	return fmt.Sprintf(format, value)
}

// untilFormat returns the format of a time without its date if every span ends on the day on which it began, and
// otherwise with its date.
func untilFormat(spans []Span) string {
	if slices.ContainsFunc(spans, func(s Span) bool { return s.From/86400 != s.Until/86400 }) {
		return time.DateTime
	}
	return time.TimeOnly
}

func (p *page) writeDenials(r *Report) {
	p.writeHeading("Would have been denied")
	if r.Denied.Total() == 0 && r.Shadowed == 0 {
		p.printf("nothing\n")
	}
	row := func(n uint64, what string) {
		if n > 0 {
			p.printf("%10s %6.2f %%  %s\n", Grouped(int64(n)), 100*float64(n)/float64(r.Requests), what)
		}
	}
	for reason, n := range r.Denied.All() {
		row(n, reason.Info().Replayed)
	}
	ofClient := r.ShadowedBy.OfClient()
	row(uint64(r.Shadowed)-ofClient, "by limits of keys in shadow mode, which let them pass")
	row(ofClient, "by windows of clients in shadow mode, which let them pass")
}

func (p *page) writeClients(clients []Client) {
	p.writeHeading("Busiest clients")
	p.printf("%10s %8s %8s %10s  %s\n", "requests", "peak 1s", "peak 60s", "denied", "client")
	for _, c := range clients[:min(p.Top, len(clients))] {
		p.printf("%10s %8s %8s %10s  %s\n", Grouped(c.Requests), Grouped(c.Peak1s), Grouped(c.Peak60s),
			Grouped(c.Denied), Fit(Printable(c.Client), p.Width-41))
	}
}

func (p *page) writeBrokenLines(r *Report) {
	if len(r.Broken) == 0 {
		return
	}
	p.writeHeading("Malformed lines, the first of " + Grouped(r.Malformed))
	for _, b := range r.Broken {
		p.printf("%s\n", Fit(fmt.Sprintf("%s:%d: %s", Printable(b.Source), b.Line, Printable(b.Reason)), 2*p.Width))
	}
}

// Summary returns one printable line about the source: its format, the times of its requests, and the number of lines
// and of malformed ones, with their most frequent reason and an example.
func (s *SourceReport) Summary() string {
	text := Printable(s.Name)
	if s.Format != "" {
		text += fmt.Sprintf(": %s", Printable(string(s.Format)))
	}
	if s.First > 0 {
		text += fmt.Sprintf(", %s to %s UTC", Clock(s.First), Clock(s.Last))
	}
	text += fmt.Sprintf(", %s lines", Grouped(s.Lines))
	if r := s.Refused; r != nil {
		text += fmt.Sprintf(", %s refused, of which %s like line %d: %s", Grouped(s.Malformed), Grouped(r.Lines),
			r.Line, Printable(r.Example))
	}
	return text
}

// Grouped writes 1234567 as 1,234,567.
func Grouped(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Clock writes a unix second as a time in UTC.
func Clock(second int64) string { return time.Unix(second, 0).UTC().Format(time.DateTime) }

// formatSpan writes a number of seconds in its two greatest units.
func formatSpan(seconds int64) string {
	units := []struct {
		seconds int64
		name    string
	}{{86400, "d"}, {3600, "h"}, {60, "m"}, {1, "s"}}
	var parts []string
	for _, u := range units {
		if n := seconds / u.seconds; (n > 0 || len(parts) > 0) && len(parts) < 2 {
			parts = append(parts, fmt.Sprint(n)+u.name)
			seconds %= u.seconds
		}
	}
	if len(parts) == 0 {
		return "0s"
	}
	return strings.Join(parts, "")
}
