package doctor

import (
	"fmt"
	"time"
)

// Level says how bad a finding is.
type Level string

// The levels of a finding.
const (
	OK   Level = "ok"
	Warn Level = "warn" // works now, and may not when it matters
	Fail Level = "fail" // is broken, or breaks counts or limits silently
)

// Finding is one thing that was looked at. The JSON names are a contract.
type Finding struct {
	Level Level `json:"level"`
	// What was found: "maxmemory-policy is allkeys-lru".
	What string `json:"what"`
	// Where it stands: an address, a file and line, a setting.
	Where string `json:"where"`
	// Why it matters; empty where all is well.
	Why string `json:"why,omitempty"`
	// Fix is a command or a line of configuration, as it can be copied.
	Fix string `json:"fix,omitempty"`
}

// Report is all findings of one look.
type Report struct {
	Findings []Finding `json:"findings"`
}

// Worst is the worst level of all.
func (r Report) Worst() Level {
	for _, l := range []Level{Fail, Warn} {
		if r.Count(l) > 0 {
			return l
		}
	}
	return OK
}

// Count says how many findings have a level.
func (r Report) Count(l Level) int {
	n := 0
	for _, f := range r.Findings {
		if f.Level == l {
			n++
		}
	}
	return n
}

// Expected is what the pipeline asks of its surroundings.
type Expected struct {
	// Window is the shortest window of a rule.
	Window time.Duration
	// Plain says that metric names have the style plain.
	Plain bool
	// FromGraphite says that detection reads what Graphite stores.
	FromGraphite bool
	// Prefix is what the counters of ours have before their names where Graphite
	// is asked for them.
	Prefix string
	// Metrics are names of some counters of ours as a StatsD server writes them
	// to Graphite.
	Metrics []string
	// RulesInRedis says that programs have their rules from Redis.
	RulesInRedis bool
	// Budget is the longest wait for Redis in a decision.
	Budget time.Duration
	// HotTTL is how long a hot key stays without being published again.
	HotTTL time.Duration
	// Lateness is the oldest count that still has a place.
	Lateness time.Duration
}

// list collects findings about one place.
type list struct {
	where    string
	findings []Finding
}

func (l *list) ok(format string, args ...any) {
	l.findings = append(l.findings, Finding{Level: OK, What: fmt.Sprintf(format, args...), Where: l.where})
}

// add appends a finding; where, if empty, is that of the list.
func (l *list) add(level Level, f Finding) {
	f.Level = level
	if f.Where == "" {
		f.Where = l.where
	}
	l.findings = append(l.findings, f)
}

// unknown says what could not be looked at.
func (l *list) unknown(what, reason string) {
	l.add(Warn, Finding{What: what + " is not known: " + reason, Why: "what is not known cannot be judged"})
}

// bytes writes a size for people: 16 MiB.
func bytes(n int64) string {
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
