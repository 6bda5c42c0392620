package program

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/logbound"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/operator/metrics"
	"github.com/hotparam/pipeline/internal/serving/auth"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/listener"
)

// Listeners are the listeners of one program, by the section of their settings.
type Listeners struct {
	stop    config.Stop
	clients *httplimit.Clients // decide whose header of the PROXY protocol is trusted
	log     *slog.Logger
	byName  map[string]interface{ Stats() listener.Stats }
	files   int // number of files that the connections may take
	secrets *secretFiles
}

func NewListeners(stop config.Stop, clients *httplimit.Clients, log *slog.Logger) *Listeners {
	return &Listeners{stop: stop, clients: clients, log: log, byName: map[string]interface{ Stats() listener.Stats }{},
		secrets: newSecretFiles(log)}
}

// Open takes a port. Half of the time for a graceful stop is for the requests under way, and the rest for passing on
// their counts.
func (l *Listeners) Open(ctx context.Context, name, addr string, cfg config.Listener,
	h http.Handler) (*listener.Server, error) {
	c := l.listenerConfig(name, addr, cfg.Port)
	c.Handler, c.HeaderTimeout, c.BodyTimeout, c.IdleTimeout = h, cfg.HeaderTimeout, cfg.BodyTimeout, cfg.IdleTimeout
	s, err := listener.Listen(ctx, c)
	if err == nil {
		l.byName[name] = s
	}
	return s, Rejected(err)
}

// openGuarded takes a port whose callers show a token or a certificate, or that only this machine can reach.
func (l *Listeners) openGuarded(ctx context.Context, name, addr string, asks bool, cfg config.Listener,
	h http.Handler) (*listener.Server, error) {
	if err := checkGuarded(name, addr, asks, cfg.Port); err != nil {
		return nil, err
	}
	return l.Open(ctx, name, addr, cfg, h)
}

func (l *Listeners) openPort(ctx context.Context, name, addr string, cfg config.Port) (*listener.Port, error) {
	p, err := listener.Open(ctx, l.listenerConfig(name, addr, cfg))
	if err == nil {
		l.byName[name] = p
	}
	return p, Rejected(err)
}

func (l *Listeners) listenerConfig(name, addr string, cfg config.Port) listener.Config {
	l.files += cfg.MaxConnections
	if name == "proxy" {
		l.files += cfg.MaxConnections // each may have a connection to an upstream
	}
	if text := unknownClients(name, addr, l.clients.TrustsAny()); text != "" {
		l.log.Warn(text)
	}
	return listener.Config{
		Name: name, Addr: addr, TLS: listener.TLS{Cert: cfg.TLSCert, Key: cfg.TLSKey, ClientCA: cfg.TLSClientCA},
		ProxyProtocol: l.proxyProtocol(name, cfg), Trusted: l.clients.Trusts,
		MaxConnections: cfg.MaxConnections, MaxConnectionsClient: cfg.MaxConnectionsClient,
		Grace: l.stop.Timeout / 2, Log: l.log,
	}
}

// proxyProtocol reports for which peers connections begin with a header of the PROXY protocol; nil if the setting is
// off.
func (l *Listeners) proxyProtocol(name string, cfg config.Port) func(netip.Addr) bool {
	if !cfg.ProxyProtocol {
		return nil
	}
	if !l.clients.TrustsAny() {
		l.log.Warn("proxy_protocol has no effect: ip.trusted_proxies is empty", "listener", name)
	}
	return l.clients.Trusts
}

// unknownClients explains why a listener cannot know the clients of the program, or returns "" if it knows them. A unix
// socket has no addresses, and without trusted proxies no header is trusted.
func unknownClients(name, addr string, trustsAny bool) string {
	if name != "proxy" && name != "mirror" || !strings.HasPrefix(addr, auth.UnixPrefix) || trustsAny {
		return ""
	}
	return name + ".listen is a unix socket, which has no addresses, and ip.trusted_proxies is empty: per-IP windows, " +
		"blocks of clients and min_clients never apply; write ip: {trusted_proxies: [127.0.0.1]}, so that the " +
		"X-Forwarded-For of the proxy before it is used"
}

// Rejected marks the error of a part that rejects its settings as a usage error. A port that is taken is not a usage
// error, because the port may be free when the program starts again.
func Rejected(err error) error {
	if op := (*net.OpError)(nil); err == nil || errors.As(err, &op) {
		return err
	}
	return config.Usage("%w", err)
}

// checkGuarded returns an error for an address that other machines can reach without credentials.
func checkGuarded(name, addr string, asked bool, cfg config.Port) error {
	if err := auth.CheckListen(addr, asked || cfg.TLSClientCA != ""); err != nil {
		return config.Usage("%w (--%s.token, --%[2]s.token_file or --%[2]s.tls_client_ca)", err, name)
	}
	return nil
}

// otherFiles is the number of files for logs, certificates, and connections to Redis, Kafka and StatsD.
const otherFiles = 256

// warnOfFewFiles warns if the listeners may need more files than the process may open (ulimit -n). When none is left,
// connections wait in the kernel, health checks too.
func (l *Listeners) warnOfFewFiles() {
	var open syscall.Rlimit
	need := uint64(l.files + otherFiles)
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &open); err != nil || open.Cur >= need {
		return
	}
	l.log.Warn("this process may open fewer files than its listeners need when all connections are taken; "+
		"raise the limit (ulimit -n, LimitNOFILE= of systemd), or lower max_connections",
		"limit", open.Cur, "needed", need)
}

