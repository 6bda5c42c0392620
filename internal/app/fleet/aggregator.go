package fleet

import (
	"cmp"
	"context"
	"log/slog"
	"runtime"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/app/program"
	"github.com/hotparam/pipeline/internal/counting/arrival"
	"github.com/hotparam/pipeline/internal/detection/aggregate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/operator/admin/live"
	"github.com/hotparam/pipeline/internal/operator/metrics"
	"github.com/hotparam/pipeline/internal/pipeline/distributed"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/storage/rediscontrol"
	"github.com/hotparam/pipeline/internal/transport/graphite"
	"github.com/hotparam/pipeline/internal/transport/kafka"
	"github.com/hotparam/pipeline/internal/transport/statsd"
	"github.com/hotparam/pipeline/internal/wait"
)

type aggregator struct {
	cfg       config.Aggregator
	log       *slog.Logger
	redis     *redisclient.Client
	clients   *httplimit.Clients // for the trusted proxies in front of the admin page
	parts     *distributed.Aggregator
	listener  *statsd.Listener // nil: no StatsD
	stood     wait.Standstill  // of this process
	consumer  *kafka.Consumer  // nil: no Kafka
	poller    *graphite.Poller // nil: no Graphite
	schedules *program.ScheduleWatcher
	admin     *program.AdminPage
	reload    *program.Reloader
	history   func(*lifecycle.Stages)
	notify    func(*lifecycle.Stages)
}

// Aggregator runs cmd/aggregator. It receives counts by StatsD, Kafka or Graphite, publishes the hot set to Redis, and
// serves the dashboard. It returns when ctx has ended and everything has been handed over.
func Aggregator(ctx context.Context, cfg config.Aggregator, file *config.Parser, version string) error {
	a := &aggregator{cfg: cfg, log: Logger(cfg.Log)}
	store, file, err := program.FollowRules(ctx, program.CentralConfig{RuleSource: cfg.RuleSource, Redis: cfg.Redis,
		State: cfg.State, Open: openRuleStore}, file,
		program.CheckCounters(cfg.Detect), a.log)
	if err != nil {
		return err
	}
	set, err := file.RulesToRun()
	if err != nil {
		return err
	}
	a.reload = program.NewReloader(file, store, program.CheckCounters(cfg.Detect), a.setRules, a.log)
	if err := a.checkConfig(set); err != nil {
		return err
	}
	if err := a.buildParts(ctx, set, version); err != nil {
		return err
	}
	defer a.redis.Close()
	s := &a.parts.Stages
	if a.listener != nil {
		s.Add(lifecycle.Sources, "statsd", a.listener.Run)
		s.Add(lifecycle.Sinks, "standstill", a.stood.Run)
	}
	if a.consumer != nil {
		s.Add(lifecycle.Sources, "kafka", func(ctx context.Context) error {
			return a.parts.RunAsOwner(ctx, a.consumer.Run)
		})
	}
	if a.poller != nil {
		s.Add(lifecycle.Sources, "graphite", func(ctx context.Context) error {
			return pollGraphite(ctx, a.poller, cfg.Graphite.Schedule, a.log)
		})
	}
	// Expired overrides and old entries of the audit are removed.
	s.Add(lifecycle.Sinks, "trim", func(ctx context.Context) error {
		return program.OnSchedule(ctx, "@every 10m", a.log, func(ctx context.Context) error {
			_, err := a.parts.Feed.Overrides().Trim(ctx)
			return err
		})
	})
	s.Add(lifecycle.Sinks, "schedules", a.schedules.Run)
	a.reload.AddTo(s)
	a.history(s)
	a.notify(s)
	a.admin.AddTo(s)
	program.AddNotify(s, a.log)
	warnAbsent(ctx, a.redis, a.log)
	a.log.Info("aggregator runs", "statsd", cfg.In.Listen, "kafka", cfg.Kafka.Brokers, "graphite",
		cfg.Graphite.URL != "", "redis", a.redis.Config().Addrs, "dashboard", a.admin.URL())
	return s.Run(program.Delayed(ctx, cfg.Stop, a.log), cfg.Stop.Timeout, a.log)
}

// checkConfig returns an error if a run would be pointless: no counts arrive, the hot set has no destination, or the
// memory is too small for the rules.
func (a *aggregator) checkConfig(set *rules.Set) error {
	if len(a.cfg.In.Listen) == 0 && len(a.cfg.Kafka.Brokers) == 0 && a.cfg.Graphite.URL == "" {
		return config.Usage("no counts come in: set --statsd.listen, --kafka.brokers or --graphite.url")
	}
	if len(a.cfg.Redis.Addr) == 0 {
		return config.Usage("the hot set has nowhere to go: set --redis.addr, such as 127.0.0.1:6379")
	}
	return program.CheckCounters(a.cfg.Detect)(set)
}

