package changes

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/rules"
)

// enforceOverride enforces an override that is in shadow mode: under its ID, or in place of the override that is
// enforced for the same target with the same schedule. An undo restores the replaced override or the shadow mode.
func (s *Service) enforceOverride(w http.ResponseWriter, r *http.Request) error {
	id, who := r.PathValue("id"), web.Author(r)
	live, err := s.liveOverrides(r.Context())
	if err != nil {
		return err
	}
	i := slices.IndexFunc(live, hasID(id))
	if i < 0 {
		return s.notLive(id)
	}
	o := live[i]
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
	tried := o.Version()
	o.Mode, o.Author = "", who
	var replaced *rules.Override // by the enforced override
	if j := slices.IndexFunc(live, o.Replaces); j >= 0 {
		replaced, o.ID = &live[j], live[j].ID
	} else if o.ID == id {
		replaced = &live[i]
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
		gone, err := s.cfg.Overrides.DeleteIf(r.Context(), id, who, tried)
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