// responderOf returns the responder that the settings describe. Mistakes are found before anything listens.
func responderOf(cfg config.Answer) (httplimit.Responder, error) {
	a := httplimit.Responder{
		Headers: hottype.HeaderStyle(cfg.Headers), ExposeHeaders: cfg.ExposeHeaders, DenyHeaders: cfg.Refusal,
	}
	for name, value := range cfg.Refusal {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return a, config.Usage("--answer.refusal: %q: %q is not a header field", name, value)
		}
	}
	if cfg.Script != "" && (cfg.Script[0] != '/' || hottype.InvalidTargetReason(http.MethodGet, cfg.Script) != "") {
		return a, config.Usage("--answer.script %q must be a path such as /hotparam.js", cfg.Script)
	}
	if err := cmp.Or(a.Check(), gate.CheckRetryJitter(cfg.RetryJitter)); err != nil {
		return a, config.Usage("answer: %w", err)
	}
	return a, nil
}

func (l *Listeners) statsByName() map[string]listener.Stats {
	st := make(map[string]listener.Stats, len(l.byName))
	for name, s := range l.byName {
		st[name] = s.Stats()
	}
	return st
}

// AdminPage is the admin page. Its port is nil if it has no address.
type AdminPage struct {
	*admin.Server
	port    *listener.Server
	secrets *secretFiles
}

// OpenAdmin builds the admin page and takes its port. When ctx ends, the program is no longer ready. The page shows the
// results of reloads, and reloads replace its tokens.
func (l *Listeners) OpenAdmin(ctx context.Context, cfg config.Admin, reload *Reloader, adm admin.Config,
	parts []metrics.Collector) (*AdminPage, error) {
	defer l.warnOfFewFiles() // this listener is the last
	adm = reload.addToAdmin(adm)
	var err error
	if adm.Access, err = readCredentials(cfg); err != nil {
		return nil, err
	}
	limit := memoryLimit()
	listeners := func() metrics.ListenerStats {
		return metrics.ListenerStats{Listeners: l.statsByName(), MemoryLimit: limit}
	}
	parts = append(parts, metrics.Of(listeners), metrics.Of(logbound.Of(l.log).Stats))
	registry := metrics.New(adm.Namespace, adm.Version, l.log, parts...)
	adm.Metrics = registry
	ready := map[string]func(context.Context) error{"running": func(context.Context) error {
		if ctx.Err() != nil {
			return errors.New("told to stop")
		}
		return nil
	}}
	maps.Copy(ready, adm.Ready)
	adm.Ready = ready
	s, err := admin.New(adm)
	if err != nil {
		return nil, err
	}
	registry.Add(metrics.Of(s.Stats), metrics.Of(s.Overview))
	if cfg.MetricsKeyLabels {
		registry.Add(metrics.Of(s.Hottest))
	}
	reload.checkSettings = tokenReplacer(s)
	l.secrets.addTokens("admin.token", cfg.TokenFile, s.ReplaceSharedTokens)
	registry.Add(metrics.Of(l.secrets.fileStats))
	if cfg.Listen == "" {
		return &AdminPage{Server: s, secrets: l.secrets}, nil
	}
	if err := checkGuarded("admin", cfg.Listen, !adm.Access.None(), cfg.Port); err != nil {
		return nil, err
	}
	port, err := l.Open(ctx, "admin", cfg.Listen, cfg.Listener, s.Handler())
	if err != nil {
		return nil, err
	}
	port.OnShutdown(s.CloseStreams)
	return &AdminPage{s, port, l.secrets}, nil
}

func readCredentials(cfg config.Admin) (c auth.Credentials, err error) {
	if c.Shared, err = auth.ReadTokens("admin.token", cfg.Token, cfg.TokenFile); err != nil {
		return c, Rejected(err)
	}
	if c.Tokens, err = auth.ParseTokens("admin.tokens", cfg.Tokens); err != nil {
		return c, Rejected(err)
	}
	c.SSO, err = auth.ParseSSO("admin.sso", auth.SSOSettings{
		User: cfg.SSO.UserHeader, Groups: cfg.SSO.GroupsHeader, Proxies: cfg.SSO.Proxies, Roles: cfg.SSO.Roles,
	})
	return c, Rejected(err)
}

func tokenReplacer(s *admin.Server) func(*config.Parser) (func(), error) {
	return func(next *config.Parser) (func(), error) {
		lines, _ := next.Setting("admin.tokens").(map[string]string)
		tokens, err := auth.ParseTokens("admin.tokens", lines)
		if err == nil {
			err = s.CheckTokens(tokens)
		}
		return func() { s.ReplaceTokens(tokens) }, err
	}
}

// AddTo adds the admin page to the last stage, so that it can be watched while the rest stops.
func (p *AdminPage) AddTo(s *lifecycle.Stages) {
	s.Add(lifecycle.Sinks, "admin", p.Run)
	s.Add(lifecycle.Sinks, "token files", p.secrets.Run)
	if p.port != nil {
		s.Add(lifecycle.Sinks, "admin listener", p.port.Run)
	}
}

// URL returns the address of the dashboard, or "" if it has no address.
func (p *AdminPage) URL() string {
	if p.port == nil {
		return ""
	}
	if addr := p.port.Addr(); strings.HasPrefix(addr, "/") {
		return "unix:" + addr
	}
	return "http://" + p.port.Addr() + "/"
}

// Delayed returns a context that ends later than ctx by the delay of the stop. Listeners go on accepting meanwhile,
// although /readyz, which uses ctx, already reports that the program is not ready.
func Delayed(ctx context.Context, stop config.Stop, log *slog.Logger) context.Context {
	if stop.Delay <= 0 {
		return ctx
	}
	later, end := context.WithCancelCause(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		log.Info("told to stop: not ready, and still accepting", "delay", stop.Delay)
		time.AfterFunc(stop.Delay, func() { end(context.Cause(ctx)) })
	})
	return later
}
