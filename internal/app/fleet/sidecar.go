package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/app/program"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/operator/admin/live"
	"github.com/hotparam/pipeline/internal/operator/metrics"
	"github.com/hotparam/pipeline/internal/pipeline"
	"github.com/hotparam/pipeline/internal/pipeline/distributed"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/storage/filestore"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/storage/rediscontrol"
	"github.com/hotparam/pipeline/internal/wait"
)

type sidecar struct {
	cfg       config.Sidecar
	log       *slog.Logger
	redis     *redisclient.Client
	copy      *filestore.OverridesCopy // nil: overrides are not kept on disk
	parts     *distributed.Pipeline
	out       *sink // nil: others count
	clients   *httplimit.Clients
	gateways  *program.Gateways
	schedules *program.ScheduleWatcher
	admin     *program.AdminPage
	reload    *program.Reloader
	stood     wait.Standstill // of this process
}

// Sidecar runs cmd/limiter-sidecar. It answers gateways and services by the hot set and the limits in Redis. It returns
// when ctx has ended and everything has been handed over.
func Sidecar(ctx context.Context, cfg config.Sidecar, file *config.Parser, version string) error {
	s := &sidecar{cfg: cfg, log: Logger(cfg.Log), clients: httplimit.NewClients(nil, "")}
	s.cfg.Gate.Instance = lifecycle.InstanceName(cfg.Gate.Instance)
	var err error
	s.gateways, err = program.NewGateways(Extras.Envoy, cfg.Gateways, cfg.Answer, cfg.Stop, s.clients, s.log)
	if err != nil {
		return err
	}
	store, file, err := program.FollowRules(ctx, program.CentralConfig{RuleSource: cfg.RuleSource, Redis: cfg.Redis,
		State: cfg.State, Open: openRuleStore}, file,
		s.gateways.ReadLimits, s.log)
	if err != nil {
		return err
	}
	set, err := file.RulesToRun()
	if err != nil {
		return err
	}
	if err := program.TakeUpstreams(&cfg.Proxy, set); err != nil {
		return err
	}
	s.cfg.Proxy = cfg.Proxy
	s.clients.Set(set.IP.TrustedProxies, set.IP.Client)
	if err := s.gateways.ReadLimits(set); err != nil {
		return err
	}
	s.reload = program.NewReloader(file, store, s.gateways.ReadLimits, s.setRules, s.log)
	if len(cfg.Redis.Addr) == 0 {
		return config.Usage("--redis.addr is required, for example 127.0.0.1:6379")
	}
	if cfg.Proxy.Listen == "" && len(s.gateways.Configured()) == 0 {
		return config.Usage("no listener is configured: set --decide.listen, --check.listen, --proxy.listen, " +
			"--envoy.listen, --spoe.listen or --edge.listen")
	}
	if cfg.Proxy.Listen != "" && cfg.Proxy.Upstream == "" {
		return config.Usage("--proxy.listen needs --proxy.upstream, the URL that allowed requests go to")
	}
	if err := s.buildParts(ctx, set, version); err != nil {
		return err
	}
	defer s.redis.Close()
	if s.copy != nil {
		defer s.copy.Close()
	}
	warnAbsent(ctx, s.redis, s.log)
	s.log.Info("limiter runs", append(s.gateways.Attrs(), "proxy", cmp.Or(cfg.Proxy.Listen, "none"),
		"redis", s.redis.Config().Addrs, "counts", s.sinkName())...)
	s.addParts()
	defer runtime.KeepAlive(program.Ballast())
	return s.parts.Run(program.Delayed(ctx, cfg.Stop, s.log), cfg.Stop.Timeout, s.log)
}

func (s *sidecar) buildParts(ctx context.Context, set *rules.Set, version string) error {
	cfg := s.cfg
	var err error
	if s.redis, err = OpenRedis(cfg.Redis, set.Namespace, cfg.Gate.Budget, s.log); err != nil {
		return err
	}
	kind, err := chooseTransport(cfg.Count, "sidecar.count", len(cfg.Kafka.Brokers) > 0, len(cfg.StatsD.Addr) > 0)
	if err != nil {
		return err
	}
	shared := distributed.Shared{Store: s.redis, NoInputTTL: noInputTTL(cfg.Redis)}
	s.openCopy(set.Namespace)
	if s.copy != nil {
		shared.Copy = s.copy
	}
	if kind != "none" {
		if s.out, err = newSink(kind, cfg.Counts, set.Namespace, nil, &s.stood, s.log); err != nil {
			return err
		}
		shared.Sink, shared.Arrivals = s.out, s.out.arrivals
	}
	parts := pipeline.Config{Rules: set, Gate: program.GateConfig(cfg.Gate, cfg.Answer, s.log),
		Tally: program.TallyConfig(cfg.Tally, s.log)}
	parts.Gate.Budget, parts.Gate.ColdKeys = cfg.Gate.Budget, true
	if parts.Denials, err = program.OpenDenials(cfg.Denials, s.log); err != nil {
		return err
	}
	s.parts = distributed.New(parts, shared)
	if cfg.Proxy.Listen != "" {
		plain := func(h http.Handler) http.Handler { return h }
		if err := s.gateways.ListenProxy(ctx, cfg.Proxy, cfg.Answer.Script, s.parts.Pipeline, plain); err != nil {
			return err
		}
	}
	if err := s.gateways.Listen(ctx, s.parts.Pipeline); err != nil {
		return err
	}
	if s.admin, err = s.gateways.HTTP().OpenAdmin(ctx, cfg.Admin, s.reload, s.adminConfig(version),
		s.metricCollectors()); err != nil {
		return err
	}
	s.gateways.HTTP().LimitMemory(program.Tables{Cache: cfg.Proxy.CacheMemory, Gate: cfg.Gate, Tally: cfg.Tally})
	s.schedules = program.NewScheduleWatcher(set.Overrides, s.admin.PublishSchedule, s.log)
	return nil
}

