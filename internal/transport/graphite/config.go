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

// Config configures a Poller. URL, Names, Rules and Handle are needed.
type Config struct {
	// URL is that of graphite-web, with a path where it has one. "/render" is added.
	URL string
	// Prefix is what the StatsD server writes before our names; default "stats_counts", where statsd
	// puts counts per flush. Suffix follows them, without the dot: "count" and "rate" of statsd's
	// newer namespace; default none. The values of "rate" are per second, all others per flush.
	Prefix, Suffix string
	Flush          time.Duration // of the StatsD server, in whole seconds; default 1 s
	Names          canon.Names   // how the senders write keys
	Rules          *rules.Set    // which metrics there are, and from which count on they matter
	// Targets replace, by the name of a rule, the target that is made of Prefix, Names and Suffix;
	// {threshold} becomes the rule's threshold. Each series is counted for itself: where parts of one
	// key are in several, add them up in the target (sumSeriesWithWildcards), or a part below the
	// threshold is missed.
	Targets map[string][]string
	// Username and Password are for basic authentication.
	Username, Password string
	Header             http.Header   // of every request
	Timeout            time.Duration // of one poll; default 5 s
	// Settle is how long after the full second a poll begins at the earliest; default none. statsd
	// flushes and cron starts the poll on the full second: a poll before the flush sees nothing new.
	Settle    time.Duration
	MaxBody   int64                 // bytes of an answer, unpacked; default 32 MiB
	MaxSeries int                   // that are remembered, default 200,000; others are dropped and counted
	Handle    func([]hottype.Count) // gets the counts from Poll, and may keep the slice
	Now       func() time.Time      // default time.Now
	// Log receives the beginning and end of an outage, and settings that lose counts; default
	// slog.Default().
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

// validate expects the defaults to be in place.
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

// isPathByte reports bytes without a meaning to Graphite in a path.
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

// maxTarget keeps a request below the 4096 bytes that uwsgi takes by default.
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

// renderURL is the address of the render API, without userinfo.
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
