package changes

import (
	"fmt"
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
