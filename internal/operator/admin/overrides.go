package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/hotparam/pipeline/internal/rules"
)

// overrideAnswer is the answer to a change: the override as it now holds, and
// what its author may not have meant.
type overrideAnswer struct {
	overrideView
	// Revision is that of the overrides with the change in them: every limiter whose
	// revision is not lower has it.
	Revision int64 `json:"revision"`
	// Reach is which keys it would hold now; absent where that is not known.
	Reach *overrideReach `json:"reach,omitempty"`
}

func (s *Server) listOverrides(w http.ResponseWriter, r *http.Request) error {
	live, err := s.live(r.Context())
	if err != nil {
		return err
	}
	now := s.cfg.Now()
	list := listed(s.cfg.Rules(), live, now)
	s.met(list, now)
	return writeJSON(w, http.StatusOK, map[string]any{"overrides": list})
}

func (s *Server) getOverride(w http.ResponseWriter, r *http.Request) error {
	live, err := s.live(r.Context())
	if err != nil {
		return err
	}
	id, now := r.PathValue("id"), s.cfg.Now()
	all := listed(s.cfg.Rules(), live, now)
	i := slices.IndexFunc(all, func(o overrideView) bool { return o.ID == id })
	if i < 0 {
		return noOverride(id)
	}
	s.met(all[i:i+1], now)
	return writeJSON(w, http.StatusOK, all[i])
}

// putOverride stores an override, or with ?dry_run=true only says what it would hold; see idFor for its ID.
func (s *Server) putOverride(w http.ResponseWriter, r *http.Request) error {
	in, err := readOverride(w, r, s.cfg.Now())
	if err != nil {
		return err
	}
	redacted, err := s.redacted(in.override.Key)
	if err != nil {
		return err
	}
	if redacted != in.override.Key { // what was warned of until now repeats the key
		in.warnings = []string{"values of the key are redacted; it was stored as " + redacted}
		in.override.Key = redacted
	}
	in.override.Author = author(r, in.override.Author)
	live, err := s.live(r.Context())
	if err != nil {
		return err
	}
	o := in.override
	o.ID = r.PathValue("id")
	if o.ID, err = idFor(live, o); err != nil {
		return err
	}
	if err := o.Validate(); err != nil {
		return newProblem(http.StatusBadRequest, err.Error(), "see /openapi.json for what an override holds")
	}
	only, err := wantsDryRun(r)
	if err != nil {
		return err
	}
	status, i := http.StatusCreated, slices.IndexFunc(live, hasID(o.ID))
	if only || i >= 0 {
		status = http.StatusOK
	}
	if o.InShadow() && i >= 0 && !live[i].InShadow() {
		in.warnings = append(in.warnings, "it was enforced until now; in shadow mode it denies nobody")
	}
	if !only {
		if o, err = s.cfg.Overrides.Put(r.Context(), o); err != nil {
			return fmt.Errorf("admin: override %q was not stored: %w", o.ID, err)
		}
		s.afterChange(r.Context(), "put", o.ID, o.Author)
		w.Header().Set("Location", "/v1/overrides/"+o.ID)
	}
	now := s.cfg.Now()
	a := overrideAnswer{viewed(o, sourceLive, now), s.revisionNow(), s.reach(o, now)}
	a.Warnings = slices.Concat(in.warnings, overrideWarnings(s.cfg.Rules(), o), a.Reach.warnings())
	return writeJSON(w, status, a)
}

