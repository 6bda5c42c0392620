// Package changes answers the routes by which people change what limiters do: live overrides, the central rules,
// resets and purges; and the audit, which is the record of them.
//
//	body, query ──strictly──> canonical, redacted, attributed ──> OverrideStore, RuleStore, Command ──> every limiter
//
// The invariant: nothing is stored before all of it was checked, every change is recorded under the name of its caller,
// and its response names the revision from which a limiter has it.
package changes

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/auth"
)

// OverrideStore keeps the live overrides and the audit of their changes. Package filestore
// has the one of a single machine, package rediscontrol the shared one. It is safe for
// concurrent use.
type OverrideStore interface {
	// List returns every override, expired ones may be among them.
	List(ctx context.Context) ([]rules.Override, error)
	// Put stores o under its ID, in place of what was there, and returns it as
	// stored.
	Put(ctx context.Context, o rules.Override) (rules.Override, error)
	// Delete removes an override; rules.ErrNoOverride when there is none.
	Delete(ctx context.Context, id, author string) error
	// Audit returns up to limit changes, newest first.
	Audit(ctx context.Context, limit int) ([]rules.Change, error)
	// Revision is that of the newest change, 0 where there never was one.
	Revision(ctx context.Context) (int64, error)
}

// Config says what can be changed. Rules, Log, Now and Live are needed; what is nil is shown as absent.
type Config struct {
	Rules     func() *rules.Set
	Overrides OverrideStore
	Central   RuleStore
	Reports   func(context.Context) ([]hottype.LimiterReport, error)
	Command   func(context.Context, hottype.Command) (purged int, err error)
	// DryRun judges what rules and live overrides would have made of the last minutes. It runs before
	// anything is stored.
	DryRun func(ctx context.Context, next *rules.Set, live []rules.Override) (any, error)
	Live   Live
	Log    *slog.Logger
	Now    func() time.Time
}

// Live is what the sampler knows of the moment; package live has it.
type Live interface {
	// ReadOverrides reads the store at once, so that the page shows a change without waiting for a sample.
	ReadOverrides(ctx context.Context)
	// Revision is that of the overrides as last read.
	Revision() int64
	// ActiveKeys are the keys with requests now, heaviest first.
	ActiveKeys(now time.Time) []hottype.HotKey
	// AddHits adds to overrides the decisions that they were part of.
	AddHits(list []View, now time.Time)
}

// Service answers the routes. It is safe for concurrent use.
type Service struct{ cfg Config }

// New builds a Service.
func New(cfg Config) *Service { return &Service{cfg} }

// Routes are the routes of the package.
func (s *Service) Routes() []web.Route {
	put := web.If(s.writable, s.putOverride)
	return []web.Route{
		web.Post("/v1/keys/{key}/purge", s.purgeKey),
		web.Post("/v1/keys/{key}/reset", s.resetKey),
		web.Post("/v1/clients/{client}/reset", s.resetClient),
		{Path: "/v1/overrides", Methods: map[string]web.Handler{http.MethodGet: s.listOverrides, http.MethodPut: put}},
		{Path: "/v1/overrides/{id}", Methods: map[string]web.Handler{http.MethodGet: s.getOverride, http.MethodPut: put,
			http.MethodDelete: web.If(s.writable, s.deleteOverride)}},
		web.Post("/v1/overrides/{id}/undo", web.If(s.writable, s.undoOverride)),
		web.Post("/v1/overrides/{id}/enforce", web.If(s.writable, s.enforceOverride)),
		{Path: "/v1/rules", Methods: map[string]web.Handler{http.MethodGet: web.If(s.central, s.getRules),
			http.MethodPut: web.If(s.central, s.putRules)}, Role: auth.Admin},
		{Path: "/v1/rules/trial", Methods: map[string]web.Handler{
			http.MethodDelete: web.If(s.central, s.endTrial)}, Role: auth.Admin},
		web.Get("/v1/rules/history", s.getRulesHistory),
		web.Get("/v1/rules/history/{version}", s.getRevision),
		web.Get("/v1/audit", s.getAudit),
	}
}

// maxAudit is how many changes stores keep at least as long.
const maxAudit = 1000

func (s *Service) getAudit(w http.ResponseWriter, r *http.Request) error {
	most, err := web.QueryInt(r, "limit", 100, maxAudit)
	if err != nil {
		return err
	}
	changes := []rules.Change{}
	if s.cfg.Overrides != nil {
		id := r.URL.Query().Get("id")
		read := most
		if id != "" {
			read = maxAudit
		}
		found, err := s.cfg.Overrides.Audit(r.Context(), read)
		if err != nil {
			return fmt.Errorf("admin: the changes of overrides cannot be read: %w", err)
		}
		if id != "" {
			found = slices.DeleteFunc(found, func(c rules.Change) bool { return c.ID != id })
		}
		changes = append(changes, found[:min(len(found), most)]...)
	}
	answer := map[string]any{"changes": changes}
	if s.cfg.Central != nil {
		revisions, err := s.rulesHistory(r)
		answer["rules"] = withoutTexts(revisions)
		if err != nil { // changes of overrides are listed all the same
			answer["rules_error"] = err.Error()
		}
	}
	return web.WriteJSON(w, http.StatusOK, answer)
}
