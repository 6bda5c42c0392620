package changes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/rules"
)

// Response is the response to a change: the override as it is in force now, and warnings about effects that its author
// may not have intended.
type Response struct {
	View
	// Revision is the revision of the overrides with the change: every limiter with this revision or a higher one has
	// it.
	Revision int64 `json:"revision"`
	// Change is the revision of this change in the audit, for an undo. It is 0 in a dry run.
	Change int64 `json:"change,omitempty"`
	// Reach describes the keys or clients that it would affect now. It is absent if they are not known.
	Reach *Reach `json:"reach,omitempty"`
}

// maxListed is the maximum of limit. Without limit, lists are as long as they are.
const maxListed = 100_000

// listOverrides lists the overrides: GET /v1/overrides?limit&offset&find. Without limit it lists all that match.
func (s *Service) listOverrides(w http.ResponseWriter, r *http.Request) error {
	limit, err := web.QueryInt(r, "limit", math.MaxInt, maxListed)
	if err != nil {
		return err
	}
	offset, err := web.QueryOffset(r)
	if err != nil {
		return err
	}
	find, err := web.QueryFind(r)
	if err != nil {
		return err
	}
	c, err := s.cfg.Live.Overrides(r.Context())
	if err != nil {
		return err
	}
	list, matched := c.page(find, offset, limit)
	s.cfg.Live.AddHits(list, s.cfg.Now())
	a := map[string]any{"overrides": list}
	if r.URL.RawQuery != "" { // a page; the whole list can be applied again as it is
		a["matched"] = matched
	}
	if trouble := s.cfg.Live.Trouble(); trouble != "" { // these are the overrides as last read
		a["trouble"] = trouble
	}
	return web.WriteJSON(w, http.StatusOK, a)
}

func (s *Service) getOverride(w http.ResponseWriter, r *http.Request) error {
	c, err := s.cfg.Live.Overrides(r.Context())
	if err != nil {
		return err
	}
	found := c.viewWithID(r.PathValue("id"))
	if found == nil {
		return noOverride(r.PathValue("id"))
	}
	views := []View{*found}
	s.cfg.Live.AddHits(views, s.cfg.Now())
	if found.Version > 0 {
		w.Header().Set("ETag", formatETag(found.Version))
	}
	return web.WriteJSON(w, http.StatusOK, views[0])
}

// putOverride stores an override, or with ?dry_run=true only returns its reach. See idFor for its ID.
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
	if redacted != in.override.Key { // the warnings so far repeat the key
		in.warnings = []string{"values of the key are redacted; it was stored as " + redacted}
		in.override.Key = redacted
	}
	in.override.Author = web.AuthorOr(r, in.override.Author)
	c, err := s.storedOverrides(r.Context())
	if err != nil {
		return err
	}
	o := in.override
	o.ID = r.PathValue("id")
	if o.ID, err = idFor(c, o); err != nil {
		return err
	}
	if err := o.Validate(); err != nil {
		return web.NewProblem(http.StatusBadRequest, err.Error(), "see /openapi.json for the fields of an override")
	}
	only, err := web.QueryBool(r, "dry_run")
	if err != nil {
		return err
	}
	status, before := http.StatusCreated, c.liveWithID(o.ID)
	if err := s.checkRow(r, o); err != nil {
		return err
	}
	if only || before != nil {
		status = http.StatusOK
	}
	if o.InShadow() && before != nil && !before.InShadow() {
		in.warnings = append(in.warnings, "it was enforced until now; in shadow mode it denies no request")
	}
	var revision int64
	raised := s.raiseWarnings(o)
	if !only {
		change, err := s.storeConfirmed(w, r, o)
		if err != nil {
			return err
		}
		o, revision = *change.After, change.Revision
	}
	now := s.cfg.Now()
	a := Response{Viewed(o, SourceLive, now), revision, revision, s.reachOf(o, now)}
	a.Warnings = slices.Concat(in.warnings, overrideWarnings(s.cfg.Rules(), o), raised, a.Reach.listWarnings())
	return web.WriteJSON(w, status, a)
}

