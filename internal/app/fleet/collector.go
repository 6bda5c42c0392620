package fleet

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/app/program"
	"github.com/hotparam/pipeline/internal/counting/arrival"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/deciding/costs"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/operator/admin/live"
	"github.com/hotparam/pipeline/internal/operator/metrics"
	"github.com/hotparam/pipeline/internal/report"
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
	uses      atomic.Pointer[ruleUses]
	clients   *httplimit.Clients // for mirrored requests
	out       *sink
	history   *sink // nil: no history by StatsD
	tally     *tally.Tally
	costs     *costs.Meter // of lines of logs
	listeners *program.Listeners
	listener  *statsd.Listener // nil: no StatsD
	mirror    *mirror.Handler
	front     *listener.Server // for mirror, may be nil
	logs      []*accessLog
	stood     wait.Standstill
}

// Collector runs cmd/collector. It receives StatsD lines, mirrored requests and access logs, and sends counts to Kafka
// or StatsD. It returns when ctx has ended and everything has been handed over.
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
	if err := c.buildParts(ctx); err != nil {
		return err
	}
	adm := admin.Config{Ready: c.out.readyChecks(), Config: live.Config{
		Namespace: set.Namespace, Version: version, Log: c.log, Hot: func() []hottype.HotKey { return nil },
		Rules: c.rules.Load, Uses: c.listUses, Status: c.out.adminStatus,
	}}
	page, err := c.listeners.OpenAdmin(ctx, cfg.Admin, reload, adm, append(c.metricCollectors(), reload.Metrics()...))
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

func (c *collector) buildParts(ctx context.Context) error {
	cfg := c.cfg
	kind, err := chooseTransport(cfg.Out, "collector.out", len(cfg.Kafka.Brokers) > 0, len(cfg.StatsD.Addr) > 0)
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
	if c.out, err = newSink(judge, cfg.Counts, c.rules.Load().Namespace, c.receivedFlows, &c.stood, c.log); err != nil {
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
	c.costs = costs.NewMeter(c.tally)
	if len(cfg.In.Listen) > 0 {
		if c.listener, err = newListener(cfg.In, cfg.Names, c.addCounts, &c.stood, c.log); err != nil {
			return err
		}
	}
	if m := cfg.Mirror; m.Listen != "" {
		c.mirror = mirror.New(c.rules.Load, c.tally, mirror.Options{
			URIHeader: m.URIHeader, MethodHeader: m.MethodHeader, Clients: c.clients, Standstill: &c.stood,
			Record: c.recordUse,
		})
		if c.front, err = c.listeners.Open(ctx, "mirror", m.Listen, m.Listener, c.mirror); err != nil {
			return err
		}
	}
	return c.openLogs(ctx)
}

// ruleUses holds the uses of the rules of a set by the requests that this collector reads itself.
type ruleUses struct {
	set  *rules.Set
	uses *rules.Uses
}

func (c *collector) setRules(set *rules.Set) {
	var before *rules.Uses
	if was := c.uses.Load(); was != nil {
		before = was.uses
	}
	c.uses.Store(&ruleUses{set, rules.NewUses(set, before)})
	c.rules.Store(set)
	c.clients.Set(set.IP.TrustedProxies, set.IP.Client)
}

// recordUse records a request of an access log or of the mirror, which was matched by the rules of set. A request that
// was matched by earlier rules is left out.
func (c *collector) recordUse(set *rules.Set, m *rules.Match, second int64, target string) {
	if u := c.uses.Load(); u.set == set {
		u.uses.Record(m.Rule.Index, second, m.Key, target)
	}
}

// listUses returns the use of each rule. Without an access log and a mirror the collector reads no requests, and their
// use is not known.
func (c *collector) listUses(now time.Time) []report.RuleUse {
	if c.mirror == nil && len(c.logs) == 0 {
		return nil
	}
	u := c.uses.Load().uses
	u.Begin(now.Unix())
	return u.List()
}

func (c *collector) addCounts(counts []hottype.Count) {
	for i := range counts {
		c.tally.AddCount(counts[i])
	}
}

// receivedFlows returns the counts that arrived from each sender at this process. The aggregators publish them.
func (c *collector) receivedFlows() map[string]arrival.Flow {
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

func (c *collector) metricCollectors() []metrics.Collector {
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
