package run

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/operator/metrics"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/decisionapi"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/proxy"
	"github.com/hotparam/pipeline/internal/storage/redisfeed"
	"github.com/hotparam/pipeline/internal/storage/redislimits"
	"github.com/hotparam/pipeline/internal/storage/redisstore"
)

// sidecar is one running limiter.
type sidecar struct {
	cfg         config.Sidecar
	log         *slog.Logger
	redis       *redisstore.Client
	feed        *redisfeed.Feed
	limits      *redislimits.Limiter
	replica     *hotset.Replica
	gate        *gate.Gate
	reports     *redisfeed.Reporter
	out         *sink              // nil: counting is left to others
	tally       *tally.Tally       // nil: likewise
	proxy       *proxy.Proxy       // nil: none
	clients     *httplimit.Clients // of proxy
	decide      *decisionapi.Decider
	listeners   map[string]*server
	schedules   *scheduleWatcher
	admin       *admin.Server
	adminServer *server
	windows     *redislimits.Windows
	reload      *reloader
	prefetch    *redislimits.Prefetch // nil: none
}

// Sidecar runs cmd/limiter-sidecar: it answers who asks, by the hot set and the
// limits in Redis. It returns when ctx ends and all is handed over.
func Sidecar(ctx context.Context, cfg config.Sidecar, file *config.Parser, version string) error {
	set, err := file.RulesToRun()
	if err != nil {
		return err
	}
	s := &sidecar{cfg: cfg, log: Logger(cfg.Log), replica: &hotset.Replica{TTLBlind: ttlBlind(cfg.Redis)}, listeners: map[string]*server{}}
	s.reload = newReloader(file, nil, s.setRules, s.log)
	if len(cfg.Redis.Addr) == 0 {
		return fmt.Errorf("%w: where is the hot set? Set --redis.addr, such as 127.0.0.1:6379", config.ErrUsage)
	}
	if cfg.Decide.Listen == "" && cfg.Proxy.Listen == "" {
		return fmt.Errorf("%w: nobody can ask: set --decide.listen or --proxy.listen", config.ErrUsage)
	}
	if cfg.Proxy.Listen != "" && cfg.Proxy.Upstream == "" {
		return fmt.Errorf("%w: --proxy.listen needs --proxy.upstream, the URL that allowed requests go to", config.ErrUsage)
	}
	if err := s.build(ctx, set, version); err != nil {
		return err
	}
	defer s.redis.Close()
	warnAbsent(ctx, s.redis, s.log)
	s.log.Info("limiter runs", "decide", cfg.Decide.Listen, "proxy", cfg.Proxy.Listen, "redis", cfg.Redis.Addr, "counts", s.counts())
	return s.stages().Run(ctx, cfg.Stop.Timeout, s.log)
}

func (s *sidecar) build(ctx context.Context, set *rules.Set, version string) error {
	cfg := s.cfg
	var err error
	if s.redis, err = openRedis(cfg.Redis, set.Namespace, cfg.Gate.Budget, s.log); err != nil {
		return err
	}
	s.feed, s.limits = redisfeed.New(s.redis), redislimits.New(s.redis)
	kind, err := choose(cfg.Count, "sidecar.count", len(cfg.Kafka.Brokers) > 0, len(cfg.StatsD.Addr) > 0)
	if err != nil {
		return err
	}
	// The reporter is asked how many limiters are alive before it reports for the
	// first time, and reports what the gate, which is built after it, decided.
	s.reports = s.feed.Reporter(func(now time.Time) hottype.Report { return s.gate.Report(now) })
	s.windows = s.limits.Windows(redislimits.WindowsConfig{})
	gc := gate.Config{
		Rules: set, Hot: s.replica,
		Local:  limit.NewMemory(limit.MemoryConfig{MaxSubjects: cfg.Gate.MaxSubjects}),
		Shared: s.limits, Budget: cfg.Gate.Budget,
		Async: s.windows, Live: s.reports.Live,
		Instance: lifecycle.InstanceName(cfg.Gate.Instance), ColdKeys: true, Log: s.log,
	}
	if cfg.Prefetch > 0 {
		s.prefetch = s.limits.Prefetch(cfg.Prefetch)
		gc.Shared = s.prefetch
	}
	if kind != "none" {
		if s.out, err = newSink(kind, cfg.Counts, set.Namespace, s.log); err != nil {
			return err
		}
		s.tally = newTally(cfg.Tally, s.out, s.log)
		gc.Counter = s.tally
	}
	s.gate = gate.New(gc)
	if err := s.listen(ctx); err != nil {
		return err
	}
	if s.admin, s.adminServer, err = newAdmin(ctx, cfg.Admin, s.reload.shownBy(s.adminConfig(version)), s.metrics()); err != nil {
		return err
	}
	s.schedules = newScheduleWatcher(set.Overrides, s.admin.PublishSchedule, s.log)
	return nil
}

