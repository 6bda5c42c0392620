package changes

import (
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/rules"
)

const (
	// BroadShare is the part of all requests above which an override gets a warning.
	BroadShare = 0.5
	// confirmShare is the part of the requests, or of the clients, above which a block or a limit is confirmed.
	confirmShare = 0.1
	// Below these a share means nothing: requests a second, and sampled requests.
	minRequests, minSampled = 1.0, 20

	maxExamples = 5 // keys or clients that match and are named
)

// Reach is what an override would hold now.
type Reach struct {
	// Keys of LookedAt match it: those that the aggregator or the limiters know as the heaviest.
	Keys     int `json:"keys"`
	LookedAt int `json:"looked_at"`
	// PerSecond is how often they are asked for, Share their part of what is looked at, 0 to 1.
	PerSecond float64 `json:"requests_per_second"`
	Share     float64 `json:"share"`
	// Clients of ClientsLookedAt match one of clients: those of a sample of the last minute's requests.
	Clients         int `json:"clients,omitempty"`
	ClientsLookedAt int `json:"clients_looked_at,omitempty"`
	// Examples are the heaviest of them.
	Examples []string `json:"examples"`
	// Confirm is why a block or a limit is stored only with confirm=true, "" if it needs none. Percent is the part of
	// the requests or clients that it reaches; of one that reaches all of something, 100 if no more is known.
	Confirm string `json:"confirm,omitempty"`
	Percent int    `json:"percent,omitempty"`
}

// ClientShare is a client with a class, and its part of the last minute's requests.
type ClientShare struct {
	Client, Class string
	Share         float64
}

// reach compares an override with the requests of now; nil if nothing is known.
func (s *Service) reach(o rules.Override, now time.Time) *Reach {
	tried := o
	tried.Until, tried.Schedule, tried.Mode = time.Time{}, rules.Schedule{}, "" // what it would hold while it does
	index := rules.NewOverrides(nil, []rules.Override{tried})
	r, share := &Reach{Examples: []string{}}, 0.0
	if o.OfClients() {
		share = r.ofClients(s, index, now)
	} else {
		share = r.ofKeys(s, index, now)
	}
	r.confirm(s.cfg.Rules(), o, share)
	if r.LookedAt+r.ClientsLookedAt == 0 && r.Confirm == "" {
		return nil
	}
	r.PerSecond, r.Share = *web.Rounded(r.PerSecond), *web.Rounded(r.Share)
	return r
}

// ofKeys returns the part of all requests that have a matching key.
func (r *Reach) ofKeys(s *Service, index *rules.Overrides, now time.Time) float64 {
	asked, all := s.cfg.Live.ActiveKeys(now), 0.0
	r.LookedAt = len(asked)
	for _, h := range asked {
		all += h.Rate
		if index.Find([]byte(h.Key), now) == nil {
			continue
		}
		r.Keys++
		r.PerSecond += h.Rate
		if len(r.Examples) < maxExamples {
			r.Examples = append(r.Examples, string(h.Key))
		}
	}
	if all > 0 {
		r.Share = r.PerSecond / all
	}
	if all = max(all, s.cfg.Live.Requests(now)); all < minRequests {
		return 0
	}
	return r.PerSecond / all
}

// ofClients returns the part of all requests, or of all clients, that match: the greater one.
func (r *Reach) ofClients(s *Service, index *rules.Overrides, now time.Time) float64 {
	clients, sampled := s.cfg.Live.Clients(now)
	r.ClientsLookedAt = len(clients)
	for _, c := range clients {
		addr := hottype.ParseClient(c.Client).Addr
		if index.FindClient(addr, now) == nil && index.FindClass(c.Class, now) == nil {
			continue
		}
		r.Clients++
		r.Share += c.Share
		if len(r.Examples) < maxExamples {
			r.Examples = append(r.Examples, c.Client)
		}
	}
	r.PerSecond = r.Share * s.cfg.Live.Requests(now)
	if sampled < minSampled {
		return 0
	}
	return max(r.Share, float64(r.Clients)/float64(len(clients)))
}

// confirm says whether an override needs a second word. A limit of one key needs none, however often it is asked for:
// that is what the pipeline sets by itself.
func (r *Reach) confirm(set *rules.Set, o rules.Override, share float64) {
	if o.InShadow() || o.Action != rules.ActionLimit && o.Action != rules.ActionBlock ||
		o.Action == rules.ActionLimit && o.IsOneKey() {
		return
	}
	what := "requests"
	if o.OfClients() && r.Share < share-1e-6 {
		what = "clients"
	}
	if r.Confirm = reachesAll(set, o); r.Confirm == everyKey {
		share = 1 // those that are looked at are only the heaviest
	}
	if r.Percent = min(100, int(math.Ceil(100*share-1e-6))); share > confirmShare {
		text := fmt.Sprintf("it reaches %d %% of the %s of the last minute", r.Percent, what)
		if r.Confirm != "" {
			text = r.Confirm + ", and " + text
		}
		r.Confirm = text
	} else if r.Percent = 0; r.Confirm != "" {
		r.Percent = 100
	}
}

