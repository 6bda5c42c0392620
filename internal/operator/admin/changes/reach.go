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
	// confirmShare is the part of the requests, or of the clients, above which a block or a limit must be confirmed.
	confirmShare = 0.1
	// Below these numbers a share means nothing: requests a second, and sampled requests.
	minRequests, minSampled = 1.0, 20

	maxExamples = 5 // number of matching keys or clients that are named
)

// Reach describes the keys or clients that an override would affect now.
type Reach struct {
	// Keys is the number of matching keys among LookedAt, the heaviest keys that the aggregator or the limiters know.
	Keys     int `json:"keys"`
	LookedAt int `json:"looked_at"`
	// PerSecond is the rate of requests for them, and Share its part of the requests that were examined, 0 to 1.
	PerSecond float64 `json:"requests_per_second"`
	Share     float64 `json:"share"`
	// Clients is the number of matching clients among ClientsLookedAt, the clients of a sample of the last minute's
	// requests. Both are set for overrides of clients.
	Clients         int `json:"clients,omitempty"`
	ClientsLookedAt int `json:"clients_looked_at,omitempty"`
	// Examples are the heaviest matching keys or clients.
	Examples []string `json:"examples"`
	// Confirm is the reason why a block or a limit is stored only with confirm=true, or "" if it needs no confirmation.
	// Percent is the part of the requests or clients that it reaches. If it reaches everything of some kind and no more
	// is known, Percent is 100.
	Confirm string `json:"confirm,omitempty"`
	Percent int    `json:"percent,omitempty"`
}

// ClientShare is a client, its class, and its part of the last minute's requests.
type ClientShare struct {
	Client, Class string
	Share         float64
}

// reachOf compares an override with the present requests. It returns nil if nothing is known of them.
func (s *Service) reachOf(o rules.Override, now time.Time) *Reach {
	tried := o
	tried.Until, tried.Schedule, tried.Mode = time.Time{}, rules.Schedule{}, "" // its reach while it is in force
	index := rules.NewOverrides(nil, []rules.Override{tried})
	r, share := &Reach{Examples: []string{}}, 0.0
	if o.OfClients() {
		share = r.measureClients(s, index, now)
	} else {
		share = r.measureKeys(s, index, now)
	}
	r.setConfirm(s.cfg.Rules(), o, share)
	if r.LookedAt+r.ClientsLookedAt == 0 && r.Confirm == "" {
		return nil
	}
	r.PerSecond, r.Share = *web.Rounded(r.PerSecond), *web.Rounded(r.Share)
	return r
}

// measureKeys returns the part of all requests whose keys match.
func (r *Reach) measureKeys(s *Service, index *rules.Overrides, now time.Time) float64 {
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

// measureClients returns the matching part of all requests or of all clients, whichever is greater.
func (r *Reach) measureClients(s *Service, index *rules.Overrides, now time.Time) float64 {
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

// setConfirm sets Confirm and Percent of an override that must be confirmed. A limit of one key never must, however
// often the key is requested, because the pipeline sets such limits by itself.
func (r *Reach) setConfirm(set *rules.Set, o rules.Override, share float64) {
	if o.InShadow() || o.Action != rules.ActionLimit && o.Action != rules.ActionBlock ||
		o.Action == rules.ActionLimit && o.IsOneKey() {
		return
	}
	what := "requests"
	if o.OfClients() && r.Share < share-1e-6 {
		what = "clients"
	}
	if r.Confirm = reachesAll(set, o); r.Confirm == everyKey {
		share = 1 // only the heaviest keys were examined
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

// reachesAll names the keys or clients of which an override reaches all, even those without requests now. It returns ""
// if there are none.
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

// checkConfirmed returns the problem of a request that stores an override without the confirmation that it needs, or
// nil if the override may be stored.
func (s *Service) checkConfirmed(r *http.Request, o rules.Override) error {
	yes, err := web.QueryBool(r, "confirm")
	if err != nil || yes {
		return err
	}
	reach := s.reachOf(o, s.cfg.Now())
	if reach == nil || reach.Confirm == "" {
		return nil
	}
	p := web.NewProblem(http.StatusPreconditionRequired, fmt.Sprintf("the %s of %s was not stored: %s", o.Action,
		web.Quoted(o.Target().String()), reach.Confirm), "send confirm=true with it, or try it in shadow mode first")
	p.Field, p.Percent = "confirm", reach.Percent
	return p
}

// listWarnings returns descriptions of effects that an author may not have intended.
func (r *Reach) listWarnings() []string {
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

// maxLosses bounds the losses that a problem names.
const maxLosses = 20

// checkPush returns the problem of rules that take something away from the rules in force, or override too much,
// without confirm=true.
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
		return s.checkLosses(before, next)
	}
	return nil // invalid rules are rejected when they are stored
}

func (s *Service) checkLosses(before, next *rules.Set) error {
	lost := rules.Losses(before, next)
	for i, text := range lost {
		lost[i] = "takes away " + text
	}
	for _, o := range next.Overrides {
		if slices.Contains(before.Overrides, o) {
			continue
		}
		if reach := s.reachOf(o, s.cfg.Now()); reach != nil && reach.Confirm != "" {
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
