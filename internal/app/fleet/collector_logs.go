package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/counting/accesslog"
	"github.com/hotparam/pipeline/internal/counting/tail"
	"github.com/hotparam/pipeline/internal/deciding/costs"
	"github.com/hotparam/pipeline/internal/operator/metrics"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/transport/statsd"
)

type accessLog struct {
	name      string // path of the file, or the address of syslog
	collector *collector
	source    interface {
		Run(ctx context.Context, f func(line []byte)) error
		Stats() tail.Stats
	}
	format             accesslog.Format  // "" if it is detected
	parser             *accesslog.Parser // nil: not known yet
	proxies            *rules.Set        // whose trusted proxies parser knows
	fields             string            // the #Fields line of a log whose form is not known yet
	malformed, skipped atomic.Uint64
}

func (c *collector) openLogs(ctx context.Context) error {
	access := c.cfg.Access
	format, err := config.LogFormat(access.Format, access.LogFormat)
	if err != nil {
		return err
	}
	for _, path := range access.File {
		t, err := tail.New(tail.Config{Path: path, Log: c.log})
		if err != nil {
			return fmt.Errorf("%w (--accesslog.file)", err)
		}
		c.logs = append(c.logs, &accessLog{name: path, collector: c, source: t})
	}
	if access.Syslog != "" {
		allow, err := statsd.ParseAllow(access.SyslogAllow)
		if err != nil {
			return fmt.Errorf("%w (--accesslog.syslog_allow)", err)
		}
		s, err := tail.ListenSyslog(ctx, tail.SyslogConfig{Addr: access.Syslog, Allow: allow, Log: c.log})
		if err != nil {
			return fmt.Errorf("%w (--accesslog.syslog)", err)
		}
		c.logs = append(c.logs, &accessLog{name: "syslog " + s.Addr(), collector: c, source: s})
	}
	for _, l := range c.logs {
		l.format = format
	}
	return nil
}

func (c *collector) accessStats() (out metrics.AccessLogStats) {
	for _, l := range c.logs {
		t := l.source.Stats()
		out.Lines += t.Lines
		out.TooLong += t.TooLong
		out.Errors += t.Errors
		out.Rejected += t.Rejected
		out.Malformed += l.malformed.Load()
		out.Skipped += l.skipped.Load()
	}
	out.UnknownCosts = c.costs.Unknown()
	return out
}

// Run reads the log until ctx ends, or to the end of standard input.
func (l *accessLog) Run(ctx context.Context) error {
	var scratch rules.Scratch
	var e accesslog.Entry
	return l.source.Run(ctx, func(line []byte) {
		err := l.parse(string(line), &e)
		switch {
		case errors.Is(err, accesslog.ErrSkip):
			l.skipped.Add(1)
			return
		case err != nil:
			l.malformed.Add(1)
			l.logMalformed(line, err)
			return
		}
		set := l.collector.rules.Load()
		client := set.IP.ClientOf(e.Request.Client)
		matches := set.Match(&e.Request, &scratch)
		for i := range matches {
			l.collector.recordUse(set, &matches[i], e.Second, e.Request.Target)
			if r := matches[i].Rule; r.Cost != "" {
				l.collector.costs.CountGiven(e.Second, matches[i].Key, r, costs.Given(e.Costs), client)
				continue
			}
			l.collector.tally.AddFrom(matches[i].Key, e.Second, 1, client)
		}
	})
}

// parse reads a line. The first line that has a request shows the format, if it is not configured, and the words that
// stand before each line.
func (l *accessLog) parse(line string, e *accesslog.Entry) error {
	set := l.collector.rules.Load()
	if l.parser == nil {
		if strings.HasPrefix(line, "#") {
			if strings.HasPrefix(line, "#Fields:") {
				l.fields = line
			}
			return accesslog.ErrSkip
		}
		p, found, err := accesslog.Open(accesslog.Config{Format: l.format}, []string{l.fields, line})
		switch {
		case err != nil:
			return err
		case !found && l.format == "":
			return fmt.Errorf("none of %s; describe a line with --accesslog.log_format (%w)",
				strings.Join(accesslog.Names(), ", "), withoutValue(p.Parse(line, e)))
		case !found:
			return p.Parse(line, e)
		}
		l.collector.log.Info("access log: the format is detected", "file", l.name, "format", p.Format())
		if l.parser = p; l.fields != "" {
			_ = l.parser.Parse(l.fields, e) // a line of fields has no request
		}
	}
	if l.proxies != set {
		l.proxies = set
		l.parser.TrustProxies(set.IP.TrustedProxies)
	}
	return l.parser.Parse(line, e)
}

// withoutValue returns an error that quotes no part of a line, because the line may hold values that the rules redact.
func withoutValue(err error) error {
	if of := (*accesslog.Error)(nil); errors.As(err, &of) {
		return errors.New(of.Reason)
	}
	return err
}

func (l *accessLog) logMalformed(line []byte, err error) {
	if len(line) > 200 {
		line = line[:200]
	}
	if l.collector.rules.Load().Redacts() {
		line, err = []byte("not shown, because the rules redact values"), withoutValue(err)
	}
	l.collector.log.Warn("access log: a line that is not understood; it is not counted",
		"file", l.name, "err", err, "line", string(line), "malformed_so_far", l.malformed.Load())
}
