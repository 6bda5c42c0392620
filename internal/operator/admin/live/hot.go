package live

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/rules"
)

const (
	maxHotKeys     = 100_000 // of one response
	defaultHotKeys = 1000
	maxClosest     = 5 // keys that are shown while nothing is hot
)

type hotQuery struct {
	limit, offset int
	sort, find    string
}

// hotOrders compare two hot keys, and their speeds, by the fields by which the list can be sorted: numbers from the
// greatest, texts and times from the first.
var hotOrders = map[string]func(a, b *hottype.HotKey, x, y keySpeed) int{
	"rate":      func(_, _ *hottype.HotKey, _, _ keySpeed) int { return 0 }, // the order of rankKeys
	"threshold": func(_, _ *hottype.HotKey, _, _ keySpeed) int { return 0 }, // the order of sortByThreshold
	"share":     func(a, b *hottype.HotKey, _, _ keySpeed) int { return cmp.Compare(b.Share, a.Share) },
	"clients":   func(a, b *hottype.HotKey, _, _ keySpeed) int { return cmp.Compare(b.Clients, a.Clients) },
	"since":     func(a, b *hottype.HotKey, _, _ keySpeed) int { return a.Since.Compare(b.Since) },
	"key":       func(a, b *hottype.HotKey, _, _ keySpeed) int { return cmp.Compare(a.Key, b.Key) },
	"allowed":   func(_, _ *hottype.HotKey, x, y keySpeed) int { return cmp.Compare(y.Allowed, x.Allowed) },
	"denied":    func(_, _ *hottype.HotKey, x, y keySpeed) int { return cmp.Compare(y.Denied, x.Denied) },
	"served":    func(_, _ *hottype.HotKey, x, y keySpeed) int { return cmp.Compare(y.Served, x.Served) },
	"would":     func(_, _ *hottype.HotKey, x, y keySpeed) int { return cmp.Compare(y.WouldDeny, x.WouldDeny) },
}

// getHot lists the hot keys: GET /v1/hot?limit&offset&sort&find.
func (s *Service) getHot(w http.ResponseWriter, r *http.Request) error {
	q, err := readHotQuery(r)
	if err != nil {
		return err
	}
	now := s.cfg.Now()
	hot := rankKeys(s.cfg.Rules(), s.hotKeys())
	page, matched := q.selectPage(hot, s.cfg.Rules(), s.keySpeeds(now))
	st := s.buildState(now, hot, page, s.loopKeys())
	s.mu.Lock()
	for i := range st.Hot {
		st.Hot[i].Spark = s.seconds.sparkRates(st.Hot[i].Key, now)
	}
	s.mu.Unlock()
	return web.WriteJSON(w, http.StatusOK, map[string]any{"namespace": s.cfg.Namespace, "at": now, "totals": st.Totals,
		"matched": matched, "keys": st.Hot, "loops": st.Loops[:min(q.limit, len(st.Loops))], "trouble": st.Trouble})
}

func readHotQuery(r *http.Request) (q hotQuery, err error) {
	if q.limit, err = web.QueryInt(r, "limit", defaultHotKeys, maxHotKeys); err != nil {
		return q, err
	}
	if q.offset, err = web.QueryOffset(r); err != nil {
		return q, err
	}
	if q.find, err = web.QueryFind(r); err != nil {
		return q, err
	}
	q.sort = cmp.Or(r.URL.Query().Get("sort"), "rate")
	if hotOrders[q.sort] == nil {
		return q, web.BadField("sort", "sort is "+web.Quoted(q.sort),
			"give rate, threshold, share, clients, since, key, allowed, denied, served or would")
	}
	return q, nil
}

// selectPage returns the part of the hot keys that the query selects, and the number of keys that matched. It does not
// change hot.
func (q *hotQuery) selectPage(hot []hottype.HotKey, set *rules.Set, speeds map[hottype.Key]keySpeed) (
	page []hottype.HotKey, matched int) {
	list := slices.Clone(hot)
	if q.find != "" {
		list = slices.DeleteFunc(list, func(h hottype.HotKey) bool {
			return !strings.Contains(strings.ToLower(string(h.Key)), q.find) &&
				!strings.Contains(strings.ToLower(h.Rule), q.find)
		})
	}
	order := hotOrders[q.sort]
	if q.sort == "threshold" {
		list = sortByThreshold(set, list)
	}
	slices.SortStableFunc(list, func(a, b hottype.HotKey) int { return order(&a, &b, speeds[a.Key], speeds[b.Key]) })
	matched = len(list)
	list = list[min(q.offset, matched):]
	return list[:min(q.limit, len(list))], matched
}

// rankKeys returns keys from the heaviest. If all count by one cost, that is the order of the hot set, by rate. Rates
// of several costs cannot be compared, so then the keys are ordered by how many times their threshold they have. It
// does not change the list.
func rankKeys(set *rules.Set, list []hottype.HotKey) []hottype.HotKey {
	if !slices.ContainsFunc(list, func(h hottype.HotKey) bool { return h.Cost != list[0].Cost }) {
		return list
	}
	return sortByThreshold(set, list)
}

// sortByThreshold returns keys sorted by their rates as multiples of their thresholds, the greatest first. It does not
// change the list.
func sortByThreshold(set *rules.Set, list []hottype.HotKey) []hottype.HotKey {
	type ranked struct {
		place int
		times float64
	}
	places := make([]ranked, len(list))
	for i := range list {
		places[i] = ranked{i, timesThreshold(set, &list[i])}
	}
	slices.SortStableFunc(places, func(a, b ranked) int { return cmp.Compare(b.times, a.times) })
	sorted := make([]hottype.HotKey, len(list))
	for i, p := range places {
		sorted[i] = list[p.place]
	}
	return sorted
}

