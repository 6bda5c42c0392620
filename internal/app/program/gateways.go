package program

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/operator/metrics"
	"github.com/hotparam/pipeline/internal/pipeline"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/auth"
	"github.com/hotparam/pipeline/internal/serving/clientjs"
	"github.com/hotparam/pipeline/internal/serving/decisionapi"
	"github.com/hotparam/pipeline/internal/serving/edge"
	"github.com/hotparam/pipeline/internal/serving/envoy"
	"github.com/hotparam/pipeline/internal/serving/forwardauth"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/listener"
	"github.com/hotparam/pipeline/internal/serving/spoe"
	"github.com/hotparam/pipeline/internal/textfile"
)

// gateways are the reverse proxy, and the listeners that gateways and services ask.
type gateways struct {
	cfg       config.Gateways
	clients   *httplimit.Clients
	answers   httplimit.Responder
	listeners *listeners
	log       *slog.Logger

	proxy   *listener.Server // nil: none
	envoy   *envoy.Server    // nil: none
	limits  *envoy.Limits    // of the files as they were last read
	metrics []metrics.Collector
}

func newGateways(cfg config.Gateways, answer config.Answer, stop config.Stop, clients *httplimit.Clients,
	log *slog.Logger) (*gateways, error) {
	answers, err := answersOf(answer)
	return &gateways{cfg: cfg, clients: clients, answers: answers, listeners: newListeners(stop, clients, log),
		log: log}, err
}

