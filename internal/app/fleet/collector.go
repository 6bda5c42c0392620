package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/app/program"
	"github.com/hotparam/pipeline/internal/counting/accesslog"
	"github.com/hotparam/pipeline/internal/counting/arrival"
	"github.com/hotparam/pipeline/internal/counting/tail"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/operator/admin/live"
	"github.com/hotparam/pipeline/internal/operator/metrics"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/listener"
	"github.com/hotparam/pipeline/internal/serving/mirror"
	"github.com/hotparam/pipeline/internal/transport/statsd"
	"github.com/hotparam/pipeline/internal/wait"
)

type collector struct {
	cfg       config.Collector
	log       *slog.Logger
	rules     atomic.Pointer[rules.Set]
	clients   *httplimit.Clients // of mirrored requests
	out       *sink
	history   *sink // nil: none
	tally     *tally.Tally
	listeners *program.Listeners
	listener  *statsd.Listener // nil: none
	mirror    *mirror.Handler
	front     *listener.Server // of mirror; nil: none
	logs      []*accessLog
	stood     wait.Standstill
}

// Collector runs cmd/collector: StatsD lines, mirrored requests and access logs
// in, Kafka or StatsD out. It returns when ctx ends and all is handed over.
func Collector(ctx context.Context, cfg config.Collector, file *config.Parser, version string) error {
	c := &collector{cfg: cfg, log: Logger(cfg.Log), clients: httplimit.NewClients(nil, "")}
	store, file, err := program.FollowRules(ctx,
		program.CentralConfig{RuleSource: cfg.RuleSource, Redis: cfg.Redis,
			State: cfg.State, Open: openRuleStore}, file, nil, c.log)
	if err != nil {
		return err
	}
	set, err := file.RulesToRun()
	if err != nil {
		return err
	}
	c.listeners = program.NewListeners(cfg.Stop, c.clients, c.log)
	c.setRules(set)
	reload := program.NewReloader(file, store, nil, c.setRules, c.log)
	if err := c.build(ctx); err != nil {
		return err
	}
	adm := admin.Config{Ready: c.out.ready(), Config: live.Config{
		Namespace: set.Namespace, Version: version, Log: c.log, Hot: func() []hottype.HotKey { return nil },
		Rules: c.rules.Load, Status: c.out.status,
	}}
	page, err := c.listeners.OpenAdmin(ctx, cfg.Admin, reload, adm, append(c.metrics(), reload.Metrics()...))
	if err != nil {
		return err
	}
	c.listeners.LimitMemory(program.Tables{Tally: cfg.Tally})
	var s lifecycle.Stages
	c.addSources(&s)
	s.Add(lifecycle.Buffers, "tally", c.tally.Run)
	s.Add(lifecycle.Sinks, c.out.name, c.out.run)
	if c.history != nil {
		s.Add(lifecycle.Sinks, c.history.name, c.history.run)
	}
	s.Add(lifecycle.Sinks, "standstill", c.stood.Run)
	reload.AddTo(&s)
	page.AddTo(&s)
	program.AddNotify(&s, c.log)
	c.log.Info("collector runs", "out", c.out.name, "history", c.history != nil, "statsd", cfg.In.Listen, "mirror",
		cfg.Mirror.Listen, "logs", len(c.logs))
	return s.Run(program.Delayed(ctx, cfg.Stop, c.log), cfg.Stop.Timeout, c.log)
}

func (c *collector) build(ctx context.Context) error {
	cfg := c.cfg
	kind, err := choose(cfg.Out, "collector.out", len(cfg.Kafka.Brokers) > 0, len(cfg.StatsD.Addr) > 0)
	if err != nil {
		return err
	}
	if kind == "none" {
		return config.Usage("counts have nowhere to go: set --kafka.brokers or --statsd.addr")
	}
	if len(cfg.In.Listen) == 0 && cfg.Mirror.Listen == "" && len(cfg.Access.File) == 0 && cfg.Access.Syslog == "" {
		return config.Usage("nothing to collect: set --statsd.listen, --mirror.listen, --accesslog.file or " +
			"--accesslog.syslog")
	}
	judge := kind
	if kind == "both" {
		judge = "kafka"
	}
	if c.out, err = newSink(judge, cfg.Counts, c.rules.Load().Namespace, c.received, &c.stood, c.log); err != nil {
		return err
	}
	out := tally.Sink(c.out)
	if kind == "both" {
		if c.history, err = newSink("statsd", cfg.Counts, c.rules.Load().Namespace, nil, &c.stood, c.log); err != nil {
			return err
		}
		out = tee{c.out, c.history}
	}
	sums := program.TallyConfig(cfg.Tally, c.log)
	sums.Sink = out
	c.tally = tally.New(sums)
	if len(cfg.In.Listen) > 0 {
		if c.listener, err = newListener(cfg.In, cfg.Names, c.add, &c.stood, c.log); err != nil {
			return err
		}
	}
	if m := cfg.Mirror; m.Listen != "" {
		c.mirror = mirror.New(c.rules.Load, c.tally, mirror.Options{
			URIHeader: m.URIHeader, MethodHeader: m.MethodHeader, Clients: c.clients, Standstill: &c.stood,
		})
		if c.front, err = c.listeners.Open(ctx, "mirror", m.Listen, m.Listener, c.mirror); err != nil {
			return err
		}
	}
	return c.openLogs(ctx)
}

