package changes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/rules"
)

// Response is the response to a change: the override as it now holds, and
// warnings of what its author may not have meant.
type Response struct {
	View
	// Revision is that of the overrides with the change in them: every limiter whose
	// revision is not lower has it.
	Revision int64 `json:"revision"`
	// Reach is which keys it would hold now; absent where that is not known.
	Reach *Reach `json:"reach,omitempty"`
}

func (s *Service) listOverrides(w http.ResponseWriter, r *http.Request) error {
	live, err := s.cfg.Live.LiveOverrides(r.Context())
	if err != nil {
		return err
	}
	now := s.cfg.Now()
	list := Listed(s.cfg.Rules(), live, now)
	s.cfg.Live.AddHits(list, now)
	a := map[string]any{"overrides": list}
	if trouble := s.cfg.Live.Trouble(); trouble != "" { // these are the overrides as last read
		a["trouble"] = trouble
	}
	return web.WriteJSON(w, http.StatusOK, a)
}

func (s *Service) getOverride(w http.ResponseWriter, r *http.Request) error {
	live, err := s.cfg.Live.LiveOverrides(r.Context())
	if err != nil {
		return err
	}
	id, now := r.PathValue("id"), s.cfg.Now()
	all := Listed(s.cfg.Rules(), live, now)
	i := slices.IndexFunc(all, func(o View) bool { return o.ID == id })
	if i < 0 {
		return noOverride(id)
	}
	s.cfg.Live.AddHits(all[i:i+1], now)
	return web.WriteJSON(w, http.StatusOK, all[i])
}

// putOverride stores an override, or with ?dry_run=true only says what it would hold; see idFor for its ID.
func (s *Service) putOverride(w http.ResponseWriter, r *http.Request) error {
	in, err := readOverride(w, r, s.cfg.Now())
	if err != nil {
		return err
	}
	if full := string(s.cfg.Live.FullKey(hottype.Key(in.override.Key))); full != in.override.Key {
		in.warnings = append(in.warnings, "the key is an alias; it was stored as "+full)
		in.override.Key = full
	}
	redacted, err := web.Redacted(s.cfg.Rules(), in.override.Key)
	if err != nil {
		return err
	}
	if redacted != in.override.Key { // what was warned of until now repeats the key
		in.warnings = []string{"values of the key are redacted; it was stored as " + redacted}
		in.override.Key = redacted
	}
	in.override.Author = web.AuthorOr(r, in.override.Author)
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
		return web.NewProblem(http.StatusBadRequest, err.Error(), "see /openapi.json for what an override holds")
	}
	only, err := web.QueryBool(r, "dry_run")
	if err != nil {
		return err
	}
	status, i := http.StatusCreated, slices.IndexFunc(live, hasID(o.ID))
	if only || i >= 0 {
		status = http.StatusOK
	}
	if o.InShadow() && i >= 0 && !live[i].InShadow() {
		in.warnings = append(in.warnings, "it was enforced until now; in shadow mode it denies no request")
	}
	if !only {
		if err := s.unconfirmed(r, o); err != nil {
			return err
		}
		if o, err = s.cfg.Overrides.Put(r.Context(), o); err != nil {
			return fmt.Errorf("admin: override %q was not stored: %w", o.ID, err)
		}
		s.afterChange(r.Context(), "put", o.ID, o.Author)
		w.Header().Set("Location", "/v1/overrides/"+o.ID)
	}
	now := s.cfg.Now()
	a := Response{Viewed(o, SourceLive, now), s.cfg.Live.Revision(), s.reach(o, now)}
	a.Warnings = slices.Concat(in.warnings, overrideWarnings(s.cfg.Rules(), o), a.Reach.warnings())
	return web.WriteJSON(w, status, a)
}

func (s *Service) deleteOverride(w http.ResponseWriter, r *http.Request) error {
	id, who := r.PathValue("id"), web.Author(r)
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
func (s *Service) undoOverride(w http.ResponseWriter, r *http.Request) error {
	id, who := r.PathValue("id"), web.Author(r)
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
		return web.NewProblem(http.StatusNotFound,
			fmt.Sprintf("no revision %d of an override %s is on record", revision, web.Quoted(id)),
			"GET /v1/audit?id="+url.QueryEscape(id)+" lists those that are")
	}
	if i < 0 {
		return web.NewProblem(http.StatusNotFound, "no change of an override "+web.Quoted(id)+" is on record",
			"GET /v1/audit lists the changes that are")
	}
	if before := audit[i].Before; before != nil {
		if err := s.unconfirmed(r, *before); err != nil {
			return err
		}
	}
	restored, err := s.restore(r.Context(), audit[i], who)
	if err != nil {
		return err
	}
	s.afterChange(r.Context(), "undo", id, who)
	return web.WriteJSON(w, http.StatusOK,
		map[string]any{"undone": audit[i], "override": restored, "revision": s.cfg.Live.Revision()})
}

func queryRevision(r *http.Request) (int64, error) {
	text := r.URL.Query().Get("revision")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, web.BadField("revision", "revision is "+web.Quoted(text), "give one that GET /v1/audit lists")
	}
	return n, nil
}

// restore brings back what was before a change: nil where there was nothing.
func (s *Service) restore(ctx context.Context, c rules.Change, who string) (*rules.Override, error) {
	if c.Before == nil {
		err := s.cfg.Overrides.Delete(ctx, c.ID, who)
		if err != nil && !errors.Is(err, rules.ErrNoOverride) {
			return nil, fmt.Errorf("admin: override %q was not deleted: %w", c.ID, err)
		}
		return nil, nil
	}
	o := *c.Before
	if o.Expired(s.cfg.Now()) {
		return nil, web.NewProblem(http.StatusConflict,
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

// live are the live overrides as the store has them: what a change is made of.
func (s *Service) live(ctx context.Context) ([]rules.Override, error) {
	if s.cfg.Overrides == nil {
		return nil, nil
	}
	list, err := s.cfg.Overrides.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("admin: overrides cannot be read: %w", err)
	}
	return list, nil
}

func (s *Service) writable() error {
	if s.cfg.Overrides == nil {
		return web.NewProblem(http.StatusConflict, "this process keeps no live overrides",
			"write them in the rules file, or start it with a store")
	}
	return nil
}

func (s *Service) notLive(id string) error {
	for _, o := range s.cfg.Rules().Overrides {
		if withID(o).ID == id {
			return web.NewProblem(http.StatusConflict, "override "+web.Quoted(id)+" is written in the rules file",
				"delete it there, or put a live one for the same target: live ones win")
		}
	}
	return noOverride(id)
}

func noOverride(id string) error {
	return web.NewProblem(http.StatusNotFound, "there is no override "+web.Quoted(id), "GET /v1/overrides lists them")
}

// afterChange logs a change and shows it on the streams without waiting for the
// next sample.
func (s *Service) afterChange(ctx context.Context, what, id, who string) {
	s.cfg.Log.Info("admin: override changed", "action", what, "id", id, "author", who)
	s.cfg.Live.ReadOverrides(ctx)
}
