// Package changes answers the routes by which people change the work of limiters: live overrides, the central rules,
// resets and purges; and the audit, which records these changes.
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
	"net/netip"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/auth"
)

// OverrideStore keeps the live overrides and the audit of their changes.
type OverrideStore = rules.OverrideStore

// Config holds the parts that can be changed. Rules, Log, Now and Live are needed. Other fields may be nil and are then
// shown as absent.
type Config struct {
	Rules     func() *rules.Set
	Overrides OverrideStore
	Central   RuleStore
	Reports   func(context.Context) ([]report.Limiter, error)
	Command   func(context.Context, report.Command) (purged int, err error)
	// DryRun judges the last minutes by rules and live overrides, before anything is stored.
	DryRun func(ctx context.Context, next *rules.Set, live []rules.Override) (any, error)
	Live   Live
	Log    *slog.Logger
	Now    func() time.Time
}

// Live is the sampler's knowledge of the present. Package live implements it.
type Live interface {
	// ReadOverrides reads the store at once, so that the page shows a change without waiting for a sample.
	ReadOverrides(ctx context.Context)
	// Overrides returns the overrides of the file and of the store. While the store does not answer, it returns the
	// live overrides that were read last.
	Overrides(ctx context.Context) (*Catalog, error)
	// CatalogOf returns the overrides of the file and given live overrides.
	CatalogOf(live rules.LiveOverrides, now time.Time) *Catalog
	// LastAudit returns the audit as last read, newest first, or nil if it was never read.
	LastAudit() []rules.Change
	// Trouble describes what cannot be read now. It is "" if no failure is known.
	Trouble() string
	// FullKey returns the whole key for which an alias stands, if that is known.
	FullKey(key hottype.Key) hottype.Key
	// ActiveKeys returns the keys with requests now, heaviest first.
	ActiveKeys(now time.Time) []hottype.HotKey
	// Requests returns the number of requests that limiters decide in a second, or 0 if it is not known.
	Requests(now time.Time) float64
	// RuleRequests returns the requests a second that limiters decide for the keys of a rule that they report, and the
	// part of them that something in shadow mode would deny.
	RuleRequests(rule string, now time.Time) (requests, wouldDeny float64)
	// Clients returns the clients of a sample of the last minute's requests, heaviest first, and the number of sampled
	// requests.
	Clients(now time.Time) (list []ClientShare, sampled uint64)
	Shown
	// AddHits adds to overrides the number of decisions in which they took part.
	AddHits(list []View, now time.Time)
}

// Service answers the routes. It is safe for concurrent use.
type Service struct{ cfg Config }

func New(cfg Config) *Service { return &Service{cfg} }

func (s *Service) Routes() []web.Route {
	put := web.If(s.checkWritable, s.putOverride)
	return []web.Route{
		web.Post("/v1/keys/{key}/purge", s.commandKey(report.CommandPurge)),
		web.Post("/v1/keys/{key}/reset", s.commandKey(report.CommandReset)),
		web.Post("/v1/clients/{client}/reset", s.resetClient),
		web.Post("/v1/clients/{client}/trace", s.traceClient),
		web.Post("/v1/key/purge", s.commandKey(report.CommandPurge)),
		web.Post("/v1/key/reset", s.commandKey(report.CommandReset)),
		web.Post("/v1/client/reset", s.resetClient),
		web.Post("/v1/client/trace", s.traceClient),
		{Path: "/v1/overrides", Methods: map[string]web.Handler{http.MethodGet: s.listOverrides, http.MethodPut: put}},
		{Path: "/v1/overrides/{id}", Methods: map[string]web.Handler{http.MethodGet: s.getOverride, http.MethodPut: put,
			http.MethodDelete: web.If(s.checkWritable, s.deleteOverride)}},
		web.Post("/v1/overrides/{id}/undo", web.If(s.checkWritable, s.undoOverride)),
		web.Post("/v1/overrides/{id}/enforce", web.If(s.checkWritable, s.enforceOverride)),
		{Path: "/v1/rules", Methods: map[string]web.Handler{http.MethodGet: web.If(s.checkCentral, s.getRules),
			http.MethodPut: web.If(s.checkCentral, s.putRules)}, Role: auth.Admin},
		{Path: "/v1/rules/enforce", Methods: map[string]web.Handler{
			http.MethodPost: web.If(s.checkCentral, s.enforceRule)}, Role: auth.Admin},
		web.Get("/v1/rules/history", s.getRulesHistory),
		web.Get("/v1/rules/history/{version}", s.getRevision),
		web.Get("/v1/audit", s.getAudit),
	}
}

// maxAudit bounds the changes of one response. Earlier changes are requested with the parameter before.
const maxAudit = 1000

