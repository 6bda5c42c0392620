package live

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/operator/admin/past"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/rules"
)

const (
	keepSeconds = 900 // fifteen minutes of a key
	keepKeys    = 500 // keys with such minutes: with 24 bytes a second at most 11 MB
)

// seconds holds the last fifteen minutes of keys that are or were hot, a loop or overridden. It is bounded: the first
// keys of a second take precedence. It is not safe for concurrent use.
type seconds struct {
	keys  map[hottype.Key]*[keepSeconds]past.Second
	last  map[hottype.Key]uint32
	costs map[hottype.Key]hottype.Cost // of which the rates of a key are, if they are not of requests
}

func newSeconds() *seconds {
	return &seconds{keys: map[hottype.Key]*[keepSeconds]past.Second{}, last: map[hottype.Key]uint32{},
		costs: map[hottype.Key]hottype.Cost{}}
}

// setCost records the cost of the rates of a key that are added next. It forgets rates of another cost.
func (s *seconds) setCost(key hottype.Key, cost hottype.Cost) {
	if s.costs[key] == cost {
		return
	}
	if ring := s.keys[key]; ring != nil {
		for i := range ring {
			ring[i].Rate = past.Unknown
		}
	}
	delete(s.costs, key)
	if cost != "" {
		s.costs[key] = cost
	}
}

// add adds the seconds of keys, the most important first, and removes seconds that are too old.
func (s *seconds) add(now time.Time, keys []hottype.Key, of []past.Second) {
	at := uint32(now.Unix())
	for key, last := range s.last {
		if last+keepSeconds <= at {
			s.remove(key)
		}
	}
	for i, key := range keys[:min(len(keys), keepKeys)] {
		ring := s.keys[key]
		if ring == nil {
			s.evictOldest(at)
			ring = new([keepSeconds]past.Second)
			s.keys[key] = ring
		}
		of[i].At = at
		ring[at%keepSeconds], s.last[key] = of[i], at
	}
}

// evictOldest removes the key that was not seen for the longest time, if there are too many keys. At most keepKeys are
// added at a time, so the removed key is one that was not seen now.
func (s *seconds) evictOldest(at uint32) {
	if len(s.keys) < keepKeys {
		return
	}
	var oldest hottype.Key
	since := at
	for key, last := range s.last {
		if last < since || last == since && key < oldest {
			oldest, since = key, last
		}
	}
	s.remove(oldest)
}

func (s *seconds) remove(key hottype.Key) {
	delete(s.keys, key)
	delete(s.last, key)
	delete(s.costs, key)
}

// secondsOf returns the seconds of a key from time from on, oldest first.
func (s *seconds) secondsOf(key hottype.Key, from, now time.Time) []past.Second {
	ring := s.keys[key]
	if ring == nil {
		return nil
	}
	first := max(from.Unix(), now.Unix()-keepSeconds+1)
	list := slices.DeleteFunc(slices.Clone(ring[:]),
		func(s past.Second) bool { return int64(s.At) < first || int64(s.At) > now.Unix() })
	slices.SortFunc(list, func(a, b past.Second) int { return cmp.Compare(a.At, b.At) })
	return list
}

// keepSpark is the number of seconds in the line of a key in a list.
const keepSpark = 60

func (s *seconds) sparkRates(key hottype.Key, now time.Time) []float64 {
	rates := []float64{}
	for _, one := range s.secondsOf(key, now.Add(-keepSpark*time.Second+time.Second), now) {
		if r := float64(one.Rate); !math.IsNaN(r) {
			rates = append(rates, roundRate(s.costs[key], r))
		}
	}
	return rates
}

// addKeySeconds records this second of the hot keys, of loops, and of the other keys that limiters report. The caller
// holds mu.
func (s *Service) addKeySeconds(now time.Time, hot []HotKey, loops []hottype.HotKey) {
	var keys []hottype.Key
	var of []past.Second
	speeds := s.rates.totalSpeed(now).Keys
	costs := map[hottype.Key]hottype.Cost{}
	add := func(key hottype.Key, rate float64, l *limitView) {
		one := past.Second{Rate: float32(rate), Allowed: past.Unknown, Denied: past.Unknown, Limit: past.Unknown,
			WouldDeny: past.Unknown}
		if sp, ok := speeds[key]; ok {
			one.Allowed, one.Denied, one.WouldDeny = float32(sp.Allowed), float32(sp.Denied), float32(sp.WouldDeny)
			delete(speeds, key)
		}
		if l != nil && l.WindowMS > 0 {
			one.Limit = float32(float64(l.Limit) / l.WindowMS * 1000)
		}
		keys, of = append(keys, key), append(of, one)
	}
	for i := range hot {
		add(hot[i].Key, hot[i].Rate, hot[i].Limit)
		costs[hot[i].Key] = hot[i].Cost
	}
	for i := range loops[:min(len(loops), maxShown)] {
		add(loops[i].Key, loops[i].Rate, nil)
		costs[loops[i].Key] = loops[i].Cost
	}
	others := make([]hottype.Key, 0, len(speeds))
	for key, sp := range speeds {
		if sp.requests() > 0 {
			others = append(others, key)
		}
	}
	slices.SortFunc(others, func(a, b hottype.Key) int {
		return cmp.Compare(speeds[b].requests(), speeds[a].requests())
	})
	for _, key := range others {
		add(key, math.NaN(), nil)
	}
	for _, key := range keys[:min(len(keys), keepKeys)] { // of others no seconds are kept, nor costs
		if cost, ok := costs[key]; ok {
			s.seconds.setCost(key, cost)
		}
	}
	s.seconds.add(now, keys, of)
}

