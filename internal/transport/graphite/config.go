package graphite

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/rules"
)

// Config configures a Poller. URL, Names, Rules and Handle are required.
type Config struct {
	// URL is the address of graphite-web, with its path if it has one. "/render" is appended.
	URL string
	// Prefix is the text that the StatsD server writes before our names; default "stats_counts", where statsd puts
	// counts per flush. Suffix follows the names, without the dot: "count" or "rate" in statsd's newer namespace; empty
	// by default. The values of "rate" are per second, all others per flush.
	Prefix, Suffix string
	Flush          time.Duration // of the StatsD server, in whole seconds; default 1 s
	Names          canon.Names   // how the senders write keys
	Rules          *rules.Set    // select the metrics, and the count from which they matter
	// Targets replaces, by the name of a rule, the target that is made of Prefix, Names and Suffix; {threshold} becomes
	// the rule's threshold. Each series is counted by itself. If the counts of one key are in several series, add them
	// up in the target (sumSeriesWithWildcards), because a part below the threshold is missed.
	Targets map[string][]string
	// Username and Password are the credentials of basic authentication.
	Username, Password string
	Header             http.Header   // added to every request
	Timeout            time.Duration // of one poll; default 5 s
	// Settle is the earliest moment of a poll after the full second; default 0. statsd flushes and cron starts the poll
	// on the full second, and a poll before the flush would not find new buckets.
	Settle    time.Duration
	MaxBody   int64                 // limit of a response in bytes, unpacked; default 32 MiB
	MaxSeries int                   // remembered at most, default 200,000; others are dropped and counted
	Handle    func([]hottype.Count) // receives the counts from Poll, and may keep the slice
	Now       func() time.Time      // default time.Now
	// Log receives the beginning and end of an outage, and settings that lose counts; default slog.Default().
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Prefix = cmp.Or(strings.Trim(c.Prefix, "."), "stats_counts")
	c.Suffix = strings.Trim(c.Suffix, ".")
	c.Flush = cmp.Or(c.Flush, time.Second)
	c.Timeout = cmp.Or(max(c.Timeout, 0), 5*time.Second)
	c.MaxBody = cmp.Or(max(c.MaxBody, 0), 32<<20)
	c.MaxSeries = cmp.Or(max(c.MaxSeries, 0), 200_000)
	c.Log = cmp.Or(c.Log, slog.Default())
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// validate checks the configuration, after withDefaults.
func (c Config) validate() error {
	if err := c.Names.Validate(); err != nil {
		return fmt.Errorf("graphite: %w", err)
	}
	switch {
	case c.Rules == nil:
		return errors.New("graphite: a poller without rules")
	case c.Handle == nil:
		return errors.New("graphite: a poller without Handle")
	case c.Flush < time.Second || c.Flush > maxFlush || c.Flush%time.Second != 0:
		return fmt.Errorf("graphite: flush interval %v is not between 1s and %v in whole seconds", c.Flush, maxFlush)
	case c.Settle < 0 || c.Settle >= time.Second:
		return fmt.Errorf("graphite: settle %v is not below 1s", c.Settle)
	}
	for name, s := range map[string]string{"prefix": c.Prefix, "suffix": c.Suffix} {
		if strings.ContainsFunc(s, func(r rune) bool { return !isPathByte(r) }) {
			return fmt.Errorf("graphite: %s %q is not letters, digits, _ and - in parts joined by \".\"", name, s)
		}
	}
	return c.validateTargets()
}

// isPathByte reports whether r has no special meaning to Graphite in a path.
func isPathByte(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-' || r == '.'
}

func (c Config) validateTargets() error {
	for name, targets := range c.Targets {
		known := slices.ContainsFunc(c.Rules.Rules, func(r *rules.Rule) bool { return r.Name == name })
		if !known {
			return fmt.Errorf("graphite: targets of rule %q: there is no such rule", name)
		}
		for _, t := range targets {
			if err := checkTarget(t); err != nil {
				return fmt.Errorf("graphite: targets of rule %q: target %.200q %w", name, t, err)
			}
		}
	}
	return nil
}

// maxTarget is the longest target as part of a URL, so that a request stays below the 4096 bytes that uwsgi accepts by
// default.
const maxTarget = 2000

func checkTarget(t string) error {
	switch {
	case strings.TrimSpace(t) == "":
		return errors.New("is empty")
	case len(url.QueryEscape(t)) > maxTarget:
		return fmt.Errorf("has more than %d bytes as part of a URL", maxTarget)
	case strings.ContainsFunc(t, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return errors.New("has control characters")
	case strings.Count(t, "(") != strings.Count(t, ")") || strings.Count(t, "{") != strings.Count(t, "}"):
		return errors.New("has brackets without their other half")
	}
	return nil
}

// renderURL returns the address of the render API, without userinfo, and the userinfo.
func renderURL(raw string) (*url.URL, *url.Userinfo, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("graphite: url: %w", err)
	}
	if u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
		return nil, nil, fmt.Errorf("graphite: url %q is not like http://graphite:8080", u.Redacted())
	}
	user := u.User
	u.User = nil
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/render")
	u.RawPath = ""
	return u.JoinPath("render"), user, nil
}
