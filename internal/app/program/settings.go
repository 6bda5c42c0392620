package program

import (
	"errors"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/counting/accesslog"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/detection/aggregate"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/operator/metrics"
	"github.com/hotparam/pipeline/internal/operator/notify"
	"github.com/hotparam/pipeline/internal/pipeline"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/listener"
	"github.com/hotparam/pipeline/internal/serving/proxy"
	"github.com/hotparam/pipeline/internal/serving/requestlog"
	"github.com/hotparam/pipeline/internal/serving/respcache"
	"github.com/hotparam/pipeline/internal/tlsfiles"
)

// TallyConfig returns the configuration of the tally for the settings.
func TallyConfig(cfg config.Tally, log *slog.Logger) tally.Config {
	if cfg.TrackClients <= 0 {
		cfg.TrackClients = -1 // to the tally, 0 is its default
	}
	return tally.Config{Flush: cfg.Flush, MaxKeys: cfg.MaxKeys, TrackClients: cfg.TrackClients, Log: log}
}

// GateConfig returns the configuration of the gate for the settings, with a store of its own in memory.
func GateConfig(cfg config.Gate, answer config.Answer, log *slog.Logger) gate.Config {
	return gate.Config{Local: limit.NewMemory(limit.MemoryConfig{MaxSubjects: cfg.MaxSubjects}),
		Instance: lifecycle.InstanceName(cfg.Instance), RetryJitter: answer.RetryJitter, Log: log}
}

// OpenDenials opens the log of denials, or returns nil if the settings name no log. Its file is opened again on SIGHUP,
// which does not end the program from now on.
func OpenDenials(cfg config.Denials, log *slog.Logger) (*requestlog.Denials, error) {
	switch {
	case cfg.Log == "":
		return nil, nil
	case cfg.Rate == 0 || cfg.Rate < requestlog.NoMaximum:
		return nil, config.Usage("--denials.rate %d must be at least 1, or -1 for no bound", cfg.Rate)
	}
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	l, err := requestlog.OpenDenials(requestlog.DenialsConfig{To: cfg.Log, Form: accesslog.DenialForm(cfg.Format),
		Rate: cfg.Rate, Reopen: hup, Log: log})
	if err != nil {
		return nil, config.Usage("--denials.log: %w", err)
	}
	return l, nil
}

// DetectConfig returns the configuration of the detection for the settings.
func DetectConfig(cfg config.Detect, log *slog.Logger) aggregate.Config {
	return aggregate.Config{Tick: cfg.Tick, HotTTL: cfg.HotTTL, Lateness: cfg.Lateness, Counters: cfg.Counters,
		MaxRate: cfg.MaxRate, Log: log}
}

// CheckCounters returns a check that there are enough counters for the rates that the rules or the settings expect.
func CheckCounters(cfg config.Detect) func(*rules.Set) error {
	return func(set *rules.Set) error { return pipeline.CheckRules(set, DetectConfig(cfg, nil)) }
}

// MetricsOf returns the collectors of the parts of a pipeline.
func MetricsOf(p *pipeline.Pipeline) (list []metrics.Collector) {
	for _, stats := range p.Stats() {
		list = append(list, metrics.OfAny(stats))
	}
	return list
}

// MetricsIf returns the metrics of a part, or nil if part is nil.
func MetricsIf[T, S any](part *T, stats func() S) []metrics.Collector {
	if part == nil {
		return nil
	}
	return []metrics.Collector{metrics.Of(stats)}
}

// Validate reads a file as serve does and makes serve's checks of its settings. It leaves out the upstream, which most
// users set on the command line, and ports that are taken.
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
	warnings := p.Warnings()
	if text := unknownClients("proxy", cfg.Proxy.Listen, len(set.IP.TrustedProxies) > 0); text != "" {
		warnings = append(warnings, path+": "+text)
	}
	return set, warnings, nil
}

// checkServe takes the upstreams of the rules file into cfg and returns an error for every setting with which serve
// cannot run. The parts check their settings again when they are built.
func checkServe(cfg *config.Serve, set *rules.Set, log *slog.Logger) error {
	errs := []error{TakeUpstreams(&cfg.Proxy, set), CheckCounters(cfg.Detect)(set), checkHistory(cfg.History)}
	_, err := responderOf(cfg.Answer)
	errs = append(errs, err)
	access, err := readCredentials(cfg.Admin)
	if err == nil && cfg.Admin.Listen != "" {
		err = checkGuarded("admin", cfg.Admin.Listen, !access.None(), cfg.Admin.Port)
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
		return c, config.Usage("--proxy.cache_memory %d and --proxy.cache_timeout %v must be above 0",
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

// TakeUpstreams copies the URLs of upstreams from the rules file into cfg. It returns an error if a URL differs from
// the URL in the settings.
func TakeUpstreams(cfg *config.Proxy, set *rules.Set) error {
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

// upstreamURL parses the URL of a service. The usual mistake is to leave out the scheme.
func upstreamURL(flag, raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c" {
		return nil, config.Usage("--%s %q must be a URL such as http://127.0.0.1:3000", flag, raw)
	}
	return u, nil
}

// upstreamURLs returns a text that names the upstreams of the proxy, which differs if any of them is another server.
func upstreamURLs(cfg config.Proxy, set *rules.Set) string {
	urls := []string{cfg.Upstream}
	for _, name := range slices.Sorted(maps.Keys(cfg.Upstreams)) {
		urls = append(urls, name+"="+cfg.Upstreams[name])
	}
	for i := range set.Upstreams {
		urls = append(urls, set.Upstreams[i].Name+"="+set.Upstreams[i].URL)
	}
	return strings.Join(urls, " ")
}