// listen takes the ports of those who ask.
func (s *sidecar) listen(ctx context.Context) error {
	if s.cfg.Proxy.Listen != "" {
		p, clients, err := newProxy(s.gate, s.cfg.Proxy, s.log)
		if err != nil {
			return err
		}
		s.proxy, s.clients = p, clients
		if s.listeners["proxy"], err = newServer(ctx, "proxy", "proxy.listen", s.cfg.Proxy.Listen, p, s.log); err != nil {
			return err
		}
	}
	if s.cfg.Decide.Listen != "" {
		s.decide = decisionapi.Decide(s.gate, decisionapi.Options{Log: s.log})
		mux := http.NewServeMux()
		mux.Handle("/v1/decide", s.decide)
		var err error
		if s.listeners["decide"], err = newServer(ctx, "decide", "decide.listen", s.cfg.Decide.Listen, mux, s.log); err != nil {
			return err
		}
	}
	return nil
}

func (s *sidecar) stages() *lifecycle.Stages {
	var st lifecycle.Stages
	for name, front := range s.listeners {
		st.Add(lifecycle.Sources, name, front.Run)
	}
	if s.tally != nil {
		st.Add(lifecycle.Sums, "tally", s.tally.Run)
		st.Add(lifecycle.Sinks, s.out.name, s.out.run)
	}
	st.Add(lifecycle.Sums, "windows", s.windows.Run)
	if s.prefetch != nil {
		st.Add(lifecycle.Sums, "leases", s.prefetch.Run)
	}
	st.Add(lifecycle.Sinks, "hot set", func(ctx context.Context) error { return s.feed.FollowInto(ctx, s.replica) })
	st.Add(lifecycle.Sinks, "overrides", func(ctx context.Context) error {
		return s.feed.Overrides().Follow(ctx, func(list []rules.Override) {
			s.gate.SetOverrides(list)
			s.schedules.setLive(list)
		})
	})
	st.Add(lifecycle.Sinks, "schedules", s.schedules.Run)
	st.Add(lifecycle.Sinks, "report", s.reports.Run)
	st.Add(lifecycle.Sinks, "reload", s.reload.Run)
	addAdmin(&st, s.admin, s.adminServer)
	addNotify(&st, s.log)
	return &st
}

func (s *sidecar) setRules(set *rules.Set) {
	s.gate.SetRules(set)
	s.schedules.setFile(set.Overrides)
	if s.clients != nil {
		s.clients.SetTrusted(set.IP.TrustedProxies)
	}
}

func (s *sidecar) metrics() []metrics.Part {
	parts := []metrics.Part{
		metrics.Gate(s.gate.Stats), metrics.RedisFeed(s.feed.Stats), metrics.HotSet(s.replica.Stats),
		metrics.RedisLimits(s.limits.Stats), metrics.Windows(s.windows.Stats), metrics.Reload(s.reload.Stats),
	}
	if s.prefetch != nil {
		parts = append(parts, metrics.Prefetch(s.prefetch.Stats))
	}
	if s.tally != nil {
		parts = append(parts, metrics.Tally(s.tally.Stats), s.out.metrics)
	}
	if s.proxy != nil {
		parts = append(parts, metrics.Proxy(s.proxy.Stats))
	}
	if s.decide != nil {
		parts = append(parts, metrics.DecisionAPI(s.decide.Stats))
	}
	return parts
}

func (s *sidecar) adminConfig(version string) admin.Config {
	return admin.Config{
		Namespace: s.gate.Rules().Namespace, Version: version, Token: s.cfg.Admin.Token, Log: s.log,
		Hot:       func() []hottype.Hot { return hotOf(s.replica) },
		Loops:     func() []hottype.Hot { return s.replica.Loops(time.Now()) },
		Rules:     s.gate.Rules,
		Reports:   s.feed.ReadReports,
		Overrides: s.feed.Overrides(),
		// A limiter is ready without Redis: it answers by the failure policy.
		Status: func() []admin.Status {
			list := []admin.Status{redisStatus(s.feed), hotStatus(s.replica, time.Now()), breakerStatus(s.gate.Stats())}
			return append(list, s.out.status()...)
		},
	}
}

func (s *sidecar) counts() string {
	if s.out == nil {
		return "elsewhere"
	}
	return s.out.name
}

// breakerStatus says whether Redis decides on shared limits, and if not, for how
// much of it.
func breakerStatus(st gate.Stats) admin.Status {
	switch {
	case !st.StoreOpen:
		return admin.Status{Name: "breaker", Value: "closed", OK: true}
	case st.StoreOut < st.StoreParts:
		return admin.Status{Name: "breaker", Value: fmt.Sprintf("open for %d of %d nodes: limits there are local", st.StoreOut, st.StoreParts)}
	}
	return admin.Status{Name: "breaker", Value: "open: limits are local"}
}
