package program

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/detection/aggregate"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/operator/metrics"
	"github.com/hotparam/pipeline/internal/operator/notify"
	"github.com/hotparam/pipeline/internal/pipeline"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/listener"
	"github.com/hotparam/pipeline/internal/serving/proxy"
	"github.com/hotparam/pipeline/internal/serving/respcache"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/storage/rediscontrol"
	"github.com/hotparam/pipeline/internal/tlsfiles"
	"github.com/hotparam/pipeline/internal/transport/kafka"
)

func tallyConfig(cfg config.Tally, log *slog.Logger) tally.Config {
	if cfg.TrackClients <= 0 {
		cfg.TrackClients = -1 // to the tally, 0 is its default
	}
	return tally.Config{Flush: cfg.Flush, MaxKeys: cfg.MaxKeys, TrackClients: cfg.TrackClients, Log: log}
}

func gateConfig(cfg config.Gate, log *slog.Logger) gate.Config {
	return gate.Config{Local: limit.NewMemory(limit.MemoryConfig{MaxSubjects: cfg.MaxSubjects}),
		Instance: lifecycle.InstanceName(cfg.Instance), Log: log}
}

func KafkaConfig(k config.Kafka, namespace string, log *slog.Logger) kafka.Config {
	return kafka.Config{
		Brokers: k.Brokers, Topic: k.Topic, Namespace: namespace, CreateTopic: k.Create, Partitions: k.Partitions,
		TLS:   kafka.TLS{Enabled: k.TLS, Files: tlsfiles.Files(k.Files)},
		Login: kafka.Login{Mechanism: k.SASL, Username: k.Username, Password: k.Password}, Log: log,
	}
}

func detectConfig(cfg config.Detect, log *slog.Logger) aggregate.Config {
	return aggregate.Config{Tick: cfg.Tick, HotTTL: cfg.HotTTL, Lateness: cfg.Lateness, Counters: cfg.Counters,
		MaxRate: cfg.MaxRate, Log: log}
}

// checkCounters makes the check that there are counters for the rates that the rules,
// or the settings, say they expect.
func checkCounters(cfg config.Detect) func(*rules.Set) error {
	return func(set *rules.Set) error { return pipeline.CheckRules(set, detectConfig(cfg, nil)) }
}

func metricsOf(p *pipeline.Pipeline) (list []metrics.Collector) {
	for _, stats := range p.Stats() {
		list = append(list, metrics.OfAny(stats))
	}
	return list
}

// metricsIf are the metrics of a part; none if it is nil.
func metricsIf[T, S any](part *T, stats func() S) []metrics.Collector {
	if part == nil {
		return nil
	}
	return []metrics.Collector{metrics.Of(stats)}
}

// OpenRedis makes a client; budget is that of decisions, 0 where there are none.
func OpenRedis(cfg config.Redis, namespace string, budget time.Duration,
	log *slog.Logger) (*redisclient.Client, error) {
	if cfg.HotTTLNoInput < 0 || cfg.HotTTLNoInput > 24*time.Hour {
		return nil, config.Usage("--redis.hot_ttl_no_input %v: want 0 to 24h", cfg.HotTTLNoInput)
	}
	return redisclient.Open(redisclient.Config{
		Addrs: cfg.Addr, Username: cfg.Username, Password: cfg.Password, DB: cfg.DB, TLS: cfg.TLS,
		TLSFiles: tlsfiles.Files(cfg.Files), SentinelMaster: cfg.SentinelMaster,
		SentinelUsername: cfg.SentinelUsername, SentinelPassword: cfg.SentinelPassword,
		Namespace: namespace, Timeout: cfg.Timeout, Budget: budget, Log: log,
	})
}

// warnAbsent logs at the start that Redis does not answer. It is no error: the
// program runs and goes on by itself when Redis comes.
func warnAbsent(ctx context.Context, c *redisclient.Client, log *slog.Logger) {
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := c.Ping(short); err != nil {
		log.Warn("Redis does not answer yet; trying again until it does. Is --redis.addr right?", "err", err)
	}
}

func redisStatus(c *redisclient.Client, feed *rediscontrol.Feed) admin.Status {
	all := feed.Stats()
	line, st := admin.Status{Name: "redis"}, all.Hot
	switch {
	case c.Stats().ReadOnly:
		line.Value = "rejects writes: a read-only replica"
	case st.Err != "":
		line.Value = st.Err
	case all.OverridesBehind:
		line.Value = "lost overrides that are in force here, and they may not be written back from here"
	case st.AgeSeconds < 0:
		line.Value = "not heard yet"
	default:
		line.Value, line.OK = fmt.Sprintf("heard %.1f s ago", st.AgeSeconds), st.AgeSeconds < 5
	}
	return line
}

