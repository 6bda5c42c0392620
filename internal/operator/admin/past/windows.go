package past

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/rules"
)

// MinSamples is the number of samples from which a client is known. One sample may stand for any client, and its rate
// would be the rate of all requests divided by the number of samples.
const MinSamples = 5

// maxDeniedNames bounds the clients that a WindowTrial names.
const maxDeniedNames = 5

// Traffic is a sample of the last minute's requests by client.
type Traffic struct {
	Requests float64 // requests a second of all limiters, or 0 if unknown
	Limiters int
	Sampled  uint64 // number of sampled requests
	Samples  []ClientSample
}

// ClientSample counts the samples of one client, in one class, that have the same Requested.
type ClientSample struct {
	Client, Class string
	// Requested is method, host and path: "GET news.example/topic", or "" if they are not known.
	Requested string
	N         uint64
	Share     float64 // of all requests
}

// WindowTrials is the effect of the windows of clients on a sample of the last minute's requests. It supposes that each
// client goes on at its rate, evenly. Clients with fewer than MinSamples samples are not known and not counted.
type WindowTrials struct {
	Sampled uint64 `json:"sampled"` // number of sampled requests
	// KnownFrom is the rate from which a client is known, in requests a second, or nil if no requests are known.
	KnownFrom *float64      `json:"known_from"`
	Rules     []WindowTrial `json:"rules"`
	// NotTried are the windows of the new rules that are not in Rules, each with the reason.
	NotTried []string `json:"not_tried"`
}

// WindowTrial is the effect of the windows that each client has for the requests of a rule.
type WindowTrial struct {
	Rule     string   `json:"rule"` // "": the windows of ip, for all requests
	Requests *float64 `json:"requests_per_second"`
	Clients  int      `json:"clients"` // known clients
	// The requests that the windows deny in a second, and the number of clients whose requests they deny.
	DeniedBefore  *float64 `json:"denied_before"`
	DeniedAfter   *float64 `json:"denied_after"`
	ClientsBefore int      `json:"clients_before"`
	ClientsAfter  int      `json:"clients_after"`
	// Examples are clients whose requests the new rules deny, most denied first.
	Examples []string `json:"examples"`
}

// tryWindows tries the windows of clients, of ip and of rules with per_client. It returns nil if there are none.
func tryWindows(t *Traffic, now, next *rulesAt) *WindowTrials {
	names := windowNames(next.set)
	for _, name := range windowNames(now.set) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	a := &WindowTrials{Sampled: t.Sampled, Rules: []WindowTrial{}, NotTried: []string{}}
	if t.Sampled == 0 || t.Requests <= 0 {
		a.NotTried = append(a.NotTried, "no limiter has reported requests of clients in the last minute")
		return a
	}
	a.KnownFrom = web.Rounded(MinSamples * t.Requests / float64(t.Sampled))
	a.NotTried = append(a.NotTried, fieldWindows(next.set)...)
	before, after := now.ratesByClient(t), next.ratesByClient(t)
	for _, name := range names {
		was, is := now.denyByWindows(name, before[name], t), next.denyByWindows(name, after[name], t)
		a.Rules = append(a.Rules, WindowTrial{
			Rule: name, Requests: web.Rounded(cmp.Or(is.requests, was.requests)),
			Clients:      cmp.Or(is.clients, was.clients),
			DeniedBefore: web.Rounded(was.rate), DeniedAfter: web.Rounded(is.rate),
			ClientsBefore: len(was.denied), ClientsAfter: len(is.denied), Examples: is.examples(),
		})
	}
	return a
}

// windowNames returns the names of the rules with windows of clients, and "" if all requests have some.
func windowNames(set *rules.Set) (names []string) {
	ofClass := func(c *rules.Class) bool { return c.Fixed != nil || c.Sliding != nil }
	if set.IP.Fixed != nil || set.IP.Sliding != nil || slices.ContainsFunc(set.Classes, ofClass) {
		names = append(names, "")
	}
	for _, r := range set.Rules {
		if r.PerClient != nil {
			names = append(names, r.Name)
		}
	}
	return names
}

// fieldWindows describes the windows that count by a field of the request, which samples lack.
func fieldWindows(set *rules.Set) (list []string) {
	add := func(of string, windows ...*rules.ClientWindow) {
		for _, w := range windows {
			if w != nil && w.Field != nil {
				list = append(list, "a window of "+of+" by "+w.Field.Header+", because samples have addresses")
			}
		}
	}
	add("ip", set.IP.Fixed, set.IP.Sliding)
	for _, r := range set.Rules {
		if r.PerClient != nil {
			add(r.Name, r.PerClient.Fixed, r.PerClient.Sliding)
		}
	}
	for _, c := range set.Classes {
		add("class "+c.Name, c.Fixed, c.Sliding)
		if c.PerClient != nil {
			add("class "+c.Name, c.PerClient.Fixed, c.PerClient.Sliding)
		}
	}
	return list
}