func (c *collector) setRules(set *rules.Set) {
	c.rules.Store(set)
	c.clients.Set(set.IP.TrustedProxies, set.IP.Client)
}

func (c *collector) add(counts []hottype.Count) {
	for i := range counts {
		c.tally.AddCount(counts[i])
	}
}

// received is what arrived of each sender here, which the aggregators publish.
func (c *collector) received() map[string]arrival.Flow {
	if c.listener == nil {
		return nil
	}
	flows, _ := c.listener.Received()
	return flows
}

func (c *collector) addSources(s *lifecycle.Stages) {
	if c.listener != nil {
		s.Add(lifecycle.Sources, "statsd", c.listener.Run)
	}
	if c.front != nil {
		s.Add(lifecycle.Sources, "mirror", c.front.Run)
	}
	for _, l := range c.logs {
		s.Add(lifecycle.Sources, "access log "+l.name, l.Run)
	}
}

func (c *collector) metrics() []metrics.Collector {
	parts := slices.Concat([]metrics.Collector{metrics.Of(c.tally.Stats), c.out.metrics},
		program.MetricsIf(c.listener, c.listener.Stats), program.MetricsIf(c.mirror, c.mirror.Stats))
	if c.history != nil {
		parts = append(parts, c.history.metrics)
	}
	if len(c.logs) > 0 {
		parts = append(parts, metrics.Of(c.accessStats))
	}
	return parts
}

type accessLog struct {
	name   string // of the file, or the address of syslog
	c      *collector
	source interface {
		Run(ctx context.Context, f func(line []byte)) error
		Stats() tail.Stats
	}
	parser             *accesslog.Parser // nil: not known yet
	fields             string            // the #Fields of a log whose format is not known yet
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
		c.logs = append(c.logs, &accessLog{name: path, c: c, source: t})
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
		c.logs = append(c.logs, &accessLog{name: "syslog " + s.Addr(), c: c, source: s})
	}
	for _, l := range c.logs {
		if format != "" {
			if l.parser, err = format.Parser(); err != nil {
				return err
			}
		}
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
			l.show(line, err)
			return
		}
		set := l.c.rules.Load()
		client := set.IP.ClientOf(e.Request.Client)
		for _, m := range set.Match(&e.Request, &scratch) {
			l.c.tally.AddFrom(m.Key, e.Second, 1, client)
		}
	})
}

// parse reads a line in the configured format; auto takes the format of the
// first line that has one.
func (l *accessLog) parse(line string, e *accesslog.Entry) error {
	if l.parser == nil {
		if strings.HasPrefix(line, "#") {
			if strings.HasPrefix(line, "#Fields:") {
				l.fields = line
			}
			return accesslog.ErrSkip
		}
		format, ok := accesslog.Detect([]string{l.fields, line})
		if !ok {
			return fmt.Errorf("none of %s; describe a line with --accesslog.log_format",
				strings.Join(accesslog.Names(), ", "))
		}
		l.c.log.Info("access log: the format is detected", "file", l.name, "format", format)
		var err error
		if l.parser, err = format.Parser(); err != nil {
			return err
		}
		if l.fields != "" {
			_ = l.parser.Parse(l.fields, e) // has no request
		}
	}
	return l.parser.Parse(line, e)
}

func (l *accessLog) show(line []byte, err error) {
	if len(line) > 200 {
		line = line[:200]
	}
	if l.c.rules.Load().Redacts() {
		line = []byte("not shown, because the rules redact values")
	}
	l.c.log.Warn("access log: a line that is not understood; it is not counted",
		"file", l.name, "err", err, "line", string(line), "malformed_so_far", l.malformed.Load())
}