// timesThreshold returns the rate of a key as a multiple of its threshold, or of the minimum rate of a share or a
// surge. It returns 0 if the key has neither.
func timesThreshold(set *rules.Set, h *hottype.HotKey) float64 {
	rule := set.RuleOf(h.Key, h.Rule)
	if rule == nil || rule.Cost != h.Cost {
		return 0
	}
	if least := cmp.Or(rule.Hot.Rate, rule.Hot.MinRate); least > 0 {
		return h.Rate / least
	}
	return 0
}

// thresholdOf returns the rate from which a key of a rule is hot, or 0 if there is none. A rule that counts by another
// cost than the key has just been changed: its threshold is of another unit.
func thresholdOf(rule *rules.Rule, h *hottype.HotKey) float64 {
	if rule == nil || rule.Cost != h.Cost {
		return 0
	}
	return rule.Hot.Rate
}

// roundRate drops meaningless digits of a rate, as [web.Rounded] does. Rates of time may be far below 0.01.
func roundRate(cost hottype.Cost, rate float64) float64 {
	if cost.IsRequests() {
		return *web.Rounded(rate)
	}
	short, err := strconv.ParseFloat(strconv.FormatFloat(rate, 'g', 4, 64), 64)
	if err != nil {
		return rate
	}
	return short
}

// closeKey is a key that is not hot, with its rate and its threshold.
type closeKey struct {
	Key       hottype.Key  `json:"key"`
	Href      string       `json:"href"`
	Rule      string       `json:"rule"`
	Cost      hottype.Cost `json:"cost,omitempty"`
	Rate      float64      `json:"rate"`
	Threshold float64      `json:"threshold"` // in units of the cost a second
}

func closestKeys(set *rules.Set, heaviest, hot, loops []hottype.HotKey) []closeKey {
	known := map[hottype.Key]bool{}
	for _, list := range [][]hottype.HotKey{hot, loops} {
		for i := range list {
			known[list[i].Key] = true
		}
	}
	near := []closeKey{}
	for i := range heaviest {
		h := &heaviest[i]
		rule := set.RuleFor(h.Key.Resource())
		threshold := thresholdOf(rule, h)
		if known[h.Key] || !(threshold > 0) {
			continue
		}
		near = append(near, closeKey{Key: h.Key, Href: web.KeyHref(h.Key), Rule: rule.Name, Cost: h.Cost,
			Rate: roundRate(h.Cost, h.Rate), Threshold: threshold})
	}
	slices.SortStableFunc(near, func(a, b closeKey) int { return cmp.Compare(b.Rate/b.Threshold, a.Rate/a.Threshold) })
	return near[:min(len(near), maxClosest)]
}

// Loop is a loop as the API shows it: a key that would be hot if its requests did not come from one or a few clients.
// Only the limits of those clients limit it.
type Loop struct {
	hottype.HotKey
	Href string `json:"href"` // asks /v1/keys about it
}

// loopKeys returns the present loops, under their whole keys as far as these are known. It returns nil if the program
// does not know loops.
func (s *Service) loopKeys() []hottype.HotKey { return s.withFullKeys(s.aliasedLoops()) }

func (s *Service) aliasedLoops() []hottype.HotKey {
	if s.cfg.Loops == nil {
		return nil
	}
	return s.cfg.Loops()
}

func viewLoops(loops []hottype.HotKey) []Loop {
	views := make([]Loop, len(loops))
	for i, h := range loops {
		views[i] = Loop{HotKey: h, Href: web.KeyHref(h.Key)}
	}
	return views
}

// detectionKinds are the feed's names for changes of the hot set.
var detectionKinds = map[detect.Kind]string{
	detect.BecameHot: BecameHot, detect.Cooled: Cooled, detect.LoopBegan: BecameLoop, detect.LoopEnded: CeasedLoop,
}

// detectionChange returns a change of the hot set in the form of the feed.
func detectionChange(at time.Time, kind string, h *hottype.HotKey) Change {
	return Change{
		At: at, Kind: kind, Key: string(h.Key), Rule: h.Rule, Cost: h.Cost, Rate: h.Rate,
		Clients: h.Clients, Client: h.HeaviestClient, ClientShare: h.ClientShare,
	}
}

// maxHottest is the number of keys of a cost that Hottest returns.
const maxHottest = 100

// Hottest holds hot keys for metrics, each key of a rule once, because equal series fail a scrape.
type Hottest struct {
	Requests []hottype.HotKey // of rules that count requests
	Costs    []KeyCost
}

// KeyCost is what the requests of a hot key cost.
type KeyCost struct {
	Key  hottype.Key  `label:"key"`
	Rule string       `label:"rule"`
	Cost hottype.Cost `label:"cost"`
	Rate float64      `metric:"hotparam_hot_key_cost" help:"Cost per second of the 100 hottest keys of rules that count a cost: seconds of time, bytes, or the number in a field of the response."`
}

// Hottest returns the 100 hot keys of each cost with the highest rates.
func (s *Service) Hottest() (top Hottest) {
	sorted := slices.Clone(s.cfg.Hot())
	hotset.Sort(sorted)
	type id struct{ key, rule string }
	seen := map[id]bool{}
	sorted = slices.DeleteFunc(sorted, func(h hottype.HotKey) bool {
		k := id{string(h.Key), h.Rule}
		was := seen[k]
		seen[k] = true
		return was
	})
	for _, h := range hotset.FirstOfEachCost(sorted, maxHottest) {
		if h.Cost.IsRequests() {
			top.Requests = append(top.Requests, h)
		} else {
			top.Costs = append(top.Costs, KeyCost{h.Key, h.Rule, h.Cost, h.Rate})
		}
	}
	return top
}