func (s *Service) getAudit(w http.ResponseWriter, r *http.Request) error {
	most, err := web.QueryInt(r, "limit", 100, maxAudit)
	if err != nil {
		return err
	}
	changes, trouble := []rules.Change{}, ""
	if s.cfg.Overrides != nil {
		before, err := queryRevision(r, "before")
		if err != nil {
			return err
		}
		q := rules.AuditQuery{ID: r.URL.Query().Get("id"), Before: before, Limit: most}
		found, err := s.cfg.Overrides.FindChanges(r.Context(), q)
		if err != nil {
			last := s.cfg.Live.LastAudit()
			if last == nil {
				return fmt.Errorf("admin: the changes of overrides cannot be read: %w", err)
			}
			found, trouble = q.Select(last), s.cfg.Live.Trouble()
		}
		changes = append(changes, found...)
	}
	answer := map[string]any{"changes": changes}
	if trouble != "" { // these are the changes as last read
		answer["trouble"] = trouble
	}
	if s.cfg.Central != nil {
		revisions, err := s.rulesHistory(r)
		answer["rules"] = withoutTexts(revisions)
		if err != nil { // changes of overrides are listed in spite of it
			answer["rules_error"] = err.Error()
		}
	}
	return web.WriteJSON(w, http.StatusOK, answer)
}

func (s *Service) commandKey(action report.CommandAction) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		key, err := web.NamedKey(r, s.cfg.Rules())
		if err != nil {
			return err
		}
		key = s.cfg.Live.FullKey(key)
		n, err := s.sendCommand(r, report.Command{Action: action, Key: key})
		if err != nil {
			return err
		}
		answer := map[string]any{"key": key}
		if action == report.CommandPurge {
			answer["purged"] = n // the number of responses in this process
		}
		return web.WriteJSON(w, http.StatusOK, answer)
	}
}

func (s *Service) resetClient(w http.ResponseWriter, r *http.Request) error {
	name := web.Named(r, "client")
	c := hottype.ParseClient(name)
	if p, err := netip.ParsePrefix(name); err == nil { // an IPv6 client as it is shown
		c = hottype.Client{Addr: p.Addr()}
	}
	if c = s.cfg.Rules().IP.ClientOf(c); c.IsZero() {
		return web.BadField("client", "that is not a client", "ask for /v1/client/reset?client=192.0.2.7")
	}
	if _, err := s.sendCommand(r, report.Command{Action: report.CommandReset, Client: c}); err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, map[string]any{"client": c.String()})
}

// traceClient makes every limiter record the requests of a client, or of the clients of a network, for a minute. It
// changes nothing, so it is not in the audit.
func (s *Service) traceClient(w http.ResponseWriter, r *http.Request) error {
	c, err := web.NamedClient(r, s.cfg.Rules())
	if err != nil {
		return err
	}
	if s.cfg.Command == nil {
		return noLimiter()
	}
	if _, err := s.cfg.Command(r.Context(), report.Command{Action: report.CommandTrace, Client: c}); err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, map[string]any{"client": c.String()})
}

func noLimiter() error {
	return web.NewProblem(http.StatusNotFound, "this program reaches no limiter",
		"ask an aggregator, a limiter or hotparam serve")
}

// sendCommand makes every limiter carry out a command, and records the command and its author in the log and the audit.
// It returns the number of responses that a purge removed in this process.
func (s *Service) sendCommand(r *http.Request, c report.Command) (purged int, err error) {
	if s.cfg.Command == nil {
		return 0, noLimiter()
	}
	if purged, err = s.cfg.Command(r.Context(), c); err != nil {
		return 0, err
	}
	of := string(c.Key)
	if of == "" {
		of = "client " + c.Client.String()
	}
	s.Record(r.Context(), rules.Change{Action: string(c.Action), Of: of, Author: web.Author(r)})
	return purged, nil
}

// Record adds an action of a person that changes no override to the log and the audit. The action is done already, so
// if the audit cannot be written, only the log has it.
func (s *Service) Record(ctx context.Context, c rules.Change) {
	s.cfg.Log.Info("admin: command", "action", c.Action, "of", c.Of, "author", c.Author)
	if s.cfg.Overrides == nil {
		return
	}
	if err := s.cfg.Overrides.Record(ctx, c); err != nil {
		s.cfg.Log.Warn("admin: not in the audit", "action", c.Action, "of", c.Of, "author", c.Author, "err", err)
	}
}

// idFor returns the ID under which an override is put: the ID of the path, or else the ID of a live override with the
// same target, schedule and mode, or else an ID that is made of them. An override that was tried first and then
// enforced still has the ID of shadow mode. Then the other ID is free.
func idFor(c *Catalog, o rules.Override) (string, error) {
	if same := c.replacedBy(o); same != nil {
		if o.ID == "" || o.ID == same.ID {
			return same.ID, nil
		}
		return "", web.NewProblem(http.StatusConflict,
			fmt.Sprintf("%s %s already has the override %q", o.Target().Kind, web.Quoted(o.Target().Value), same.ID),
			"put it to /v1/overrides/"+same.ID+", or delete that one first")
	}
	if o.ID != "" {
		return o.ID, nil
	}
	other := o
	if other.Mode = hottype.ModeShadow; o.InShadow() {
		other.Mode = ""
	}
	for _, id := range []string{o.DefaultID(), other.DefaultID()} {
		if c.liveWithID(id) == nil {
			return id, nil
		}
	}
	return "", web.NewProblem(http.StatusConflict,
		fmt.Sprintf("the IDs that %s %s makes belong to other overrides", o.Target().Kind, web.Quoted(o.Target().Value)),
		"put it to /v1/overrides/{id} with an ID of its own")
}