func (a *aggregator) buildParts(ctx context.Context, set *rules.Set, version string) error {
	cfg := a.cfg
	a.clients = httplimit.NewClients(set.IP.TrustedProxies, set.IP.Client)
	var err error
	if a.redis, err = OpenRedis(cfg.Redis, set.Namespace, 0, a.log); err != nil {
		return err
	}
	if cfg.Lease >= cfg.Detect.HotTTL {
		return config.Usage("--aggregator.lease %v must be less than --detect.hot_ttl, %v, or hot keys are over "+
			"before a standby renews them", cfg.Lease, cfg.Detect.HotTTL)
	}
	found := program.DetectConfig(cfg.Detect, a.log)
	found.Rules, found.Sources, found.NoInputTTL = set, a.sourceStatuses(cfg), noInputTTL(cfg.Redis)
	found.Shards = runtime.GOMAXPROCS(0)
	found.NoClients = cfg.Graphite.URL != "" && len(cfg.In.Listen) == 0 && len(cfg.Kafka.Brokers) == 0
	found.WholeSeconds = found.NoClients
	a.parts = distributed.NewAggregator(distributed.AggregatorConfig{
		Aggregate: found, Store: a.redis, Log: a.log, Unread: unreadTime(cfg), Judged: a.judgedPartitions(),
		Publisher: rediscontrol.PublisherConfig{ID: publisherName(cfg), Lease: cfg.Lease, Hold: cfg.Detect.HotTTL,
			Keep: noInputTTL(cfg.Redis), Received: a.receivedFlows()},
		Overrides: func(live rules.LiveOverrides) { a.schedules.SetLive(live) },
		Instance:  instanceName(cfg),
	})
	a.parts.Reported = a.reload.FillAggregatorReport
	if err := a.openInputs(ctx, set); err != nil {
		return err
	}
	adm, parts := a.adminConfig(set, version), a.metricCollectors()
	a.history, err = program.KeepHistory(cfg.History, cfg.State.Dir, a.parts.Aggregate.Heaviest,
		&adm, &parts, a.log)
	if err != nil {
		return err
	}
	if a.notify, err = program.NotifyWebhooks(program.NotifierConfig{
		Notifications: cfg.Notifications, Instance: publisherName(cfg), Store: a.redis.CheckWrites,
		Leads: a.parts.Leads, Log: a.log,
	}, &adm, &parts); err != nil {
		return err
	}
	listeners := program.NewListeners(cfg.Stop, a.clients, a.log)
	if a.admin, err = listeners.OpenAdmin(ctx, cfg.Admin, a.reload, adm, parts); err != nil {
		return err
	}
	listeners.LimitMemory(program.Tables{Rules: len(set.Rules), Detect: cfg.Detect})
	a.schedules = program.NewScheduleWatcher(set.Overrides, a.admin.PublishSchedule, a.log)
	return nil
}

func (a *aggregator) metricCollectors() []metrics.Collector {
	return slices.Concat([]metrics.Collector{
		metrics.Of(a.parts.Aggregate.Stats), metrics.Of(a.parts.Feed.Stats), metrics.Of(a.redis.Stats),
		metrics.Of(func() hotset.Stats { return a.parts.Hot.Stats(time.Now()) }), metrics.Of(a.parts.Upstreams),
	}, a.reload.Metrics(), program.MetricsIf(a.listener, a.listener.Stats),
		program.MetricsIf(a.consumer, a.consumer.Stats), program.MetricsIf(a.poller, a.poller.Stats))
}

