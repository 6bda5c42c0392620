package changes

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/rules"
)

func hasID(id string) func(rules.Override) bool {
	return func(o rules.Override) bool { return o.ID == id }
}

// idFor is the ID under which an override is put: that of the path, else the one that its
// target with this schedule and mode already has, else the one that they make. One that was
// enforced after it was tried still has the ID of the mode it had; then the other one is free.
func idFor(live []rules.Override, o rules.Override) (string, error) {
	if i := slices.IndexFunc(live, o.Replaces); i >= 0 {
		if o.ID == "" || o.ID == live[i].ID {
			return live[i].ID, nil
		}
		return "", web.NewProblem(http.StatusConflict,
			fmt.Sprintf("%s %s already has the override %q", o.Target().Kind, web.Quoted(o.Target().Value), live[i].ID),
			"put it to /v1/overrides/"+live[i].ID+", or delete that one first")
	}
	if o.ID != "" {
		return o.ID, nil
	}
	other := o
	if other.Mode = hottype.ModeShadow; o.InShadow() {
		other.Mode = ""
	}
	for _, id := range []string{o.DefaultID(), other.DefaultID()} {
		if !slices.ContainsFunc(live, hasID(id)) {
			return id, nil
		}
	}
	return "", web.NewProblem(http.StatusConflict,
		fmt.Sprintf("the IDs that %s %s makes are those of other overrides", o.Target().Kind, web.Quoted(o.Target().Value)),
		"put it to /v1/overrides/{id} with an ID of its own")
}

// enforceOverride enforces an override that was only tried: under its ID, or in the place of
// the one that is enforced for the same target with the same schedule. Undo brings that back,
// or the shadow mode.
func (s *Service) enforceOverride(w http.ResponseWriter, r *http.Request) error {
	id, who := r.PathValue("id"), web.Author(r)
	live, err := s.live(r.Context())
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
	if o.Mode = ""; who != "" {
		o.Author = who
	}
	if j := slices.IndexFunc(live, o.Replaces); j >= 0 {
		o.ID = live[j].ID
	}
	stored, err := s.cfg.Overrides.Put(r.Context(), o)
	if err != nil {
		return fmt.Errorf("admin: override %q was not stored: %w", o.ID, err)
	}
	if stored.ID != id {
		if err := s.cfg.Overrides.Delete(r.Context(), id, who); err != nil {
			return fmt.Errorf("admin: override %q is enforced, but %q is still in shadow mode: %w", stored.ID, id, err)
		}
	}
	s.afterChange(r.Context(), "enforce", stored.ID, who)
	now := s.cfg.Now()
	a := Response{Viewed(stored, SourceLive, now), s.cfg.Live.Revision(), s.reach(stored, now)}
	a.Warnings = a.Reach.warnings()
	return web.WriteJSON(w, http.StatusOK, a)
}