// configured are those that have an address, beside the proxy.
func (g *gateways) configured() (list []front) {
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

// attrs are their addresses for a log line.
func (g *gateways) attrs() (attrs []any) {
	for _, f := range g.configured() {
		attrs = append(attrs, f.name, f.addr)
	}
	return attrs
}

// listen takes the ports of those that have an address; parts run them.
func (g *gateways) listen(ctx context.Context, parts *pipeline.Pipeline) error {
	for _, f := range g.configured() {
		if err := f.listen(ctx, parts); err != nil {
			return err
		}
	}
	return nil
}

// listenProxy takes the port of the reverse proxy; wrap sees its requests first.
func (g *gateways) listenProxy(ctx context.Context, cfg config.Proxy, script string, parts *pipeline.Pipeline,
	wrap func(http.Handler) http.Handler) error {
	p, err := newProxy(parts.Gate, cfg, g.clients, g.answers, g.log)
	if err != nil {
		return err
	}
	if g.proxy, err = g.listeners.open(ctx, "proxy", cfg.Listen, cfg.Listener,
		clientjs.Handler(script, wrap(p))); err != nil {
		return err
	}
	parts.Add(lifecycle.Sources, "proxy", g.proxy.Run)
	parts.AddCache(p.Cache())
	g.metrics = append(g.metrics, metrics.Of(p.Stats), metrics.Of(p.Cache().Stats), metrics.Of(p.Cache().Silent))
	return nil
}

func (g *gateways) listenDecide(ctx context.Context, parts *pipeline.Pipeline) error {
	cfg := g.cfg.Decide
	token, err := auth.ReadToken("decide.token", cfg.Token, cfg.TokenFile)
	if err != nil {
		return rejected(err)
	}
	decide := decisionapi.Decide(parts.Gate, decisionapi.Options{Secret: token, Answers: g.answers, Log: g.log})
	guard := auth.NewGuard("decide", token, g.log)
	mux := http.NewServeMux()
	mux.Handle("/v1/decide", guard.Protect(decide))
	mux.Handle("/v1/release", guard.Protect(http.HandlerFunc(decide.Release)))
	mux.Handle("/v1/outcomes", guard.Protect(http.HandlerFunc(decide.Outcomes)))
	handler := http.Handler(mux)
	if token == "" && cfg.TLSClientCA == "" && !strings.HasPrefix(cfg.Listen, auth.UnixPrefix) {
		handler = auth.OwnSite(mux)
	}
	port, err := g.listeners.openGuarded(ctx, "decide", cfg.Listen, token, cfg.Listener, handler)
	if err != nil {
		return err
	}
	parts.Add(lifecycle.Sources, "decide", port.Run)
	g.metrics = append(g.metrics, metrics.Of(decide.Stats), metrics.Of(guard.Stats, "hotparam_decision_api"))
	return nil
}

func (g *gateways) listenCheck(ctx context.Context, parts *pipeline.Pipeline) error {
	cfg := g.cfg.Check
	token, err := auth.ReadToken("check.token", cfg.Token, cfg.TokenFile)
	if err != nil {
		return rejected(err)
	}
	check, err := forwardauth.New(forwardauth.Config{
		Gate: parts.Gate, Clients: g.clients, Dialect: forwardauth.Dialect(cfg.Dialect), PathPrefix: cfg.PathPrefix,
		AllowStatus: cfg.AllowStatus, DenyStatus: cfg.DenyStatus, Answers: g.answers, RequestID: cfg.RequestID,
		HideAuthorization: token != "", Log: g.log,
	})
	if err != nil {
		return rejected(err)
	}
	guard := auth.NewGuard("check", token, g.log)
	port, err := g.listeners.openGuarded(ctx, "check", cfg.Listen, token, cfg.Listener, guard.Protect(check))
	if err != nil {
		return err
	}
	parts.Add(lifecycle.Sources, "check", port.Run)
	g.metrics = append(g.metrics, metrics.Of(check.Stats), metrics.Of(guard.Stats, "hotparam_check"))
	return nil
}

func (g *gateways) listenEnvoy(ctx context.Context, parts *pipeline.Pipeline) error {
	cfg := g.cfg.Envoy
	token, err := auth.ReadToken("envoy.token", cfg.Token, cfg.TokenFile)
	if err != nil {
		return rejected(err)
	}
	if err := guarded("envoy", cfg.Listen, token != "", cfg.Port); err != nil {
		return err
	}
	ln, err := g.listeners.openPort(ctx, "envoy", cfg.Listen, cfg.Port)
	if err != nil {
		return err
	}
	guard := auth.NewGuard("envoy", token, g.log)
	answers := g.answers
	answers.Status = cfg.DenyStatus
	g.envoy = envoy.New(envoy.Config{
		Gate: parts.Gate, Clients: g.clients, Answers: answers, Log: g.log,
		Authorize: func(r *http.Request) int { return guard.Check(r, time.Now()).Status },
	})
	g.applyLimits()
	g.metrics = append(g.metrics, metrics.Of(g.envoy.Stats))
	parts.Add(lifecycle.Sources, "envoy", func(ctx context.Context) error { return g.envoy.Serve(ctx, ln) })
	return nil
}

func (g *gateways) listenSPOE(ctx context.Context, parts *pipeline.Pipeline) error {
	cfg := g.cfg.SPOE
	if err := auth.CheckListen(cfg.Listen, cfg.TLSClientCA != ""); err != nil {
		return rejected(fmt.Errorf(
			"%w; HAProxy's protocol has no token: ask for its certificate (--spoe.tls_client_ca)", err))
	}
	ln, err := g.listeners.openPort(ctx, "spoe", cfg.Listen, cfg.Port)
	if err != nil {
		return err
	}
	agent := spoe.New(spoe.Config{Gate: parts.Gate, RetryJitter: g.answers.RetryJitter, Log: g.log})
	g.metrics = append(g.metrics, metrics.Of(agent.Stats))
	parts.Add(lifecycle.Sources, "spoe", func(ctx context.Context) error { return agent.Serve(ctx, ln) })
	return nil
}

func (g *gateways) listenEdge(ctx context.Context, parts *pipeline.Pipeline) error {
	cfg := g.cfg.Edge
	token, err := auth.ReadToken("edge.token", cfg.Token, cfg.TokenFile)
	if err != nil {
		return rejected(err)
	}
	feed := edge.NewFeed(edge.Config{Gate: parts.Gate, Hot: parts.Hot, Log: g.log})
	guard := auth.NewGuard("edge", token, g.log)
	port, err := g.listeners.openGuarded(ctx, "edge", cfg.Listen, token, cfg.Listener, guard.Protect(feed.Handler()))
	if err != nil {
		return err
	}
	parts.Add(lifecycle.Sources, "edge", port.Run)
	parts.Add(lifecycle.Sources, "edge feed", feed.Run)
	g.metrics = append(g.metrics, metrics.Of(feed.Stats), metrics.Of(guard.Stats, "hotparam_edge"))
	return nil
}

// readLimits reads the files of limits by descriptor, for setRules to take.
func (g *gateways) readLimits(*rules.Set) error {
	files := make([]envoy.File, len(g.cfg.Envoy.Limits))
	for i, name := range g.cfg.Envoy.Limits {
		data, err := textfile.Read(name)
		if err != nil {
			return rejected(fmt.Errorf("envoy.limits: %w", err))
		}
		files[i] = envoy.File{Name: name, Data: data}
	}
	var err error
	g.limits, err = envoy.ParseLimits(files)
	return rejected(err)
}

// applyLimits puts the files that were read last in force.
func (g *gateways) applyLimits() {
	if g.envoy != nil {
		g.envoy.SetLimits(g.limits)
	}
}
