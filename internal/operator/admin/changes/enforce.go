package changes

import (
	"fmt"
	"math"
	"net/http"

	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/rules"
)

// enforceOverride enforces an override that is in shadow mode: under its ID, or in place of the override that is
// enforced for the same target with the same schedule. An undo restores the replaced override or the shadow mode.
func (s *Service) enforceOverride(w http.ResponseWriter, r *http.Request) error {
	id, who := r.PathValue("id"), web.Author(r)
	c, err := s.storedOverrides(r.Context())
	if err != nil {
		return err
	}
	tried, ok := c.Live.Get(id)
	if !ok {
		return s.notLive(id)
	}
	o := tried
	switch {
	case !o.InShadow():
		return web.NewProblem(http.StatusConflict, "override "+web.Quoted(id)+" is enforced already",
			"only one in shadow mode can be enforced")
	case o.Expired(s.cfg.Now()):
		return web.NewProblem(http.StatusConflict,
			fmt.Sprintf("override %s has ended at %s", web.Quoted(id), o.Until.UTC().Format("2006-01-02 15:04:05Z")),
			"put it anew with another end")
	}
	version, err := ifVersion(r)
	if err != nil {
		return err
	}
	if version != rules.AnyVersion && version != o.Version() {
		return s.changedMeanwhile(r.Context(), id)
	}
	o.Mode, o.Author = "", who
	replaced := &tried // by the enforced override
	if same := c.replacedBy(o); same != nil {
		replaced, o.ID = same, same.ID
	}
	if err := s.checkConfirmed(r, o); err != nil {
		return err
	}
	change, err := s.put(r.Context(), o, replaced.Version())
	if err != nil {
		return err
	}
	stored, revision := *change.After, change.Revision
	if stored.ID != id {
		gone, err := s.cfg.Overrides.DeleteIf(r.Context(), id, who, tried.Version())
		if err != nil {
			return fmt.Errorf("admin: override %q is enforced, but %q is still in shadow mode: %w", stored.ID, id, err)
		}
		revision = gone.Revision
	}
	s.afterChange(r.Context(), "enforce", stored.ID, who)
	now := s.cfg.Now()
	a := Response{Viewed(stored, SourceLive, now), revision, change.Revision, s.reachOf(stored, now)}
	a.Warnings = a.Reach.listWarnings()
	w.Header().Set("ETag", formatETag(stored.Version()))
	return web.WriteJSON(w, http.StatusOK, a)
}

// enforceRule pushes the central rules with the limit of one rule enforced, which is in shadow mode until now:
// POST /v1/rules/enforce?rule=NAME.
func (s *Service) enforceRule(w http.ResponseWriter, r *http.Request) error {
	name := r.URL.Query().Get("rule")
	if name == "" {
		return web.BadField("rule", "there is no rule", "give the name of one, such as ?rule=topic")
	}
	stored, err := s.cfg.Central.Read(r.Context())
	if err != nil {
		return fmt.Errorf("admin: the rules cannot be read: %w", err)
	}
	if stored == nil {
		return web.NewProblem(http.StatusNotFound, "the store holds no rules", "push some: PUT /v1/rules")
	}
	text, err := rules.EnforceLimit(stored.Text, name)
	if err != nil {
		return web.NewProblem(http.StatusConflict, err.Error(), "change the text of the rules, and push it")
	}
	change, err := s.revisionOf(r, text)
	if err != nil {
		return err
	}
	if err := s.checkEnforced(r, name); err != nil {
		return err
	}
	return s.changeRules(w, r, change)
}

// checkEnforced returns the problem of an unconfirmed request to enforce the limit of a rule that would deny a large
// part of all requests, or nil.
func (s *Service) checkEnforced(r *http.Request, rule string) error {
	yes, err := web.QueryBool(r, "confirm")
	if err != nil || yes {
		return err
	}
	now := s.cfg.Now()
	of, would := s.cfg.Live.RuleRequests(rule, now)
	all := s.cfg.Live.Requests(now)
	if all < minRequests || would/all <= confirmShare {
		return nil
	}
	p := web.NewProblem(http.StatusPreconditionRequired, fmt.Sprintf("the limit of rule %s was not enforced: it "+
		"denies %.0f requests a second, %.0f %% of those for its keys and %.0f %% of all", web.Quoted(rule), would,
		100*would/of, 100*would/all), "send confirm=true with it if that is meant")
	p.Field, p.Percent = "confirm", min(100, int(math.Ceil(100*would/all-1e-6)))
	return p
}