// openCopy opens the copy of the overrides on disk. A limiter also works without it.
func (s *sidecar) openCopy(namespace string) {
	if s.cfg.State.Dir == "" {
		return
	}
	var err error
	s.copy, err = filestore.OpenCopy(s.cfg.State.Dir, append([]string{namespace}, s.redis.Config().Addrs...), s.log)
	if err != nil {
		s.copy = nil
		s.log.Warn("overrides are not kept on disk, and do not hold after a restart without Redis; see --state.dir",
			"err", err)
	}
}

func (s *sidecar) addParts() {
	s.parts.Overrides = s.schedules.SetLive
	s.parts.Add(lifecycle.Sinks, "redis", s.redis.Watch)
	s.parts.Add(lifecycle.Sinks, "schedules", s.schedules.Run)
	if s.out != nil && s.out.statsd != nil {
		s.parts.Add(lifecycle.Sinks, "standstill", s.stood.Run)
	}
	s.reload.AddTo(&s.parts.Stages)
	s.parts.Reported = func(r *report.Limiter) {
		s.reload.FillReport(r)
		s.gateways.FillReport(r)
	}
	s.admin.AddTo(&s.parts.Stages)
	program.AddNotify(&s.parts.Stages, s.log)
}

func (s *sidecar) setRules(set *rules.Set) {
	s.parts.SetRules(set)
	s.schedules.SetFile(set.Overrides)
	s.clients.Set(set.IP.TrustedProxies, set.IP.Client)
	s.gateways.ApplyLimits()
}

func (s *sidecar) metricCollectors() []metrics.Collector {
	parts := slices.Concat(program.MetricsOf(s.parts.Pipeline), s.reload.Metrics(), s.gateways.Collectors(),
		program.MetricsIf(s.redis, s.redis.Stats))
	if s.out != nil {
		parts = append(parts, s.out.metrics)
	}
	return parts
}

func (s *sidecar) adminConfig(version string) admin.Config {
	return admin.Config{Config: live.Config{
		Namespace: s.parts.Gate.Rules().Namespace, Version: version, Log: s.log,
		Hot:         func() []hottype.HotKey { return s.parts.Hot.Hot(time.Now()) },
		Loops:       func() []hottype.HotKey { return s.parts.Hot.Loops(time.Now()) },
		HasEnded:    func(key hottype.Key) bool { return s.parts.Hot.HasEnded(key, time.Now()) },
		Rules:       s.parts.Gate.Rules,
		Reports:     s.parts.Feed.ReadReports,
		Aggregators: s.parts.Feed.ReadAggregators,
		OnDemand:    true,
		Overrides:   s.parts.Feed.Overrides(),
		Store:       "Redis",
		Upstreams:   s.parts.Bounds,
		Status: func() []admin.Status {
			list := []admin.Status{redisStatus(s.redis, s.parts.Feed), hotStatus(s.parts.Hot, time.Now()),
				breakerStatus(s.parts.Gate.Stats())}
			return append(list, s.out.adminStatus()...)
		}},
		Command: s.parts.Command,
		Ready: map[string]func(context.Context) error{
			"redis":      s.checkRedis,
			"first_read": func(context.Context) error { return checkSynced(s.parts.Feed.Stats()) },
		},
	}
}

// checkRedis fails if requests are denied because Redis is away, so that they go to a limiter that reaches Redis. By
// the other policies a limiter needs no Redis to answer, so it is ready and reports its last state. A probe does not
// wait for Redis then.
func (s *sidecar) checkRedis(ctx context.Context) error {
	if s.parts.Gate.Rules().FailsClosed() {
		return s.redis.CheckWrites(ctx)
	}
	return tolerateFailure(redisStatus(s.redis, s.parts.Feed))
}

func tolerateFailure(st admin.Status) error {
	if st.OK {
		return nil
	}
	return admin.Tolerate(errors.New(st.Value))
}

// checkSynced fails until Redis was asked once for the overrides and for the hot keys, so that no request comes before
// the blocks of operators are in force. A Redis that does not answer does not keep a limiter from its work.
func checkSynced(st rediscontrol.Stats) error {
	if st.Overrides.Syncs+st.Overrides.Errors == 0 {
		return errors.New("the overrides have not been read since the start")
	}
	if st.Hot.Syncs+st.Hot.Errors == 0 {
		return errors.New("the hot keys have not been read since the start")
	}
	return nil
}

func (s *sidecar) sinkName() string {
	if s.out == nil {
		return "elsewhere"
	}
	return s.out.name
}

// breakerStatus returns the line of the dashboard that shows whether Redis decides on shared limits, and if not, on how
// many nodes it does not.
func breakerStatus(st gate.Stats) admin.Status {
	switch {
	case !st.StoreOpen:
		return admin.Status{Name: "breaker", Value: "closed", OK: true}
	case st.BreakersOpen < st.Breakers:
		return admin.Status{Name: "breaker", Value: fmt.Sprintf("open for %d of %d nodes: limits there are local",
			st.BreakersOpen, st.Breakers)}
	}
	return admin.Status{Name: "breaker", Value: "open: limits are local"}
}