const everyKey = "it reaches every key"

// reachesAll says of what an override reaches everything, whatever is asked for now; "" if of nothing.
func reachesAll(set *rules.Set, o rules.Override) string {
	if n := o.Network(); n.IsValid() {
		if rules.IsMostClients(n) {
			return "it reaches most or all clients"
		}
		for _, p := range set.IP.TrustedProxies {
			if n.Overlaps(p) {
				return "it has the trusted proxy " + proxyName(p) + ", whose address stands for all clients behind it"
			}
		}
	}
	rest := strings.TrimRight(o.Key, "*?")
	if name, value, ok := strings.Cut(rest, "="); ok && value == "" { // topic?id=*
		rest, _, _ = strings.Cut(name, "?")
	}
	switch {
	case o.IsPattern() && rest == "":
		return everyKey
	case o.Resource != "":
		return "it reaches every key of " + o.Resource
	case o.IsPattern() && !strings.Contains(rest, "?") && isRule(set, rest):
		return "it reaches every key of " + rest
	}
	return ""
}

func proxyName(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

func isRule(set *rules.Set, name string) bool {
	rule := set.RuleFor(name)
	return rule != nil && rule.Name == name
}

// unconfirmed is the problem of a request that stores an override without the second word that it needs; nil: it may
// be stored.
func (s *Service) unconfirmed(r *http.Request, o rules.Override) error {
	yes, err := web.QueryBool(r, "confirm")
	if err != nil || yes {
		return err
	}
	reach := s.reach(o, s.cfg.Now())
	if reach == nil || reach.Confirm == "" {
		return nil
	}
	p := web.NewProblem(http.StatusPreconditionRequired, fmt.Sprintf("the %s of %s was not stored: %s", o.Action,
		web.Quoted(o.Target().String()), reach.Confirm), "send confirm=true with it, or try it in shadow mode first")
	p.Field, p.Percent = "confirm", reach.Percent
	return p
}

// warnings are what an author may not have meant.
func (r *Reach) warnings() []string {
	switch {
	case r == nil:
		return nil
	case r.Confirm != "":
		return []string{r.Confirm}
	case r.LookedAt > 0 && r.Keys == 0:
		return []string{fmt.Sprintf("it matches none of the %d keys that are asked for most now", r.LookedAt)}
	case r.Keys > 1 && r.Share > BroadShare:
		return []string{fmt.Sprintf("it matches %d keys, %.0f %% of the requests for the %d keys that are asked for "+
			"most now", r.Keys, 100*r.Share, r.LookedAt)}
	}
	return nil
}

// maxLosses bounds what a problem names.
const maxLosses = 20

// checkPush is the problem of rules that take something away from what is in force, or override too much, without
// confirm=true.
func (s *Service) checkPush(r *http.Request, change rules.Revision) error {
	yes, err := web.QueryBool(r, "confirm")
	if err != nil || yes {
		return err
	}
	stored, err := s.cfg.Central.Read(r.Context())
	if err != nil {
		return fmt.Errorf("admin: the rules cannot be read: %w", err)
	}
	before := s.cfg.Rules()
	if stored != nil {
		if running, err := s.cfg.Central.Check(r.Context(), stored.Revision); err == nil {
			before = running
		}
	}
	if next, err := s.cfg.Central.Check(r.Context(), change); err == nil {
		return s.losses(before, next)
	}
	return nil // wrong rules are rejected when they are to be stored
}

func (s *Service) losses(before, next *rules.Set) error {
	lost := rules.Losses(before, next)
	for i, text := range lost {
		lost[i] = "takes away " + text
	}
	for _, o := range next.Overrides {
		if slices.Contains(before.Overrides, o) {
			continue
		}
		if reach := s.reach(o, s.cfg.Now()); reach != nil && reach.Confirm != "" {
			lost = append(lost, fmt.Sprintf("%s of %s: %s", o.Action, web.Quoted(o.Target().String()), reach.Confirm))
		}
	}
	if len(lost) == 0 {
		return nil
	}
	all := len(lost)
	if more := len(lost) - maxLosses; more > 0 {
		lost = append(lost[:maxLosses], fmt.Sprintf("and %d more", more))
	}
	p := web.NewProblem(http.StatusPreconditionRequired, "nothing was stored, because the change\n  "+
		strings.Join(lost, "\n  "), "send confirm=true with it if that is meant")
	p.Field, p.Losses = "confirm", all
	return p
}