type Second struct {
	At      int64    `json:"at"`
	Rate    *float64 `json:"rate"` // in units of the cost
	Allowed *float64 `json:"allowed"`
	Denied  *float64 `json:"denied"`
	Limit   *float64 `json:"limit"`
	// WouldDeny is the part of Allowed that a limit in shadow mode would have denied.
	WouldDeny *float64 `json:"would_deny"`
}

// nilIfNaN returns a number of requests a second, or of units of a cost.
func nilIfNaN(f float32, cost hottype.Cost) *float64 {
	if math.IsNaN(float64(f)) {
		return nil
	}
	return new(roundRate(cost, float64(f)))
}

// getSeconds answers with the last minutes of a key by the second: GET /v1/keys/{key}/seconds?since.
func (s *Service) getSeconds(w http.ResponseWriter, r *http.Request) error {
	key, err := web.NamedKey(r, s.cfg.Rules())
	if err != nil {
		return err
	}
	key = s.FullKey(key)
	now := s.cfg.Now()
	since, err := web.QueryTime(r, "since", now.Add(-keepSeconds*time.Second))
	if err != nil {
		return err
	}
	s.mu.Lock()
	list, cost := s.seconds.secondsOf(key, since, now), s.seconds.costs[key]
	s.mu.Unlock()
	views := make([]Second, len(list))
	for i, one := range list {
		views[i] = Second{int64(one.At), nilIfNaN(one.Rate, cost), nilIfNaN(one.Allowed, ""), nilIfNaN(one.Denied, ""),
			nilIfNaN(one.Limit, cost), nilIfNaN(one.WouldDeny, "")}
	}
	answer := map[string]any{"key": key, "at": now.Unix(), "seconds": views}
	if cost != "" {
		answer["cost"] = cost
	}
	return web.WriteJSON(w, http.StatusOK, answer)
}

const whatIfSpan = 5 * time.Minute

// getWhatIf tries a limit: GET /v1/keys/{key}/what-if?rate&burst. Nothing is changed.
func (s *Service) getWhatIf(w http.ResponseWriter, r *http.Request) error {
	key, err := web.NamedKey(r, s.cfg.Rules())
	if err != nil {
		return err
	}
	rule := s.cfg.Rules().RuleFor(key.Resource())
	var cost hottype.Cost
	if rule != nil {
		cost = rule.Cost
	}
	spec, err := triedSpec(r, cost)
	if err != nil {
		return err
	}
	now := s.cfg.Now()
	s.mu.Lock()
	list := s.seconds.secondsOf(key, now.Add(-whatIfSpan), now)
	if counted := s.seconds.costs[key]; counted != "" {
		for i := range list {
			list[i].SetMean(cost, float64(list[i].Rate))
		}
	}
	s.mu.Unlock()
	a, err := past.Simulate(r.Context(), spec, list, past.SlicesOfSecond)
	if err != nil {
		return fmt.Errorf("admin: a limit of %d in %v, burst %d cannot be tried: %w", spec.Limit, spec.Window,
			spec.Burst, err)
	}
	a.Key, a.Rate, a.Burst = key, float64(spec.Limit)/spec.Window.Seconds()/float64(cost.Unit()), spec.Capacity()
	set, o := s.cfg.Rules(), s.lastOverrides(now).Index.Find([]byte(key), now)
	a.InForce = s.adaptiveBounds().effectiveLimit(rule, o, key)
	if set.LimitsClients() {
		a.NotTried = append(a.NotTried, "limits of ip")
	}
	if rule != nil && rule.PerClient != nil {
		a.NotTried = append(a.NotTried, "per_client of "+rule.Name)
	}
	return web.WriteJSON(w, http.StatusOK, a)
}

func triedSpec(r *http.Request, cost hottype.Cost) (limit.Spec, error) {
	rate, err := strconv.ParseFloat(r.URL.Query().Get("rate"), 64)
	if err != nil || !(rate > 0) {
		return limit.Spec{}, web.BadField("rate", "rate is "+web.Quoted(r.URL.Query().Get("rate")),
			"give requests a second, or units of the rule's cost, above 0")
	}
	burst, err := web.QueryInt(r, "burst", 0, math.MaxInt32)
	if err != nil {
		return limit.Spec{}, err
	}
	spec := rules.Override{Action: rules.ActionLimit, Rate: rate, Burst: int64(burst)}.Spec(cost)
	if err := spec.Validate(); err != nil {
		return limit.Spec{}, web.BadField("rate", err.Error(), "give another rate or burst")
	}
	return spec, nil
}
