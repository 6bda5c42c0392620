package learn

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// quote writes a text as YAML. JSON is YAML, and what comes here has been checked to
// be plain ASCII (isName, isPlain) or is ours.
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

// lines say what a proposal would have done.
func (o *Outcome) lines(p *Proposal) []string {
	r := o.Replay
	all := []string{fmt.Sprintf("On this log, enforced: keys that were hot: %d; that looked so because of a loop: %d; "+
		"requests denied: %s (%.2f %%), of these %s by windows of clients.", o.Hot, o.Loops, grouped(r.Denied.Total()),
		100*float64(r.Denied.Total())/float64(max(r.Requests, 1)),
		grouped(r.Denied.IPFixed+r.Denied.IPSliding))}
	if len(p.rules) > 0 {
		all = append(all, fmt.Sprintf("At half the limits of hot keys: %s denied.", grouped(o.DeniedHarder)))
	}
	all = append(all, fmt.Sprintf("Ordinary clients that would have been denied a request: %s of %s "+
		"(%s by windows of clients); loops and scanners: %s.", grouped(o.Hurt), grouped(o.Ordinary),
		grouped(o.HurtByIP), grouped(o.Stopped)))
	for _, k := range [...]kind{loop, scanner} {
		if list := p.visitors.busiest(k); list != "" {
			all = append(all, fmt.Sprintf("Busiest %s: %s.", k, list))
		}
	}
	return append(all, "All limits are in shadow mode: they deny nothing until you change that.")
}

// Write writes for people what was found and what it would have done.
func (p *Proposal) Write(w io.Writer) error {
	var f file
	census := p.visitors.census()
	f.line("%s requests, %s clients: %s", grouped(p.Read.Requests), grouped(int64(len(p.visitors.all))),
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
			all = append(all, fmt.Sprintf("%s %s", grouped(n), kind(k)))
		}
	}
	return strings.Join(all, ", ")
}

// about writes a number that may come from a sample.
func about(n float64) string {
	if n > maxValues {
		return "about " + grouped(int64(n))
	}
	return grouped(int64(n))
}

// grouped writes 1234567 as 1,234,567.
func grouped(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// cut shortens a text.
func cut(s string, columns int) string {
	if runes := []rune(s); len(runes) > columns {
		return string(runes[:columns-1]) + "…"
	}
	return s
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