func (a *aggregator) adminConfig(set *rules.Set, version string) admin.Config {
	ready := map[string]func(context.Context) error{
		"redis":       a.redis.CheckWrites,
		"sources":     func(context.Context) error { return a.parts.Aggregate.CheckSources() },
		"publication": func(context.Context) error { return a.parts.Aggregate.CheckPublication() },
	}
	if a.consumer != nil {
		ready["kafka group"] = func(context.Context) error {
			return cmp.Or(a.parts.CheckOwner(), a.consumer.CheckGroup())
		}
	}
	return admin.Config{Config: live.Config{
		Namespace: set.Namespace, Version: version, Log: a.log,
		Hot:      func() []hottype.HotKey { return a.parts.Hot.Hot(time.Now()) },
		Loops:    func() []hottype.HotKey { return a.parts.Hot.Loops(time.Now()) },
		HasEnded: func(key hottype.Key) bool { return a.parts.Hot.HasEnded(key, time.Now()) },
		Rules:    a.parts.Rules, Full: a.parts.Aggregate.Full,
		// The page finds changes in the merged set, and not in the judgements of this aggregator, so that every
		// aggregator shows the same.
		Reports:     a.parts.Feed.ReadReports,
		Aggregators: a.parts.Feed.ReadAggregators,
		Overrides:   a.parts.Feed.Overrides(),
		Store:       "Redis",
		Upstreams:   a.parts.Upstreams,
		Status: func() []admin.Status {
			list := []admin.Status{redisStatus(a.redis, a.parts.Feed), hotStatus(a.parts.Hot, time.Now()),
				roleStatus(a.parts.Feed, a.parts.Aggregate.Stats().Standby)}
			if a.consumer != nil {
				list = append(list, groupStatus(ready["kafka group"]))
			}
			if a.poller != nil {
				list = append(list, graphiteStatus(a.poller))
			}
			for _, st := range a.parts.Aggregate.Sources() {
				list = append(list, admin.Status{Name: "source " + st.Name, Value: st.Text, OK: !st.NoInput})
			}
			return list
		}},
		Command: func(ctx context.Context, c report.Command) (int, error) {
			return 0, a.parts.Command(ctx, c)
		},
		Ready: ready,
	}
}

func (a *aggregator) setRules(set *rules.Set) {
	a.clients.Set(set.IP.TrustedProxies, set.IP.Client)
	a.parts.SetRules(set)
	if a.poller != nil {
		a.poller.SetRules(set)
	}
	if a.consumer != nil {
		a.consumer.SetBacklog(backlogTime(a.cfg.Group, set))
	}
	a.schedules.SetFile(set.Overrides)
}

// publisherName returns the name that tells aggregators apart that publish side by side. It must be the same after a
// restart, or the keys of the old process stay until they expire. Of two processes with the same name one publishes and
// the other stands by.
func publisherName(cfg config.Aggregator) string { return cmp.Or(cfg.ID, lifecycle.HostName()) }

// receivedFlows returns a function that reports the counts that arrived from each sender by StatsD, or nil if this
// aggregator does not listen to StatsD. Senders that reach it by Kafka or Graphite are not included.
func (a *aggregator) receivedFlows() func() (map[string]arrival.Flow, bool) {
	if len(a.cfg.In.Listen) == 0 {
		return nil
	}
	only := len(a.cfg.Kafka.Brokers) == 0 && a.cfg.Graphite.URL == ""
	return func() (map[string]arrival.Flow, bool) {
		flows, complete := a.listener.Received()
		return flows, complete && only
	}
}

// judgedPartitions returns a function that reports the partitions of Kafka that were read since a time. It is nil
// without Kafka, and with StatsD or Graphite, because others may count their keys.
func (a *aggregator) judgedPartitions() func(time.Time) report.Partitions {
	if len(a.cfg.Kafka.Brokers) == 0 || len(a.cfg.In.Listen) > 0 || a.cfg.Graphite.URL != "" {
		return nil
	}
	return func(since time.Time) report.Partitions { return a.consumer.Judged(since) }
}

// sourceStatuses returns, for each configured source of counts, a function that reports its last signs of life. The
// functions are called when all parts have been built.
func (a *aggregator) sourceStatuses(cfg config.Aggregator) map[string]func() aggregate.SourceStatus {
	list := map[string]func() aggregate.SourceStatus{}
	if len(cfg.In.Listen) > 0 {
		list["statsd"] = func() (h aggregate.SourceStatus) {
			h.At, h.Heartbeats = a.listener.LastReceived()
			h.LeftOut = a.listener.LeavesOut()
			return h
		}
	}
	if len(cfg.Kafka.Brokers) > 0 {
		list["kafka"] = func() (h aggregate.SourceStatus) {
			var err error
			if h.At, h.Heartbeats, err = a.consumer.LastReceived(); err != nil {
				h.Err = err.Error()
			}
			return h
		}
	}
	if cfg.Graphite.URL != "" {
		list["graphite"] = func() (h aggregate.SourceStatus) {
			h.At, h.Heartbeats, h.Err = a.poller.LastHeard()
			return h
		}
	}
	return list
}