type classClient struct{ client, class string }

type clientRate struct {
	rate float64 // requests a second
	n    uint64  // samples
}

// ratesByClient returns the rates of clients by the rule that matches their requests. A request counts once for each
// rule, and once for the name "", which stands for all requests.
func (r *rulesAt) ratesByClient(t *Traffic) map[string]map[classClient]clientRate {
	all := map[string]map[classClient]clientRate{}
	var sc rules.Scratch
	for i := range t.Samples {
		s := &t.Samples[i]
		for _, name := range append(r.rulesOf(s, &sc), "") {
			if all[name] == nil {
				all[name] = map[classClient]clientRate{}
			}
			of := classClient{s.Client, s.Class}
			was := all[name][of]
			all[name][of] = clientRate{was.rate + s.Share*t.Requests, was.n + s.N}
		}
	}
	return all
}

// rulesOf returns the names of the rules that match the requests of a sample, as far as they are known.
func (r *rulesAt) rulesOf(s *ClientSample, sc *rules.Scratch) (names []string) {
	method, rest, _ := strings.Cut(s.Requested, " ")
	at := strings.IndexByte(rest, '/')
	if at < 0 {
		return nil
	}
	for _, m := range r.set.Match(&hottype.Request{Method: method, Host: rest[:at], Target: rest[at:]}, sc) {
		if !slices.Contains(names, m.Rule.Name) {
			names = append(names, m.Rule.Name)
		}
	}
	return names
}

// denials are the requests that the windows of a rule deny.
type denials struct {
	requests, rate float64 // a second: of the rule, and denied
	clients        int     // known clients
	denied         map[string]float64
}

func (r *rulesAt) denyByWindows(name string, rates map[classClient]clientRate, t *Traffic) denials {
	d := denials{denied: map[string]float64{}}
	for of, c := range rates {
		d.requests += c.rate
		if c.n < MinSamples {
			continue
		}
		d.clients++
		allowed := math.Inf(1)
		for _, w := range r.windowsOf(name, of) {
			allowed = min(allowed, allowedRate(w, c.rate, t.Limiters))
		}
		if denied := c.rate - allowed; denied > 0 {
			d.rate += denied
			d.denied[of.client] += denied
		}
	}
	return d
}

func (d *denials) examples() []string {
	list := make([]string, 0, len(d.denied))
	for client := range d.denied {
		list = append(list, client)
	}
	slices.SortFunc(list, func(a, b string) int {
		return cmp.Or(cmp.Compare(d.denied[b], d.denied[a]), strings.Compare(a, b))
	})
	return list[:min(len(list), maxDeniedNames)]
}

// windowsOf returns the windows that a client has for the requests of a rule, or for all requests if the name is "". It
// returns none if an override or ip.exempt takes the client out of them.
func (r *rulesAt) windowsOf(name string, of classClient) []*rules.ClientWindow {
	addr := hottype.ParseClient(of.client).Addr
	if slices.ContainsFunc(r.set.IP.Exempt, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return nil
	}
	o := cmp.Or(r.overrides.FindClient(addr, r.now), r.overrides.FindClass(of.class, r.now))
	if o != nil && !o.InShadow() && (o.Action != rules.ActionLimit || name == "") {
		return nil // exempt, blocked, only counted, or limited by the override instead
	}
	class := r.set.ClassNamed(of.class)
	if name == "" {
		if class == nil {
			return []*rules.ClientWindow{r.set.IP.Fixed, r.set.IP.Sliding}
		}
		return []*rules.ClientWindow{cmp.Or(class.Fixed, r.set.IP.Fixed), cmp.Or(class.Sliding, r.set.IP.Sliding)}
	}
	for _, one := range r.set.Rules {
		if w := one.WindowsFor(class); one.Name == name && w != nil {
			return []*rules.ClientWindow{w.Fixed, w.Sliding}
		}
	}
	return nil
}

// allowedRate returns the rate that a window allows to a client with an even rate of requests, in the long run. With
// scope instance each limiter allows it, because requests are spread over the limiters.
func allowedRate(w *rules.ClientWindow, rate float64, limiters int) float64 {
	if w == nil || w.Field != nil || w.Mode == hottype.ModeShadow {
		return math.Inf(1)
	}
	most, cycle := float64(w.Spec.Limit), w.Spec.Window.Seconds()
	if w.Scope == rules.ScopeInstance {
		most *= float64(limiters)
	}
	if rate*cycle <= most {
		return rate
	}
	if block := max(w.Spec.Block, w.Spec.BlockMax); block > 0 { // it begins with each denial
		cycle = max(cycle, most/rate+block.Seconds())
	}
	return min(rate, most/cycle)
}
