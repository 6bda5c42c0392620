package live

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/detect"
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
	"rate":    func(_, _ *hottype.HotKey, _, _ keySpeed) int { return 0 }, // the order of the hot set
	"share":   func(a, b *hottype.HotKey, _, _ keySpeed) int { return cmp.Compare(b.Share, a.Share) },
	"clients": func(a, b *hottype.HotKey, _, _ keySpeed) int { return cmp.Compare(b.Clients, a.Clients) },
	"since":   func(a, b *hottype.HotKey, _, _ keySpeed) int { return a.Since.Compare(b.Since) },
	"key":     func(a, b *hottype.HotKey, _, _ keySpeed) int { return cmp.Compare(a.Key, b.Key) },
	"allowed": func(_, _ *hottype.HotKey, x, y keySpeed) int { return cmp.Compare(y.Allowed, x.Allowed) },
	"denied":  func(_, _ *hottype.HotKey, x, y keySpeed) int { return cmp.Compare(y.Denied, x.Denied) },
	"served":  func(_, _ *hottype.HotKey, x, y keySpeed) int { return cmp.Compare(y.Served, x.Served) },
}

// getHot lists the hot keys: GET /v1/hot?limit&offset&sort&find.
func (s *Service) getHot(w http.ResponseWriter, r *http.Request) error {
	q, err := readHotQuery(r)
	if err != nil {
		return err
	}
	now, hot := s.cfg.Now(), s.hotKeys()
	page, matched := q.selectPage(hot, s.keySpeeds(now))
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
			"give rate, share, clients, since, key, allowed, denied or served")
	}
	return q, nil
}

// selectPage returns the part of the hot keys that the query selects, and the number of keys that matched. It does not
// change hot.
func (q *hotQuery) selectPage(hot []hottype.HotKey, speeds map[hottype.Key]keySpeed) (page []hottype.HotKey,
	matched int) {
	list := slices.Clone(hot)
	if q.find != "" {
		list = slices.DeleteFunc(list, func(h hottype.HotKey) bool {
			return !strings.Contains(strings.ToLower(string(h.Key)), q.find) &&
				!strings.Contains(strings.ToLower(h.Rule), q.find)
		})
	}
	order := hotOrders[q.sort]
	slices.SortStableFunc(list, func(a, b hottype.HotKey) int { return order(&a, &b, speeds[a.Key], speeds[b.Key]) })
	matched = len(list)
	list = list[min(q.offset, matched):]
	return list[:min(q.limit, len(list))], matched
}

// closeKey is a key that is not hot, with its rate and its threshold.
type closeKey struct {
	Key       hottype.Key `json:"key"`
	Href      string      `json:"href"`
	Rule      string      `json:"rule"`
	Rate      float64     `json:"rate"`
	Threshold float64     `json:"threshold"` // requests a second
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
		if known[h.Key] || rule == nil || !(rule.Hot.Rate > 0) {
			continue
		}
		near = append(near, closeKey{Key: h.Key, Href: web.KeyHref(h.Key), Rule: rule.Name, Rate: *web.Rounded(h.Rate),
			Threshold: rule.Hot.Rate})
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
		At: at, Kind: kind, Key: string(h.Key), Rule: h.Rule, Rate: h.Rate,
		Clients: h.Clients, Client: h.HeaviestClient, ClientShare: h.ClientShare,
	}
}
