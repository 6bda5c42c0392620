package changes

import (
	"net/http"
	"net/netip"
	"net/url"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
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
