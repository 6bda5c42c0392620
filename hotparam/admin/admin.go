// Package admin mounts the admin page and its API into a service's own mux: hot keys, clients that are denied, and
// blocks and limits that a person sets. It is a package of its own so that a service without the page does not link it.
//
//	page, err := admin.New(p, admin.Config{Token: os.Getenv("ADMIN_TOKEN")})
//	mux.Handle("/hotparam/", http.StripPrefix("/hotparam", page))
//	mux.Handle("/", p.Middleware(app))
//	server.RegisterOnShutdown(page.CloseStreams)
//
// The page works below any prefix. With hotparam.Config.Shared it shows all limiters, and changes made on it apply to
// all of them; alone it shows and changes this process. Only the programs have central rules, the history and webhooks;
// see docs/admin.md for the API.
package admin

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/operator/admin/live"
	"github.com/hotparam/pipeline/internal/pipeline"
	"github.com/hotparam/pipeline/internal/serving/auth"
)

// Role is the permission of a caller. Each role includes the roles before it.
type Role uint8

// The roles.
const (
	Viewer Role = iota + 1 // reads everything: keys, addresses of clients, overrides, the audit
	// Operator also sets and removes overrides, resets limits, removes cached responses, and traces clients.
	Operator
	Admin // everything
)

// Config defines the callers that may use the handler. Either Token or Access is needed: a handler without
// authentication does not exist, because it shows addresses of clients and can block a site.
type Config struct {
	// Token has the role Admin: a caller sends it as a bearer token, or as the password of basic authentication, which
	// browsers ask for. It has at least 16 characters without spaces; openssl rand -hex 24 makes one. "" means that
	// there is no token.
	Token string
	// Access authenticates a request by the login of the service. It returns the name of the user, who is the author of
	// the user's changes, and the role, or 0 to reject the user. A caller without a role may still send Token. If
	// Access is nil, Token is needed. Many goroutines call it, for every request except /livez and /readyz. A change
	// that a page of another site sends with the user's cookies is rejected before.
	Access func(*http.Request) (user string, role Role)
	// Metrics responds to GET /metrics below the prefix, such as the handler of adapters/prometheus; nil means 404.
	Metrics http.Handler
	// Version is shown in the footer of the page.
	Version string
	// Log receives rejected tokens and failed requests; nil means slog.Default().
	Log *slog.Logger
}

// Handler serves the page, the API (/v1/..., /openapi.json) and the probes /livez and /readyz, which need no token and
// show no details. Paths begin after the prefix, which http.StripPrefix removes.
type Handler struct {
	server *admin.Server
	serve  http.Handler
}

// New returns the handler of a pipeline. Call it before Pipeline.Run, which then also samples for the page once a
// second; before and after Run the page has no live events. Errors report mistakes in c, or a pipeline that
// runs already.
func New(p *hotparam.Pipeline, c Config) (*Handler, error) {
	if c.Token == "" && c.Access == nil {
		return nil, errors.New("admin: Config needs Token or Access: the page shows addresses of clients and changes limits")
	}
	if fault := auth.TokenFault(c.Token); fault != "" {
		return nil, errors.New("admin: Config.Token: " + fault)
	}
	if f, ok := c.Metrics.(http.HandlerFunc); ok && f == nil {
		return nil, errors.New("admin: Config.Metrics is a nil http.HandlerFunc: leave it out, or pass a handler")
	}
	with, err := pipeline.Extend(p)
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	access := auth.Credentials{Token: c.Token}
	if c.Access != nil {
		access.Ask = func(r *http.Request) (auth.Caller, bool) {
			user, role := c.Access(r)
			return auth.Caller{Name: user, Role: auth.Role(min(role, Admin))}, role > 0
		}
	}
	s, err := admin.New(admin.Config{
		Config: live.Config{
			Namespace: with.Gate.Rules().Namespace, Version: c.Version, Log: c.Log,
			Hot:   func() []hottype.HotKey { return with.Hot.Hot(time.Now()) },
			Loops: func() []hottype.HotKey { return with.Hot.Loops(time.Now()) },
			Rules: with.Gate.Rules, Reports: with.Reports, Overrides: with.Overrides, Upstreams: with.Bounds,
			Store: with.Store, OnDemand: with.Store != "",
			Status: func() []admin.Status { return healthStatus(p.Stats().Health) },
		},
		Command: with.Command, Access: access, Metrics: c.Metrics,
	})
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	with.Add(lifecycle.Sinks, "admin page", s.Run)
	return &Handler{s, s.Handler()}, nil
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.serve.ServeHTTP(w, r) }

// CloseStreams ends the event streams of open pages. http.Server.Shutdown waits for them otherwise: pass it to
// RegisterOnShutdown.
func (h *Handler) CloseStreams() { h.server.CloseStreams() }

// healthStatus returns the pipeline's health as the page shows it.
func healthStatus(h hotparam.Health) []admin.Status {
	hot := admin.Status{Name: "hot set", Value: fmt.Sprintf("%.1f s old", h.HotSetAge.Seconds()), OK: !h.Blind()}
	switch {
	case h.HotSetAge < 0:
		hot.Value = "none has come: no key becomes hot"
	case h.CountsDown:
		hot.Value = "counts of this process do not arrive: no key becomes hot by them"
	case h.Blind():
		hot.Value += ", and no aggregator judges: no key becomes hot"
	}
	if h.StoreOpen {
		return []admin.Status{hot, {Name: "breaker", Value: "open: limits are local"}}
	}
	return []admin.Status{hot}
}
