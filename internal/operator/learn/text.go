package learn

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/operator/replay"
)

// quote writes a text as YAML. JSON is YAML, and its callers pass only text that has been
// checked to be plain ASCII (isName, isPlain) or is a constant of this package.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string has a JSON form
	}
	return string(b)
}

func quoteAll(all []string) string {
	quoted := make([]string, len(all))
	for i, s := range all {
		quoted[i] = quote(s)
	}
	return strings.Join(quoted, ", ")
}

// wrap cuts a text into lines at spaces.
func wrap(s string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// lines are sentences on what a proposal would have done.
func (o *Outcome) lines(p *Proposal) []string {
	r := o.Replay
	all := []string{fmt.Sprintf("On this log, enforced: keys that were hot: %d; that looked so because of a loop: %d; "+
		"requests denied: %s (%.2f %%), of these %s by windows of clients.", o.Hot, o.Loops,
		replay.Grouped(int64(r.Denied.Total())), 100*float64(r.Denied.Total())/float64(max(r.Requests, 1)),
		replay.Grouped(int64(r.Denied.OfClient())))}
	if len(p.rules) > 0 {
		all = append(all, fmt.Sprintf("At half the limits of hot keys: %s denied.", replay.Grouped(o.DeniedHarder)))
	}
	all = append(all, fmt.Sprintf("Ordinary clients that would have been denied a request: %s of %s "+
		"(%s by windows of clients); loops and scanners: %s.", replay.Grouped(o.Hurt), replay.Grouped(o.Ordinary),
		replay.Grouped(o.HurtByIP), replay.Grouped(o.Stopped)))
	for _, k := range [...]kind{loop, scanner} {
		if list := p.visitors.busiest(k); list != "" {
			all = append(all, fmt.Sprintf("Busiest %s: %s.", k, list))
		}
	}
	return append(all, "All limits are in shadow mode: they deny nothing until you change that.")
}

// Write writes a summary of the proposal and its outcome for people.
func (p *Proposal) Write(w io.Writer) error {
	var f file
	census := p.visitors.census()
	f.line("%s requests, %s clients: %s", replay.Grouped(p.Read.Requests), replay.Grouped(int64(len(p.visitors.all))),
		kindsOf(census))
	for _, r := range p.rules {
		what := "nothing stands out yet"
		if r.found() {
			what = fmt.Sprintf("%d values went viral", r.viral)
		}
		f.line("rule %s: %s by %s; hot from %d in %d s; %s", r.name, r.at.pattern, strings.Join(r.names(), ", "),
			r.requests, r.window, what)
	}
	if len(p.rules) == 0 {
		f.line(
			"no path has a parameter whose values many clients want at a time: everything is watched, nothing limited")
	}
	for _, line := range append(p.caveats(), p.Outcome.lines(p)...) {
		f.line("%s", line)
	}
	if _, err := io.WriteString(w, f.String()); err != nil {
		return fmt.Errorf("learn: writing: %w", err)
	}
	return nil
}

func kindsOf(census [kinds]int64) string {
	var all []string
	for k, n := range census {
		if n > 0 {
			all = append(all, fmt.Sprintf("%s %s", replay.Grouped(n), kind(k)))
		}
	}
	return strings.Join(all, ", ")
}

// about writes a number that may come from a sample.
func about(n float64) string {
	if n > maxValues {
		return "about " + replay.Grouped(int64(n))
	}
	return replay.Grouped(int64(n))
}

// spanOf writes a time in words.
func spanOf(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f seconds", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f minutes", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.0f hours", d.Hours())
	}
	return fmt.Sprintf("%.0f days", d.Hours()/24)
}
