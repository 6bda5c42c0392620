package changes

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/rules"
)

// purgeKey removes the answers for a key from the response caches of all limiters.
func (s *Service) purgeKey(w http.ResponseWriter, r *http.Request) error {
	key, err := web.PathKey(r, s.cfg.Rules())
	if err != nil {
		return err
	}
	n, err := s.command(r, hottype.Command{Action: hottype.CommandPurge, Key: key})
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, purged{Key: key, Purged: n})
}

type purged struct {
	Key    hottype.Key `json:"key"`
	Purged int         `json:"purged"` // answers, in this process
}

// resetKey has all limiters forget what a key has used of its limit.
func (s *Service) resetKey(w http.ResponseWriter, r *http.Request) error {
	key, err := web.PathKey(r, s.cfg.Rules())
	if err != nil {
		return err
	}
	if _, err := s.command(r, hottype.Command{Action: hottype.CommandReset, Key: key}); err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, reset{Key: key})
}

// resetClient has all limiters forget what a client has used of its windows.
func (s *Service) resetClient(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("client")
	c := hottype.ParseClient(name)
	if p, err := netip.ParsePrefix(name); err == nil { // as IPv6 clients are shown
		c = hottype.Client{Addr: p.Addr()}
	}
	if c = s.cfg.Rules().IP.ClientOf(c); c.IsZero() {
		return web.BadField(
			"client",
			"that is not a client",
			"ask for /v1/clients/"+url.PathEscape("192.0.2.7")+"/reset",
		)
	}
	if _, err := s.command(r, hottype.Command{Action: hottype.CommandReset, Client: c}); err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, reset{Client: c.String()})
}

// reset says what was reset, as limits know it.
type reset struct {
	Key    hottype.Key `json:"key,omitempty"`
	Client string      `json:"client,omitempty"`
}

// command has every limiter carry out a command, and says in the log who wanted it.
func (s *Service) command(r *http.Request, c hottype.Command) (purged int, err error) {
	if s.cfg.Command == nil {
		return 0, web.NewProblem(http.StatusNotFound, "this program reaches no limiter",
			"ask an aggregator, a limiter or hotparam serve")
	}
	if purged, err = s.cfg.Command(r.Context(), c); err != nil {
		return 0, err
	}
	of := string(c.Key)
	if of == "" {
		of = c.Client.String()
	}
	s.cfg.Log.Info("admin: command", "action", string(c.Action), "of", of, "author",
		web.Author(r))
	return purged, nil
}

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
