package program

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/operator/admin/live"
	"github.com/hotparam/pipeline/internal/pipeline"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/storage/filestore"
)

// Local is the whole pipeline in one process: a reverse proxy that counts and decides, an aggregator that publishes
// into the same process, overrides in a directory, and the admin page.
//
//	proxy ──> gate ──> tally ──> aggregate ──> mirror ──┐
//	           └────────────────────────────────────────┘
//
// Build it with NewLocal, which also takes the ports. Run serves.
type Local struct {
	cfg             config.Serve
	log             *slog.Logger
	parts           *pipeline.Pipeline
	overrides       *filestore.Overrides
	schedules       *ScheduleWatcher
	admin           *AdminPage
	clients         *httplimit.Clients
	gateways        *Gateways
	reload          *Reloader
	learning        Learner // nil: the program does not learn
	history, notify func(*lifecycle.Stages)
}

type LocalOptions struct {
	Version string
	// OnChange is called, in order, with each change: a key becomes hot or cools.
	OnChange func([]detect.Change)
	Log      *slog.Logger
	// File is the configuration file of the rules, which is read again when it changes, or nil if there is no file.
	File  *config.Parser
	Learn OpenLearner // nil: the program does not learn from its traffic
	Extras
	// store has the rules in place of the file's. It is nil if there is no store.
	store *ruleFollower
}

// OpenLocal calls NewLocal with the rules of opts.File, or of the store that --rules names.
func OpenLocal(ctx context.Context, cfg config.Serve, opts LocalOptions) (*Local, error) {
	if opts.Rules == nil {
		if err := opts.File.CheckOneProcess(); err != nil {
			return nil, err
		}
	}
	cfg.Gate.Instance = lifecycle.InstanceName(cfg.Gate.Instance)
	if len(cfg.Redis.Addr) > 0 && cfg.Rules != "redis:" {
		own := "serve shares no limits: it counts them in memory, and uses --redis.addr for --rules redis: only"
		if opts.Rules == nil {
			own = "serve shares no limits: it counts them in memory, and this program does not use redis.addr"
		}
		if opts.File.SetForOne("redis.addr") {
			return nil, config.Usage("%s; where several processes share limits, run hotparam aggregator and "+
				"hotparam limiter-sidecar", own)
		}
		opts.Log.Warn(own) // other programs may use the same file
	}
	var err error
	opts.store, opts.File, err = FollowRules(ctx,
		CentralConfig{RuleSource: cfg.RuleSource, Redis: cfg.Redis, State: cfg.State, Open: opts.Rules}, opts.File,
		CheckCounters(cfg.Detect), opts.Log)
	if err != nil {
		return nil, err
	}
	set, err := opts.File.RulesToRun()
	if err != nil {
		return nil, err
	}
	opts.shadowDefaultRules(set)
	return NewLocal(ctx, cfg, set, opts)
}

// shadowDefaultRules puts the limits of the default rules into shadow mode while the program learns, because the
// traffic of the site is not known yet.
func (o LocalOptions) shadowDefaultRules(set *rules.Set) {
	if o.Learn == nil || o.File.HasRules() {
		return
	}
	for _, r := range set.Rules {
		r.Limit.Mode = hottype.ModeShadow
	}
}