// Validate reads a file as serve does and makes serve's checks of its settings, but for the upstream, which most
// give on the command line, and for ports that are taken.
func Validate(path string) (*rules.Set, []string, error) {
	var cfg config.Serve
	p, err := config.Build(&cfg, "serve", "")
	if err != nil {
		return nil, nil, err
	}
	if _, err := p.Parse([]string{"--config", path}); err != nil {
		return nil, nil, err
	}
	set, err := p.RulesToRun()
	if err != nil {
		return nil, nil, err
	}
	if err := checkServe(&cfg, set, slog.New(slog.DiscardHandler)); err != nil {
		var lines []string
		for line := range strings.Lines(err.Error()) {
			lines = append(lines, path+": "+strings.TrimPrefix(line, config.ErrUsage.Error()+": "))
		}
		return nil, nil, config.WrongFile{Err: errors.New(strings.Join(lines, ""))}
	}
	return set, p.Warnings(), nil
}

// checkServe takes the upstreams of the rules file and reports every setting that serve cannot run by. Its parts
// check theirs again when they are built.
func checkServe(cfg *config.Serve, set *rules.Set, log *slog.Logger) error {
	errs := []error{takeUpstreams(&cfg.Proxy, set), checkCounters(cfg.Detect)(set), checkHistory(cfg.History)}
	_, err := answersOf(cfg.Answer)
	errs = append(errs, err)
	access, err := credentials(cfg.Admin)
	if err == nil && cfg.Admin.Listen != "" {
		err = guarded("admin", cfg.Admin.Listen, !access.None(), cfg.Admin.Port)
	}
	errs = append(errs, err)
	_, err = proxyConfig(cfg.Proxy, log)
	errs = append(errs, err)
	if len(cfg.Notifications.Webhooks) > 0 {
		_, err = notify.New(notify.Config{Webhooks: cfg.Notifications.Webhooks, Log: log}, time.Now())
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return config.WrongFile{Err: err}
	}
	return nil
}

func newProxy(g *gate.Gate, cfg config.Proxy, clients *httplimit.Clients, answers httplimit.Responder,
	log *slog.Logger) (*proxy.Proxy, error) {
	c, err := proxyConfig(cfg, log)
	if err != nil {
		return nil, err
	}
	c.Cache.Served, c.Route, c.Clients, c.Answers = g.Cacheable, g.Upstream, clients, answers
	return proxy.New(g, c)
}

func proxyConfig(cfg config.Proxy, log *slog.Logger) (c proxy.Config, err error) {
	upstreams := map[string]*url.URL{}
	if cfg.Upstream != "" {
		if upstreams[""], err = upstreamURL("proxy.upstream", cfg.Upstream); err != nil {
			return c, err
		}
	}
	for name, raw := range cfg.Upstreams {
		if upstreams[name], err = upstreamURL("proxy.upstreams", raw); err != nil {
			return c, err
		}
	}
	tlsConfig, err := listener.ClientTLS("proxy.upstream_", tlsfiles.Files{
		CA: cfg.UpstreamCA, Cert: cfg.UpstreamCert, Key: cfg.UpstreamKey, ServerName: cfg.UpstreamName}, log)
	if err != nil {
		return c, err
	}
	if cfg.CacheMemory <= 0 || cfg.CacheTimeout <= 0 {
		return c, config.Usage("--proxy.cache_memory %d and --proxy.cache_timeout %v have to be above 0",
			cfg.CacheMemory, cfg.CacheTimeout)
	}
	if err := checkCacheMemory(cfg.CacheMemory, machineMemory(os.DirFS("/")), log); err != nil {
		return c, err
	}
	return proxy.Config{
		Cache:     respcache.Config{Memory: cfg.CacheMemory, Timeout: cfg.CacheTimeout},
		Upstreams: upstreams, HeaderTimeout: cfg.Timeout, PreserveHost: cfg.PreserveHost, TLS: tlsConfig, Log: log,
	}, nil
}

// takeUpstreams takes the URLs of the upstreams that the rules file names: the proxy's, unless its
// settings have another one.
func takeUpstreams(cfg *config.Proxy, set *rules.Set) error {
	all := map[string]string{}
	maps.Copy(all, cfg.Upstreams)
	for _, u := range set.Upstreams {
		if u.URL == "" {
			continue
		}
		where, have := "--proxy.upstreams", all[u.Name]
		if u.Name == hottype.DefaultUpstream {
			where, have = "--proxy.upstream", cfg.Upstream
		}
		switch {
		case have != "" && have != u.URL:
			return config.Usage("upstream %q is %s in the rules file and %s in %s: keep one", u.Name, u.URL,
				have, where)
		case u.Name == hottype.DefaultUpstream:
			cfg.Upstream = u.URL
		default:
			all[u.Name] = u.URL
		}
	}
	cfg.Upstreams = all
	return nil
}

// upstreamURL reads the URL of a service. The usual mistake is to leave out
// the scheme.
func upstreamURL(flag, raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c" {
		return nil, config.Usage("--%s %q: want a URL such as http://127.0.0.1:3000", flag, raw)
	}
	return u, nil
}
