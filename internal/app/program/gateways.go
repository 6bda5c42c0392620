package program

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/operator/metrics"
	"github.com/hotparam/pipeline/internal/pipeline"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/auth"
	"github.com/hotparam/pipeline/internal/serving/clientjs"
	"github.com/hotparam/pipeline/internal/serving/decisionapi"
	"github.com/hotparam/pipeline/internal/serving/edge"
	"github.com/hotparam/pipeline/internal/serving/forwardauth"
	"github.com/hotparam/pipeline/internal/serving/held"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/listener"
	"github.com/hotparam/pipeline/internal/serving/spoe"
)

// Gateways are the reverse proxy and the listeners for gateways and services.
type Gateways struct {
	cfg       config.Gateways
	clients   *httplimit.Clients
	answers   httplimit.Responder
	listeners *Listeners
	log       *slog.Logger

	proxy   *listener.Server                // nil: the program has no proxy
	failing func() []report.FailingUpstream // of the proxy; nil without a proxy
	envoy   Envoy                           // nil: the program has no listener for Envoy
	held    *held.Requests                  // nil before a listener for gateways is open
	guards  map[string]*auth.Guard
	metrics []metrics.Collector
}

// NewGateways builds the gateways without taking a port. If open is nil, the program has no listener for Envoy, and a
// setting of such a listener is an error.
func NewGateways(open OpenEnvoy, cfg config.Gateways, answer config.Answer, stop config.Stop,
	clients *httplimit.Clients, log *slog.Logger) (*Gateways, error) {
	answers, err := responderOf(answer)
	g := &Gateways{cfg: cfg, clients: clients, answers: answers, listeners: NewListeners(stop, clients, log),
		log: log, guards: map[string]*auth.Guard{}}
	g.metrics = append(g.metrics, metrics.Of(func() metrics.GatewayStats {
		return metrics.GatewayStats{Refused: g.refusedCounts(time.Now())}
	}))
	if open != nil {
		g.envoy = open()
	} else if cfg.Envoy.Listen != "" {
		err = errors.Join(err, config.InOneProcess("envoy.listen"))
	}
	return g, err
}

// Configured returns the listeners that have an address, without the proxy.
func (g *Gateways) Configured() (list []front) {
	for _, f := range []front{
		{"decide", g.cfg.Decide.Listen, g.listenDecide}, {"check", g.cfg.Check.Listen, g.listenCheck},
		{"envoy", g.cfg.Envoy.Listen, g.listenEnvoy}, {"spoe", g.cfg.SPOE.Listen, g.listenSPOE},
		{"edge", g.cfg.Edge.Listen, g.listenEdge},
	} {
		if f.addr != "" {
			list = append(list, f)
		}
	}
	return list
}

type front struct {
	name, addr string
	listen     func(context.Context, *pipeline.Pipeline) error
}

// Attrs returns the addresses of the listeners as attributes of a log line.
func (g *Gateways) Attrs() (attrs []any) {
	for _, f := range g.Configured() {
		attrs = append(attrs, f.name, f.addr)
	}
	return attrs
}

// Listen takes the ports of the listeners that have an address, and adds the listeners to parts, which run them.
func (g *Gateways) Listen(ctx context.Context, parts *pipeline.Pipeline) error {
	for _, f := range g.Configured() {
		if err := f.listen(ctx, parts); err != nil {
			return err
		}
	}
	return nil
}

// ListenProxy takes the port of the reverse proxy. The handler that wrap returns sees its requests first.
func (g *Gateways) ListenProxy(ctx context.Context, cfg config.Proxy, script string, parts *pipeline.Pipeline,
	wrap func(http.Handler) http.Handler) error {
	p, err := newProxy(parts.Gate, cfg, g.clients, g.answers, g.log)
	if err != nil {
		return err
	}
	if g.proxy, err = g.listeners.Open(ctx, "proxy", cfg.Listen, cfg.Listener,
		clientjs.Handler(script, wrap(p))); err != nil {
		return err
	}
	parts.Add(lifecycle.Sources, "proxy", g.proxy.Run)
	parts.AddCache(p.Cache())
	g.failing = p.Failing
	g.metrics = append(g.metrics, metrics.Of(p.Stats), metrics.Of(p.Cache().Stats), metrics.Of(p.Cache().Silent))
	return nil
}

// heldBy returns the requests that all listeners keep until gateways report their ends.
func (g *Gateways) heldBy(parts *pipeline.Pipeline) *held.Requests {
	if g.held == nil {
		g.held = held.New(parts.Gate)
		g.metrics = append(g.metrics, metrics.Of(g.held.Stats))
	}
	return g.held
}

// isOpen reports whether a browser on this machine can reach a listener, because the listener asks for no credentials.
func isOpen(addr string, asks bool, cfg config.Port) bool {
	return !asks && cfg.TLSClientCA == "" && !strings.HasPrefix(addr, auth.UnixPrefix)
}

func (g *Gateways) listenDecide(ctx context.Context, parts *pipeline.Pipeline) error {
	cfg := g.cfg.Decide
	decide := decisionapi.Decide(parts.Gate)
	guard, asks, err := g.newGuard("decide", cfg.HTTPToken, decide.SetSecrets)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/v1/decide", guard.Protect(decide))
	mux.Handle("/v1/release", guard.Protect(http.HandlerFunc(decide.Release)))
	mux.Handle("/v1/outcomes", guard.Protect(http.HandlerFunc(decide.Outcomes)))
	handler := httplimit.WithoutRedirects(mux)
	if isOpen(cfg.Listen, asks, cfg.Port) {
		handler = auth.OwnSite(handler)
	}
	port, err := g.listeners.openGuarded(ctx, "decide", cfg.Listen, asks, cfg.Listener, handler)
	if err != nil {
		return err
	}
	parts.Add(lifecycle.Sources, "decide", port.Run)
	g.metrics = append(g.metrics, metrics.Of(decide.Stats), metrics.Of(guard.Stats, "hotparam_decision_api"))
	return nil
}

