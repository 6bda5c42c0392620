package live

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin/changes"
	"github.com/hotparam/pipeline/internal/operator/admin/past"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
)

const (
	maxClients      = 100 // of a response
	maxShownClients = 10  // of a state event
)

// DeniedClient is a client whose requests are denied by its windows, its share of a limit, or an override.
type DeniedClient struct {
	Client  string `json:"client"`
	Network string `json:"network"` // /24 or /48; "" for a client without an address
	Class   string `json:"class"`   // of its last sampled request; "" without a class
	// Denied is estimated from the samples of the limiters, which keep the samples of the last minute.
	Denied   float64       `json:"denied_per_second"`
	Reasons  []partView    `json:"reasons"`
	Keys     []clientKey   `json:"keys"`     // the keys that it requests
	Address  bool          `json:"address"`  // client is an address, which an override can name
	Override *changes.View `json:"override"` // of the client or its class; null without one
}

type clientKey struct {
	Key   hottype.Key `json:"key"`
	Href  string      `json:"href"`
	Share float64     `json:"share"`
}

// getClients lists the denied clients, and the clients with the most requests: GET /v1/clients?limit.
func (s *Service) getClients(w http.ResponseWriter, r *http.Request) error {
	most, err := web.QueryInt(r, "limit", maxClients, maxClients)
	if err != nil {
		return err
	}
	now := s.cfg.Now()
	list := s.deniedClients(now)
	heaviest := s.heaviestClients(now)
	return web.WriteJSON(w, http.StatusOK, map[string]any{"at": now, "clients": list[:min(len(list), most)],
		"heaviest": heaviest[:min(len(heaviest), most)]})
}

// deniedSum joins the reports of limiters about one client.
type deniedSum struct {
	DeniedClient
	reasons, keys map[string]uint64
	sampled       uint64
}

// deniedClients returns the clients that the running limiters have recently denied, most denials first.
func (s *Service) deniedClients(now time.Time) []DeniedClient {
	sums, held := map[string]*deniedSum{}, s.lastOverrides(now)
	s.mu.Lock()
	for _, in := range s.rates.instances {
		if now.Sub(in.heard) <= quietAfter {
			in.addDenied(sums)
		}
	}
	s.mu.Unlock()
	list := make([]DeniedClient, 0, len(sums))
	for _, sum := range sums {
		if sum.sampled < past.MinSamples {
			continue
		}
		c := sum.DeniedClient
		c.Denied, c.Reasons = *web.Rounded(c.Denied), topShares(sum.reasons, sum.sampled)
		c.Keys = []clientKey{}
		for _, k := range topShares(sum.keys, sum.sampled) {
			if k.Name != "" {
				c.Keys = append(c.Keys, clientKey{hottype.Key(k.Name), web.KeyHref(hottype.Key(k.Name)), k.Share})
			}
		}
		addr := hottype.ParseClient(c.Client).Addr
		c.Address = addr.IsValid()
		if o := cmp.Or(held.Index.FindClient(addr, now), held.Index.FindClass(c.Class, now)); o != nil {
			c.Override = held.ViewOf(o)
		}
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b DeniedClient) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), strings.Compare(a.Client, b.Client))
	})
	return list[:min(len(list), maxClients)]
}

func (in *instance) addDenied(sums map[string]*deniedSum) {
	for _, c := range in.last.DeniedClients {
		sum := sums[c.Client]
		if sum == nil {
			sum = &deniedSum{reasons: map[string]uint64{}, keys: map[string]uint64{}}
			sums[c.Client] = sum
		}
		sum.Client, sum.Network, sum.Class = c.Client, c.Network, c.Class
		sum.sampled += c.N
		sum.Denied += in.speed.OfClient * float64(c.N) / float64(max(in.last.DeniedSampled, 1))
		addNames(sum.reasons, c.Reasons)
		addNames(sum.keys, c.Keys)
	}
}

// Requests returns the number of requests that limiters decide in a second, or 0 if it is not known.
func (s *Service) Requests(now time.Time) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := s.rates.totalSpeed(now)
	all := sum.Allowed + sum.Served
	for _, n := range sum.Denied {
		all += n
	}
	return all
}