// NewLocal builds the pipeline and takes its ports. Run closes everything.
func NewLocal(ctx context.Context, cfg config.Serve, set *rules.Set, opts LocalOptions) (*Local, error) {
	if err := checkServe(&cfg, set, opts.Log); err != nil {
		return nil, err
	}
	l := &Local{cfg: cfg, log: opts.Log, clients: httplimit.NewClients(set.IP.TrustedProxies, set.IP.Client)}
	var err error
	if l.gateways, err = NewGateways(opts.Envoy, cfg.Gateways, cfg.Answer, cfg.Stop, l.clients, opts.Log); err != nil {
		return nil, err
	}
	switch {
	case cfg.Proxy.Upstream == "" && len(l.gateways.Configured()) == 0:
		return nil, config.Usage("where do allowed requests go? Set --upstream to the URL of the service, such as " +
			"http://127.0.0.1:3000, or open a listener for a gateway, such as --check.listen 127.0.0.1:8185")
	case cfg.Proxy.Upstream == "" && opts.Learn != nil:
		return nil, config.Usage("--learn watches the requests of the proxy; set --upstream")
	}
	check := func(set *rules.Set) error {
		return errors.Join(CheckCounters(cfg.Detect)(set), l.gateways.ReadLimits(set))
	}
	if err := check(set); err != nil {
		return nil, err
	}
	found := DetectConfig(cfg.Detect, opts.Log)
	found.OnChange = func(changes []detect.Change) {
		l.admin.Publish(changes)
		if opts.OnChange != nil {
			opts.OnChange(changes)
		}
	}
	l.reload = NewReloader(opts.File, opts.store, check, l.SetRules, opts.Log)
	if l.overrides, err = filestore.OpenOverrides(cfg.State.Dir); err != nil {
		return nil, err
	}
	if missing := l.overrides.Missing(); missing != "" {
		opts.Log.Warn("hotparam: the state directory is not as it was left: " + missing)
	}
	live, err := l.overrides.Live(ctx)
	if err != nil {
		return nil, errors.Join(err, l.overrides.Close())
	}
	parts := pipeline.Config{Rules: set, Gate: GateConfig(cfg.Gate, cfg.Answer, opts.Log),
		Tally: TallyConfig(cfg.Tally, opts.Log)}
	if parts.Denials, err = OpenDenials(cfg.Denials, opts.Log); err != nil {
		return nil, errors.Join(err, l.overrides.Close())
	}
	parts.Gate.Overrides = rules.SortedOverrides(live)
	if l.parts, err = pipeline.InProcess(parts, found); err != nil {
		return nil, errors.Join(err, l.overrides.Close())
	}
	l.parts.KeepSecrets(l.overrides.PassSecrets(opts.Log))
	l.parts.KeepBases(l.overrides.Latencies(upstreamURLs(cfg.Proxy, set)))
	if err := l.listen(ctx, opts); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// listen takes the ports: the proxy's, and the admin page's if it has one.
func (l *Local) listen(ctx context.Context, opts LocalOptions) error {
	var err error
	if opts.Learn != nil {
		if l.learning, err = opts.Learn(l.cfg, l.parts.Gate.Rules, l.clients, l.log); err != nil {
			return err
		}
	}
	if l.cfg.Proxy.Upstream != "" {
		if err := l.gateways.ListenProxy(ctx, l.cfg.Proxy, l.cfg.Answer.Script, l.parts, l.wrapLearning); err != nil {
			return err
		}
	}
	if err := l.gateways.Listen(ctx, l.parts); err != nil {
		return err
	}
	adm := admin.Config{Command: l.parts.Command, Parts: map[string]func(context.Context) error{
		"state": l.overrides.Check, // requests are answered even if the disk is full
	}, Config: live.Config{
		Namespace: l.parts.Gate.Rules().Namespace, Version: opts.Version,
		Hot: l.parts.Aggregate.Hot, Loops: l.parts.Aggregate.Loops, Rules: l.parts.Gate.Rules, Pushed: true,
		Full: l.parts.Aggregate.Full,
		Reports: func(ctx context.Context) ([]report.Limiter, error) {
			r := l.parts.Gate.Report(time.Now())
			var err error
			r.OverridesRevision, err = l.overrides.Revision(ctx) // changes are in force before they are answered
			l.reload.FillReport(&r)
			l.gateways.FillReport(&r)
			return []report.Limiter{r}, err
		},
		Aggregators: func(context.Context) ([]report.Aggregator, error) {
			return []report.Aggregator{{At: time.Now(), RulesHash: l.parts.Gate.Rules().Hash,
				Use: l.parts.Aggregate.Use()}}, nil
		},
		Overrides: l.overrides, Upstreams: l.parts.Bounds, Log: l.log,
	}}
	parts := slices.Concat(MetricsOf(l.parts), l.gateways.metrics, l.reload.Metrics())
	l.history, err = KeepHistory(l.cfg.History, l.cfg.State.Dir, l.parts.Aggregate.Heaviest, &adm, &parts, l.log)
	if err != nil {
		return err
	}
	told := NotifierConfig{Notifications: l.cfg.Notifications, Instance: lifecycle.HostName(), Log: l.log}
	if l.notify, err = NotifyWebhooks(told, &adm, &parts); err != nil {
		return err
	}
	if l.admin, err = l.gateways.listeners.OpenAdmin(ctx, l.cfg.Admin, l.reload, adm, parts); err != nil {
		return err
	}
	l.gateways.listeners.LimitMemory(Tables{Cache: l.cfg.Proxy.CacheMemory, Rules: len(l.parts.Gate.Rules().Rules),
		Gate: l.cfg.Gate, Tally: l.cfg.Tally, Detect: l.cfg.Detect})
	l.schedules = NewScheduleWatcher(l.parts.Gate.Rules().Overrides, l.admin.PublishSchedule, l.log)
	return nil
}

// wrapLearning returns next, wrapped so that the program learns from its requests if it learns at all.
func (l *Local) wrapLearning(next http.Handler) http.Handler {
	if l.learning == nil {
		return next
	}
	return l.learning.Wrap(next)
}

// Addr returns the address of the proxy, or "" if there is no proxy.
func (l *Local) Addr() string {
	if l.gateways.proxy == nil {
		return ""
	}
	return l.gateways.proxy.Addr()
}

// Attrs returns the addresses at which it listens as attributes of a log line.
func (l *Local) Attrs() []any {
	attrs := append(l.gateways.Attrs(), "dashboard", cmp.Or(l.Dashboard(), "none"))
	if l.gateways.proxy == nil {
		return attrs
	}
	return append([]any{"address", "http://" + l.Addr() + "/", "upstream", l.cfg.Proxy.Upstream}, attrs...)
}

// Dashboard returns the URL of the admin page, or "" if the page has no address.
func (l *Local) Dashboard() string { return l.admin.URL() }

func (l *Local) Report() report.Limiter { return l.parts.Gate.Report(time.Now()) }

// Upstreams returns the current limits of the upstreams whose limits are adaptive.
func (l *Local) Upstreams() []hottype.UpstreamLimit { return l.parts.Bounds() }

// Run serves until ctx ends and everything has been handed over.
func (l *Local) Run(ctx context.Context) error {
	defer runtime.KeepAlive(Ballast())
	l.parts.Overrides = l.schedules.SetLive
	l.overrides.Subscribe(l.parts.SetOverrides)
	s := &l.parts.Stages
	s.Add(lifecycle.Sinks, "schedules", l.schedules.Run)
	s.Add(lifecycle.Sinks, "trim", func(ctx context.Context) error {
		return OnSchedule(ctx, "@every 1m", l.log, func(context.Context) error {
			_, err := l.overrides.Trim(time.Now())
			return err
		})
	})
	l.reload.AddTo(s)
	l.history(s)
	l.notify(s)
	if l.learning != nil {
		s.Add(lifecycle.Sinks, "learn", l.learning.Run)
	}
	l.admin.AddTo(s)
	AddNotify(s, l.log)
	return errors.Join(s.Run(Delayed(ctx, l.cfg.Stop, l.log), l.cfg.Stop.Timeout, l.log), l.overrides.Close())
}

func (l *Local) Rules() *rules.Set { return l.parts.Gate.Rules() }

func (l *Local) SetRules(set *rules.Set) {
	l.parts.SetRules(set)
	l.clients.Set(set.IP.TrustedProxies, set.IP.Client)
	l.gateways.ApplyLimits()
	l.schedules.SetFile(set.Overrides)
}

// close releases the resources of NewLocal if it fails.
func (l *Local) close() error {
	if l.admin != nil && l.admin.port != nil {
		_ = l.admin.port.Close() // nothing was served yet
	}
	return l.overrides.Close()
}