func (g *Gateways) listenCheck(ctx context.Context, parts *pipeline.Pipeline) error {
	cfg := g.cfg.Check
	guard, asks, err := g.newGuard("check", cfg.HTTPToken, nil)
	if err != nil {
		return err
	}
	check, err := forwardauth.New(forwardauth.Config{
		Gate: parts.Gate, Reported: g.heldBy(parts), Clients: g.clients, Dialect: forwardauth.Dialect(cfg.Dialect),
		PathPrefix: cfg.PathPrefix, DenyStatus: cfg.DenyStatus, Answers: g.answers, RequestID: cfg.RequestID,
		HideAuthorization: asks, Log: g.log,
	})
	if err != nil {
		return Rejected(err)
	}
	port, err := g.listeners.openGuarded(ctx, "check", cfg.Listen, asks, cfg.Listener, guard.Protect(check))
	if err != nil {
		return err
	}
	parts.Add(lifecycle.Sources, "check", port.Run)
	g.metrics = append(g.metrics, metrics.Of(check.Stats), metrics.Of(guard.Stats, "hotparam_check"))
	return nil
}

func (g *Gateways) listenEnvoy(ctx context.Context, parts *pipeline.Pipeline) error {
	cfg := g.cfg.Envoy
	guard, asks, err := g.newGuard("envoy", config.HTTPToken{Token: cfg.Token, TokenFile: cfg.TokenFile}, nil)
	if err != nil {
		return err
	}
	if err := checkGuarded("envoy", cfg.Listen, asks, cfg.Port); err != nil {
		return err
	}
	ln, err := g.listeners.openPort(ctx, "envoy", cfg.Listen, cfg.Port)
	if err != nil {
		return err
	}
	answers := g.answers
	answers.Status = cfg.DenyStatus
	g.envoy.Open(EnvoyConfig{
		Gate: parts.Gate, Held: g.heldBy(parts), Clients: g.clients, Answers: answers, Log: g.log,
		Authorize: func(r *http.Request) bool { return guard.Check(r, time.Now()).Status == 0 },
	})
	g.ApplyLimits()
	g.metrics = append(g.metrics, metrics.OfAny(g.envoy.AllStats))
	g.listeners.byName["envoy"] = callsPort{ln, g.envoy.CallsBound()}
	parts.Add(lifecycle.Sources, "envoy", func(ctx context.Context) error { return g.envoy.Serve(ctx, ln) })
	return nil
}

// callsPort is a port whose memory bound includes the calls under way, and not only the connections.
type callsPort struct {
	*listener.Port
	bytes int64
}

func (p callsPort) Stats() listener.Stats {
	st := p.Port.Stats()
	st.MemoryBound += p.bytes
	return st
}

func (g *Gateways) listenSPOE(ctx context.Context, parts *pipeline.Pipeline) error {
	cfg := g.cfg.SPOE
	if err := auth.CheckListen(cfg.Listen, cfg.TLSClientCA != ""); err != nil {
		return Rejected(fmt.Errorf(
			"%w; HAProxy's protocol has no token: ask for its certificate (--spoe.tls_client_ca)", err))
	}
	ln, err := g.listeners.openPort(ctx, "spoe", cfg.Listen, cfg.Port)
	if err != nil {
		return err
	}
	agent := spoe.New(spoe.Config{Gate: parts.Gate, Log: g.log})
	g.metrics = append(g.metrics, metrics.Of(agent.Stats))
	parts.Add(lifecycle.Sources, "spoe", func(ctx context.Context) error { return agent.Serve(ctx, ln) })
	return nil
}

func (g *Gateways) listenEdge(ctx context.Context, parts *pipeline.Pipeline) error {
	cfg := g.cfg.Edge
	guard, asks, err := g.newGuard("edge", cfg.HTTPToken, nil)
	if err != nil {
		return err
	}
	feed := edge.NewFeed(edge.Config{Gate: parts.Gate, Hot: parts.Hot, Ends: g.heldBy(parts), Log: g.log})
	handler := guard.Protect(feed.Handler())
	if isOpen(cfg.Listen, asks, cfg.Port) {
		handler = auth.GatewaysOnly(handler)
	}
	port, err := g.listeners.openGuarded(ctx, "edge", cfg.Listen, asks, cfg.Listener, handler)
	if err != nil {
		return err
	}
	parts.Add(lifecycle.Sources, "edge", port.Run)
	parts.Add(lifecycle.Sources, "edge feed", feed.Run)
	g.metrics = append(g.metrics, metrics.Of(feed.Stats), metrics.Of(guard.Stats, "hotparam_edge"))
	return nil
}

// Collectors returns the metrics of all listeners.
func (g *Gateways) Collectors() []metrics.Collector { return g.metrics }

// HTTP returns the HTTP listeners, to which the program adds its admin page.
func (g *Gateways) HTTP() *Listeners { return g.listeners }

// ReadLimits reads the files of limits by descriptor. They are in force after ApplyLimits.
func (g *Gateways) ReadLimits(*rules.Set) error {
	if g.envoy == nil {
		return nil
	}
	return Rejected(g.envoy.ReadLimits(g.cfg.Envoy.Limits))
}

// ApplyLimits puts the limits that were read last in force.
func (g *Gateways) ApplyLimits() {
	if g.envoy != nil {
		g.envoy.ApplyLimits()
	}
}
