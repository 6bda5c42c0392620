package admin

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

const (
	keepSeconds = 900 // fifteen minutes of a key
	keepKeys    = 500 // keys that have such minutes: with 20 bytes a second 9 MB at most
)

// second is what was seen of a key in one second: requests a second, NaN for what was not known.
type second struct {
	at                           uint32 // unix seconds, 0: none
	rate, allowed, denied, limit float32
}

// asked is how many requests came for the key in the second, as far as that is known. What the limiters
// decided is better than the rate, which is a mean over the rule's window.
func (s *second) asked() float64 {
	if n := float64(s.allowed) + float64(s.denied); !math.IsNaN(n) {
		return n
	}
	return max(0, float64(s.rate)) // NaN stays
}

// seconds keep the last fifteen minutes of keys that are or were hot, a loop or overridden. They are
// bounded: the first keys of a second go before others. Not safe for concurrent use.
type seconds struct {
	keys map[hottype.Key]*[keepSeconds]second
	last map[hottype.Key]uint32
}

func newSeconds() *seconds {
	return &seconds{keys: map[hottype.Key]*[keepSeconds]second{}, last: map[hottype.Key]uint32{}}
}

// add takes the seconds of keys, the most important first, and lets go of what is too old.
func (s *seconds) add(now time.Time, keys []hottype.Key, of []second) {
	at := uint32(now.Unix())
	for key, last := range s.last {
		if last+keepSeconds <= at {
			s.remove(key)
		}
	}
	for i, key := range keys[:min(len(keys), keepKeys)] {
		ring := s.keys[key]
		if ring == nil {
			s.makeSpace(at)
			ring = new([keepSeconds]second)
			s.keys[key] = ring
		}
		of[i].at = at
		ring[at%keepSeconds], s.last[key] = of[i], at
	}
}

// makeSpace removes the key that was not seen for the longest, where there are too many. At most keepKeys
// are added at a time, so one that was not seen now is among them.
func (s *seconds) makeSpace(at uint32) {
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
}

// of are the seconds of a key from one on, oldest first.
func (s *seconds) of(key hottype.Key, from, now time.Time) []second {
	ring := s.keys[key]
	if ring == nil {
		return nil
	}
	first := max(from.Unix(), now.Unix()-keepSeconds+1)
	list := slices.DeleteFunc(slices.Clone(ring[:]),
		func(s second) bool { return int64(s.at) < first || int64(s.at) > now.Unix() })
	slices.SortFunc(list, func(a, b second) int { return cmp.Compare(a.at, b.at) })
	return list
}

// keepSpark is how many seconds the line of a key in a list has.
const keepSpark = 60

// spark is the rate of a key in its last minute.
func (s *seconds) spark(key hottype.Key, now time.Time) []float64 {
	rates := []float64{}
	for _, one := range s.of(key, now.Add(-keepSpark*time.Second+time.Second), now) {
		if r := float64(one.rate); !math.IsNaN(r) {
			rates = append(rates, *rounded(r))
		}
	}
	return rates
}

// noteSeconds keeps this second of what is hot, of loops, and of the other keys of which limiters report.
// The caller holds mu.
func (s *Server) noteSeconds(now time.Time, hot []hotView, loops []hottype.Hot) {
	var keys []hottype.Key
	var of []second
	speeds := s.rates.now(now).Keys
	add := func(key hottype.Key, rate float64, l *limitView) {
		one := second{rate: float32(rate), allowed: unknown, denied: unknown, limit: unknown}
		if sp, ok := speeds[key]; ok {
			one.allowed, one.denied = float32(sp.Allowed), float32(sp.Denied)
			delete(speeds, key)
		}
		if l != nil && l.WindowMS > 0 {
			one.limit = float32(float64(l.Limit) / l.WindowMS * 1000)
		}
		keys, of = append(keys, key), append(of, one)
	}
	for i := range hot {
		add(hot[i].Key, hot[i].Rate, hot[i].Limit)
	}
	for i := range loops[:min(len(loops), maxShown)] {
		add(loops[i].Key, loops[i].Rate, nil)
	}
	others := make([]hottype.Key, 0, len(speeds))
	for key, sp := range speeds {
		if sp.Allowed+sp.Denied > 0 {
			others = append(others, key)
		}
	}
	slices.SortFunc(others, func(a, b hottype.Key) int {
		return cmp.Compare(speeds[b].Allowed+speeds[b].Denied, speeds[a].Allowed+speeds[a].Denied)
	})
	for _, key := range others {
		add(key, math.NaN(), nil)
	}
	s.seconds.add(now, keys, of)
}

var unknown = float32(math.NaN())

// secondView is a second of a key as the API shows it.
type secondView struct {
	At      int64    `json:"at"`
	Rate    *float64 `json:"rate"`
	Allowed *float64 `json:"allowed"`
	Denied  *float64 `json:"denied"`
	Limit   *float64 `json:"limit"`
}

// known is a number that JSON has, or null.
func known(f float32) *float64 {
	if math.IsNaN(float64(f)) {
		return nil
	}
	return rounded(float64(f))
}

// getSeconds answers the last minutes of a key by the second: GET /v1/keys/{key}/seconds?since.
func (s *Server) getSeconds(w http.ResponseWriter, r *http.Request) error {
	key, err := s.pathKey(r.PathValue("key"))
	if err != nil {
		return err
	}
	now := s.cfg.Now()
	since, err := timeOf("since", r.URL.Query().Get("since"), now.Add(-keepSeconds*time.Second))
	if err != nil {
		return err
	}
	s.mu.Lock()
	list := s.seconds.of(hottype.Key(key), since, now)
	s.mu.Unlock()
	views := make([]secondView, len(list))
	for i, one := range list {
		views[i] = secondView{int64(one.at), known(one.rate), known(one.allowed), known(one.denied), known(one.limit)}
	}
	return writeJSON(w, http.StatusOK, map[string]any{"key": key, "at": now.Unix(), "seconds": views})
}
