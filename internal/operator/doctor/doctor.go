// Package doctor judges inspections of the systems around the pipeline: a finding describes a setting or state that
// breaks silently, the reason why it matters, and how to fix it.
//
//	statsd.Inspect, carbon.Inspect, kafka.Inspect, redisclient.Client.Inspect, udpstat.Inspect
//	        └── plain facts ──> doctor ──> []Finding ──> text or JSON
//
// It inspects nothing itself. A [Finding] of level ok is reported too, so that the report shows all that was inspected.
package doctor

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"
)

type Level string

const (
	OK   Level = "ok"
	Warn Level = "warn" // works now, but may fail when it matters
	Fail Level = "fail" // is broken, or breaks counts or limits silently
)

// Finding is the result for one thing that was inspected. The JSON names are a contract.
type Finding struct {
	Level Level `json:"level"`
	// What describes the finding: "maxmemory-policy is allkeys-lru".
	What string `json:"what"`
	// Where is its place: an address, a file and line, a setting.
	Where string `json:"where"`
	// Why is the reason why it matters, or empty if all is well.
	Why string `json:"why,omitempty"`
	// Fix is a command or a line of configuration that can be copied.
	Fix string `json:"fix,omitempty"`
}

type Report struct {
	Findings []Finding `json:"findings"`
}

func (r Report) Worst() Level {
	for _, l := range []Level{Fail, Warn} {
		if r.Count(l) > 0 {
			return l
		}
	}
	return OK
}

func (r Report) Count(l Level) int {
	n := 0
	for _, f := range r.Findings {
		if f.Level == l {
			n++
		}
	}
	return n
}

// Expected holds the requirements of the pipeline for its environment.
type Expected struct {
	// Window is the shortest window of a rule.
	Window time.Duration
	// Plain is true if metric names have the style plain.
	Plain bool
	// FromGraphite is true if detection reads from Graphite.
	FromGraphite bool
	// Prefix is the prefix of the names of our counters in Graphite.
	Prefix string
	// Metrics are names of some of our counters, as a StatsD server writes them to Graphite.
	Metrics []string
	// RulesInRedis is true if programs read their rules from Redis.
	RulesInRedis bool
	// Passes is true if limiters share secrets of passes in Redis.
	Passes bool
	// Budget is the longest wait for Redis in a decision.
	Budget time.Duration
	// HotTTL is how long a hot key lasts without being published again.
	HotTTL time.Duration
	// Lateness is the age of the oldest count that is not dropped.
	Lateness time.Duration
}

type list struct {
	where    string
	findings []Finding
}

func (l *list) addOK(format string, args ...any) {
	l.findings = append(l.findings, Finding{Level: OK, What: fmt.Sprintf(format, args...), Where: l.where})
}

// add appends a finding. An empty Where becomes the place of the list.
func (l *list) add(level Level, f Finding) {
	f.Level, f.Where = level, cmp.Or(f.Where, l.where)
	l.findings = append(l.findings, f)
}

func (l *list) addWarning(f Finding) { l.add(Warn, f) }
func (l *list) addFailure(f Finding) { l.add(Fail, f) }

func (l *list) addUnknown(what, reason string) {
	l.addWarning(Finding{What: what + " is not known: " + reason, Why: "an unknown value cannot be judged"})
}

// formatBytes writes a size for people, such as 16 MiB.
func formatBytes(n int64) string {
	for _, u := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.size {
			return fmt.Sprintf("%.4g %s", float64(n)/float64(u.size), u.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

type Options struct {
	Color bool
	// Quiet leaves out findings of level ok.
	Quiet bool
}

// Write writes a report for people: one paragraph for each finding, and the totals last.
func Write(w io.Writer, r Report, o Options) error {
	var b strings.Builder
	for _, f := range r.Findings {
		if f.Level == OK && o.Quiet {
			continue
		}
		o.writeFinding(&b, f)
	}
	fmt.Fprintf(&b, "%d ok, %d warnings, %d failures\n", r.Count(OK), r.Count(Warn), r.Count(Fail))
	_, err := io.WriteString(w, b.String())
	return err
}

func (o Options) writeFinding(b *strings.Builder, f Finding) {
	fmt.Fprintf(b, "%s  %s\n", o.paintLevel(f.Level), strings.ReplaceAll(printableText(f.What), "\n", "\n      "))
	for _, row := range [][2]string{{"where", f.Where}, {"why", f.Why}, {"fix", f.Fix}} {
		if row[1] != "" && (f.Level != OK || row[0] == "where") {
			fmt.Fprintf(b, "      %-5s %s\n", row[0], strings.ReplaceAll(printableText(row[1]), "\n", "\n            "))
		}
	}
}

func (o Options) paintLevel(l Level) string {
	word := fmt.Sprintf("%-4s", l)
	if !o.Color {
		return word
	}
	color := map[Level]string{OK: "32", Warn: "33", Fail: "31;1"}[l]
	return "\x1b[" + color + "m" + word + "\x1b[0m"
}

// printableText replaces the control characters of servers' texts, so that they do not reach the terminal.
func printableText(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, s)
}
