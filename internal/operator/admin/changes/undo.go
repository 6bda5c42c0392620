package changes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/rules"
)

// undoOverride takes back the last change of an override. With ?revision= the change of that revision must still be the
// last one, and with If-Match the override must have that version, so that a later change by another person is kept.
// Two undos restore the state before the first.
func (s *Service) undoOverride(w http.ResponseWriter, r *http.Request) error {
	id, who := r.PathValue("id"), web.Author(r)
	last, err := s.lastChange(r, id)
	if err != nil {
		return err
	}
	if before := last.Before; before != nil {
		if err := s.checkConfirmed(r, *before); err != nil {
			return err
		}
	}
	restored, err := s.restore(r.Context(), last, who)
	if err != nil {
		return err
	}
	s.afterChange(r.Context(), "undo", id, who)
	return web.WriteJSON(w, http.StatusOK,
		map[string]any{"undone": last, "override": restored.After, "revision": restored.Revision})
}

// lastChange returns the last change of an override if it is the change that the request names.
func (s *Service) lastChange(r *http.Request, id string) (last rules.Change, err error) {
	audit, err := s.cfg.Overrides.FindChanges(r.Context(), rules.AuditQuery{ID: id, Limit: maxAudit})
	if err != nil {
		return last, fmt.Errorf("admin: the changes of override %q cannot be read: %w", id, err)
	}
	revision, err := queryRevision(r, "revision")
	if err != nil {
		return last, err
	}
	version, err := ifVersion(r)
	if err != nil {
		return last, err
	}
	switch {
	case revision > 0 && !slices.ContainsFunc(audit, func(c rules.Change) bool { return c.Revision == revision }):
		return last, web.NewProblem(http.StatusNotFound,
			fmt.Sprintf("no revision %d of an override %s is on record", revision, web.Quoted(id)),
			"GET /v1/audit?id="+url.QueryEscape(id)+" lists those that are")
	case len(audit) == 0:
		return last, web.NewProblem(http.StatusNotFound, "no change of an override "+web.Quoted(id)+" is on record",
			"GET /v1/audit lists the changes that are")
	}
	if last = audit[0]; revision > 0 && last.Revision != revision ||
		version != rules.AnyVersion && version != last.After.Version() {
		return last, web.NewProblem(http.StatusPreconditionFailed,
			"nothing was undone: override "+web.Quoted(id)+" "+changedBy(last)+", after that change",
			"look at GET /v1/audit?id="+url.QueryEscape(id)+", and set the values that you want")
	}
	return last, nil
}

func queryRevision(r *http.Request, name string) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, web.BadField(name, name+" is "+web.Quoted(text), "give one that GET /v1/audit lists")
	}
	return n, nil
}

// restore restores the override as it was before a change, under the name of the caller, if the change is still the
// last one.
func (s *Service) restore(ctx context.Context, c rules.Change, who string) (change rules.Change, err error) {
	version := c.After.Version()
	if c.After != nil && c.After.Expired(s.cfg.Now()) {
		version = rules.AnyVersion // stores remove overrides that have ended
	}
	if c.Before == nil {
		change, err = s.cfg.Overrides.DeleteIf(ctx, c.ID, who, version)
		if errors.Is(err, rules.ErrOverrideChanged) {
			return change, s.changedMeanwhile(ctx, c.ID)
		}
		if err != nil && !errors.Is(err, rule.ErrNoOverride) {
			return change, fmt.Errorf("admin: override %q was not deleted: %w", c.ID, err)
		}
		return change, nil
	}
	o := *c.Before
	if o.Expired(s.cfg.Now()) {
		return change, web.NewProblem(http.StatusConflict,
			fmt.Sprintf("override %q as it was before has ended at %s", o.ID,
				o.Until.UTC().Format("2006-01-02 15:04:05Z")),
			"put it anew with another end")
	}
	o.Author = who
	return s.put(ctx, o, version)
}
