package program

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/operator/metrics"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/auth"
	"github.com/hotparam/pipeline/internal/serving/envoy"
	"github.com/hotparam/pipeline/internal/serving/forwardauth"
	"github.com/hotparam/pipeline/internal/serving/spoe"
	"github.com/hotparam/pipeline/internal/textfile"
)

type gateways struct {
	check  *forwardauth.Handler // nil: none
	envoy  *envoy.Server        // nil: none
	spoe   *spoe.Agent          // nil: none
	limits *envoy.Limits        // of the files as they were last read
}

func (s *sidecar) listenCheck(ctx context.Context) error {
	cfg := s.cfg.Check
	token, err := auth.ReadToken("check.token", cfg.Token, cfg.TokenFile)
	if err != nil {
		return refused(err)
	}
	s.check, err = forwardauth.New(forwardauth.Config{
		Gate: s.parts.Gate, Clients: s.clients, Dialect: forwardauth.Dialect(cfg.Dialect), PathPrefix: cfg.PathPrefix,
		AllowStatus: cfg.AllowStatus, DenyStatus: cfg.DenyStatus, Answers: s.answers, RequestID: cfg.RequestID,
		HideAuthorization: token != "", Log: s.log,
	})
	if err != nil {
		return refused(err)
	}
	guard := auth.NewGuard("check", token, s.log)
	port, err := s.listeners.openGuarded(ctx, "check", cfg.Listen, token, cfg.Listener, guard.Protect(s.check))
	if err != nil {
		return err
	}
	s.parts.Add(lifecycle.Sources, "check", port.Run)
	s.httpMetrics = append(s.httpMetrics, metrics.Of(guard.Stats, "hotparam_check"))
	return nil
}

func (s *sidecar) listenEnvoy(ctx context.Context) error {
	cfg := s.cfg.Envoy
	token, err := auth.ReadToken("envoy.token", cfg.Token, cfg.TokenFile)
	if err != nil {
		return refused(err)
	}
	if err := guarded("envoy", cfg.Listen, token != "", cfg.Port); err != nil {
		return err
	}
	ln, err := s.listeners.openPort(ctx, "envoy", cfg.Listen, cfg.Port)
	if err != nil {
		return err
	}
	guard := auth.NewGuard("envoy", token, s.log)
	answers := s.answers
	answers.Status = cfg.DenyStatus
	s.envoy = envoy.New(envoy.Config{
		Gate: s.parts.Gate, Clients: s.clients, Answers: answers, TLS: ln.TLSConfig(), Log: s.log,
		Authorize: func(r *http.Request) int { return guard.Check(r, time.Now()).Status },
	})
	s.envoy.SetLimits(s.limits)
	s.parts.Add(lifecycle.Sources, "envoy", func(ctx context.Context) error { return s.envoy.Serve(ctx, ln) })
	return nil
}

func (s *sidecar) listenSPOE(ctx context.Context) error {
	cfg := s.cfg.SPOE
	if err := auth.CheckListen(cfg.Listen, cfg.TLSClientCA != ""); err != nil {
		return refused(fmt.Errorf(
			"%w; HAProxy's protocol has no token: ask for its certificate (--spoe.tls_client_ca)", err))
	}
	port, err := s.listeners.openPort(ctx, "spoe", cfg.Listen, cfg.Port)
	if err != nil {
		return err
	}
	ln := net.Listener(port)
	if t := port.TLSConfig(); t != nil {
		ln = tls.NewListener(port, t)
	}
	s.spoe = spoe.New(spoe.Config{Gate: s.parts.Gate, RetryJitter: s.answers.RetryJitter, Log: s.log})
	s.parts.Add(lifecycle.Sources, "spoe", func(ctx context.Context) error { return s.spoe.Serve(ctx, ln) })
	return nil
}

// readLimits reads the files of limits by descriptor, for setRules to take.
func (s *sidecar) readLimits(*rules.Set) error {
	files := make([]envoy.File, len(s.cfg.Envoy.Limits))
	for i, name := range s.cfg.Envoy.Limits {
		data, err := textfile.Read(name)
		if err != nil {
			return refused(fmt.Errorf("envoy.limits: %w", err))
		}
		files[i] = envoy.File{Name: name, Data: data}
	}
	var err error
	s.limits, err = envoy.ParseLimits(files)
	return refused(err)
}

func (g *gateways) metrics() []metrics.Collector {
	return slices.Concat(metricsIf(g.check, g.check.Stats), metricsIf(g.envoy, g.envoy.Stats),
		metricsIf(g.spoe, g.spoe.Stats))
}