func (s *Server) deleteOverride(w http.ResponseWriter, r *http.Request) error {
	id, who := r.PathValue("id"), author(r, r.URL.Query().Get("author"))
	err := s.cfg.Overrides.Delete(r.Context(), id, who)
	if errors.Is(err, rules.ErrNoOverride) {
		return s.notLive(id)
	}
	if err != nil {
		return fmt.Errorf("admin: override %q was not deleted: %w", id, err)
	}
	s.afterChange(r.Context(), "delete", id, who)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// undoOverride takes the last change of an override back, or with ?revision= that change
// and all after it. Undone twice it stands as before the first undo.
func (s *Server) undoOverride(w http.ResponseWriter, r *http.Request) error {
	id, who := r.PathValue("id"), author(r, r.URL.Query().Get("author"))
	audit, err := s.cfg.Overrides.Audit(r.Context(), maxAudit)
	if err != nil {
		return fmt.Errorf("admin: the changes of override %q cannot be read: %w", id, err)
	}
	revision, err := queryRevision(r)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(audit, func(c rules.Change) bool {
		return c.ID == id && (revision == 0 || c.Revision == revision)
	})
	if i < 0 && revision > 0 {
		return newProblem(http.StatusNotFound, fmt.Sprintf("no revision %d of an override %s is on record", revision,
			quoted(id)),
			"GET /v1/audit?id="+url.QueryEscape(id)+" lists those that are")
	}
	if i < 0 {
		return newProblem(http.StatusNotFound, "no change of an override "+quoted(id)+" is on record",
			"GET /v1/audit lists the changes that are")
	}
	restored, err := s.restore(r.Context(), audit[i], who)
	if err != nil {
		return err
	}
	s.afterChange(r.Context(), "undo", id, who)
	return writeJSON(w, http.StatusOK,
		map[string]any{"undone": audit[i], "override": restored, "revision": s.revisionNow()})
}

// restore brings back what was before a change: nil where there was nothing.
func (s *Server) restore(ctx context.Context, c rules.Change, who string) (*rules.Override, error) {
	if c.Before == nil {
		err := s.cfg.Overrides.Delete(ctx, c.ID, who)
		if err != nil && !errors.Is(err, rules.ErrNoOverride) {
			return nil, fmt.Errorf("admin: override %q was not deleted: %w", c.ID, err)
		}
		return nil, nil
	}
	o := *c.Before
	if o.Expired(s.cfg.Now()) {
		return nil, newProblem(http.StatusConflict,
			fmt.Sprintf("override %q as it was before has ended at %s", o.ID,
				o.Until.UTC().Format("2006-01-02 15:04:05Z")),
			"put it anew with another end")
	}
	if who != "" {
		o.Author = who
	}
	stored, err := s.cfg.Overrides.Put(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("admin: override %q was not stored: %w", o.ID, err)
	}
	return &stored, nil
}

// maxAudit is how many changes stores keep at least as long.
const maxAudit = 1000

func (s *Server) getAudit(w http.ResponseWriter, r *http.Request) error {
	most, err := queryInt(r, "limit", 100, maxAudit)
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
		if err != nil { // what was done to overrides is told all the same
			answer["rules_error"] = err.Error()
		}
	}
	return writeJSON(w, http.StatusOK, answer)
}

// live lists the store, empty where there is none.
func (s *Server) live(ctx context.Context) ([]rules.Override, error) {
	if s.cfg.Overrides == nil {
		return nil, nil
	}
	list, err := s.cfg.Overrides.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("admin: overrides cannot be read: %w", err)
	}
	return list, nil
}

func (s *Server) writable() error {
	if s.cfg.Overrides == nil {
		return newProblem(http.StatusConflict, "this process keeps no live overrides",
			"write them in the rules file, or start it with a store")
	}
	return nil
}

// notLive explains why an ID cannot be deleted.
func (s *Server) notLive(id string) error {
	for _, o := range s.cfg.Rules().Overrides {
		if withID(o).ID == id {
			return newProblem(http.StatusConflict, "override "+quoted(id)+" is written in the rules file",
				"delete it there, or put a live one for the same target: live ones win")
		}
	}
	return noOverride(id)
}

func noOverride(id string) error {
	return newProblem(http.StatusNotFound, "there is no override "+quoted(id), "GET /v1/overrides lists them")
}

// afterChange logs a change and shows it on the streams without waiting for the
// next sample.
func (s *Server) afterChange(ctx context.Context, what, id, who string) {
	s.cfg.Log.Info("admin: override changed", "action", what, "id", id, "author", who)
	s.readOverrides(ctx)
}

// revisionNow is the revision that was read after a change, so that it has the change in it.
func (s *Server) revisionNow() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.overrides.revision
}