// storeConfirmed stores an override that the request confirms, in place of the version that the request names.
func (s *Service) storeConfirmed(w http.ResponseWriter, r *http.Request, o rules.Override) (rules.Change, error) {
	version, err := ifVersion(r)
	if err != nil {
		return rules.Change{}, err
	}
	if err := s.checkConfirmed(r, o); err != nil {
		return rules.Change{}, err
	}
	change, err := s.put(r.Context(), o, version)
	if err != nil {
		return change, err
	}
	s.afterChange(r.Context(), "put", o.ID, o.Author)
	w.Header().Set("Location", "/v1/overrides/"+o.ID)
	w.Header().Set("ETag", formatETag(change.After.Version()))
	return change, nil
}

// put stores an override in place of a version, which may be any version.
func (s *Service) put(ctx context.Context, o rules.Override, version int64) (rules.Change, error) {
	change, err := s.cfg.Overrides.PutIf(ctx, o, version)
	if errors.Is(err, rules.ErrOverrideChanged) {
		return change, s.changedMeanwhile(ctx, o.ID)
	}
	if errors.Is(err, rules.ErrTooManyOverrides) {
		return change, web.NewProblem(http.StatusConflict, err.Error(), "delete some: GET /v1/overrides lists them")
	}
	if err != nil {
		return change, fmt.Errorf("admin: override %q was not stored: %w", o.ID, err)
	}
	return change, nil
}

// ifVersion reads the version of an override on which a change is based. Without If-Match any version matches.
func ifVersion(r *http.Request) (int64, error) {
	return versionOf(r, `send If-Match with the ETag that GET /v1/overrides/{id} gave, "0" for none, or leave it out`)
}

// changedMeanwhile returns the problem of a change that is based on another version of an override than the stored one.
// It names the last change, so that a person can decide.
func (s *Service) changedMeanwhile(ctx context.Context, id string) error {
	what := "was changed meanwhile"
	if last, err := s.cfg.Overrides.FindChanges(ctx, rules.AuditQuery{ID: id, Limit: 1}); err == nil && len(last) > 0 {
		what = changedBy(last[0])
	}
	return web.NewProblem(http.StatusPreconditionFailed, "override "+web.Quoted(id)+" "+what+"; nothing was changed",
		"look at GET /v1/overrides/"+url.PathEscape(id)+", and send the change again if it is still meant")
}

func changedBy(c rules.Change) string {
	what := "was removed"
	if c.After != nil {
		what = "was set to " + string(c.After.Action)
	}
	if c.Author != "" {
		what += " by " + web.Quoted(c.Author)
	}
	return what + " at " + c.At.UTC().Format("2006-01-02 15:04:05Z")
}

// RevisionHeader names the revision of a change in a response without a body.
const RevisionHeader = "Hotparam-Revision"

func (s *Service) deleteOverride(w http.ResponseWriter, r *http.Request) error {
	id, who := r.PathValue("id"), web.Author(r)
	version, err := ifVersion(r)
	if err != nil {
		return err
	}
	change, err := s.cfg.Overrides.DeleteIf(r.Context(), id, who, version)
	switch {
	case errors.Is(err, rule.ErrNoOverride):
		return s.notLive(id)
	case errors.Is(err, rules.ErrOverrideChanged):
		return s.changedMeanwhile(r.Context(), id)
	case err != nil:
		return fmt.Errorf("admin: override %q was not deleted: %w", id, err)
	}
	s.afterChange(r.Context(), "delete", id, who)
	w.Header().Set(RevisionHeader, strconv.FormatInt(change.Revision, 10))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// storedOverrides returns the overrides of the file and of the store, on which changes are based.
func (s *Service) storedOverrides(ctx context.Context) (*Catalog, error) {
	var live rules.LiveOverrides
	if s.cfg.Overrides != nil {
		var err error
		if live, err = s.cfg.Overrides.Live(ctx); err != nil {
			return nil, fmt.Errorf("admin: overrides cannot be read: %w", err)
		}
	}
	return s.cfg.Live.CatalogOf(live, s.cfg.Now()), nil
}

func (s *Service) checkWritable() error {
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

// afterChange logs a change and shows it on the streams without waiting for the next sample.
func (s *Service) afterChange(ctx context.Context, what, id, who string) {
	s.cfg.Log.Info("admin: override changed", "action", what, "id", id, "author", who)
	s.cfg.Live.ReadOverrides(ctx)
}
