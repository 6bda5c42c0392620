package live

import (
	"cmp"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin/changes"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/rules"
)

// Client is one client, or the clients of a network, with its override and limit, and its requests and their verdicts
// while it is traced.
type Client struct {
	Client string `json:"client"`
	// Asked is the client as the request names it.
	Asked string `json:"asked"`
	// Kind is the field of an override that names it: client, cidr, or "" for a name, which no override can name.
	Kind     string        `json:"kind"`
	Override *changes.View `json:"override"` // null without one
	// Limit is the limit in force for it, or null if it has no limit.
	Limit *limitView `json:"limit"`
	// Limits are the limits of its requests, those of rules only if the rules' windows recently denied it.
	Limits []appliedLimit `json:"limits"`
	// Denied holds its part of a sample of the last minute's denials, or null if it has none.
	Denied *DeniedClient `json:"denied"`
	Trace  *Trace        `json:"trace"` // null: it is not traced
}

// Trace holds the decisions of all limiters about a client since its trace began.
type Trace struct {
	Until    time.Time  `json:"until"`
	Limiters int        `json:"limiters"` // number of limiters that have reported it
	Requests uint64     `json:"requests"`
	Rows     []TraceRow `json:"rows"` // most requests first
}

// TraceRow counts the requests for a key that had the same verdict.
type TraceRow struct {
	Key      hottype.Key    `json:"key"` // "": no rule counts them
	Href     string         `json:"href"`
	Allowed  bool           `json:"allowed"`
	Reason   hottype.Reason `json:"reason"`
	Requests uint64         `json:"requests"`
	Last     time.Time      `json:"last"`
}

const maxTraceRows = 200

// getClient answers with the known facts about a client: GET /v1/clients/{client}.
func (s *Service) getClient(w http.ResponseWriter, r *http.Request) error {
	c, err := web.NamedClient(r, s.cfg.Rules())
	if err != nil {
		return err
	}
	held, err := s.Overrides(r.Context())
	if err != nil {
		return err
	}
	now := s.cfg.Now()
	a := Client{Client: c.String(), Asked: web.Named(r, "client")}
	network, err := netip.ParsePrefix(c.Name)
	switch {
	case c.Addr.IsValid():
		a.Kind = rules.TargetClient
		a.Override = held.ViewOf(held.Index.FindClient(c.Addr, now))
	case err == nil:
		a.Kind = rules.TargetCIDR
		if o := held.Index.FindClient(network.Addr(), now); o != nil && o.CIDR == network.String() {
			a.Override = held.ViewOf(o)
		}
	}
	denied := s.deniedClients(now)
	if i := slices.IndexFunc(denied, func(d DeniedClient) bool { return d.Client == a.Client }); i >= 0 {
		a.Denied = &denied[i]
	}
	a.Limits = s.clientLimits(a.Denied, a.Override)
	a.Limit, _ = s.limitsOf(targetOf(a.Kind, a.Client), now)
	a.Trace = s.traceClient(a.Client, now)
	return web.WriteJSON(w, http.StatusOK, a)
}

// targetOf returns an override that names a client or a network.
func targetOf(kind, name string) rules.Override {
	if kind == rules.TargetCIDR {
		return rules.Override{CIDR: name}
	}
	return rules.Override{Client: name}
}

// traceClient joins the running limiters' reports of a client. It returns nil if the client is not traced.
func (s *Service) traceClient(client string, now time.Time) *Trace {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &Trace{}
	type verdict struct {
		key     hottype.Key
		allowed bool
		reason  hottype.Reason
	}
	rows := map[verdict]TraceRow{}
	for _, in := range s.rates.instances {
		if now.Sub(in.heard) > quietAfter {
			continue
		}
		for _, one := range in.last.Traces {
			if one.Client != client || !now.Before(one.Until) {
				continue
			}
			t.Limiters++
			t.Requests += one.N
			if one.Until.After(t.Until) {
				t.Until = one.Until
			}
			for _, k := range one.Rows {
				of := verdict{k.Key, k.Allowed, k.Reason}
				row := rows[of]
				row.Key, row.Allowed, row.Reason, row.Requests = k.Key, k.Allowed, k.Reason, row.Requests+k.N
				if k.Last.After(row.Last) {
					row.Last = k.Last
				}
				rows[of] = row
			}
		}
	}
	if t.Limiters == 0 {
		return nil
	}
	t.Rows = make([]TraceRow, 0, len(rows))
	for _, row := range rows {
		if row.Key != "" {
			row.Href = web.KeyHref(row.Key)
		}
		t.Rows = append(t.Rows, row)
	}
	slices.SortFunc(t.Rows, func(a, b TraceRow) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Reason, b.Reason))
	})
	t.Rows = t.Rows[:min(len(t.Rows), maxTraceRows)]
	return t
}
