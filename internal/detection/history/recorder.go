package history

import (
	"cmp"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// KeySecond is one key in one second.
type KeySecond struct {
	Key             hottype.Key
	Rule, State     string
	Rate            float64
	Allowed, Denied float64 // requests in the second
	Clients         int64
}

// Second is what was seen in one second. Keys may be in any order.
type Second struct {
	At              time.Time
	Keys            []KeySecond
	Allowed, Denied float64
	DeniedBy        map[string]float64
}

// Recorder folds seconds into minutes. It holds at most a few times Keys keys. It is not for
// concurrent use.
type Recorder struct {
	most   int // keys of a minute
	minute Minute
	keys   map[hottype.Key]*minuteAcc
}

type minuteAcc struct {
	KeyMinute
	seconds float64
}

// NewRecorder keeps at most that many keys of a minute, the heaviest by their peaks.
func NewRecorder(keys int) *Recorder {
	return &Recorder{most: keys, keys: map[hottype.Key]*minuteAcc{}}
}

// Add takes a second. When it begins a new minute, what the one before came to is given, else nil. A
// clock that steps back ends the minute too.
func (r *Recorder) Add(s *Second) (ended *Minute) {
	minute := s.At.Truncate(time.Minute)
	if !minute.Equal(r.minute.Total.Minute) {
		ended = r.End()
		r.minute.Total = Total{Minute: minute, By: map[string]float64{}}
	}
	r.minute.Total.Allowed += s.Allowed
	r.minute.Total.Denied += s.Denied
	for what, n := range s.DeniedBy {
		if n > 0 {
			r.minute.Total.By[what] += n
		}
	}
	for i := range s.Keys {
		r.fold(minute, &s.Keys[i])
	}
	if len(r.keys) > 4*r.most {
		r.trim()
	}
	return ended
}

// Forget removes a key from the minute under way.
func (r *Recorder) Forget(key hottype.Key) { delete(r.keys, key) }

func (r *Recorder) fold(minute time.Time, s *KeySecond) {
	k := r.keys[s.Key]
	if k == nil {
		k = &minuteAcc{KeyMinute: KeyMinute{Minute: minute, Key: s.Key, State: Cold}}
		r.keys[s.Key] = k
	}
	k.seconds++
	k.Rate += (s.Rate - k.Rate) / k.seconds
	k.Peak = max(k.Peak, s.Rate)
	k.Allowed, k.Denied = k.Allowed+s.Allowed, k.Denied+s.Denied
	k.Clients = max(k.Clients, s.Clients)
	if k.Rule == "" {
		k.Rule = s.Rule
	}
	if hotter(s.State, k.State) {
		k.State = s.State
	}
}

// hotter reports whether a state is to be told rather than another one.
func hotter(a, b string) bool {
	order := []string{Cold, Loop, Hot}
	return slices.Index(order, a) > slices.Index(order, b)
}

// End gives the minute under way and begins anew; nil where nothing was seen.
func (r *Recorder) End() *Minute {
	if r.minute.Total.Minute.IsZero() {
		return nil
	}
	r.trim()
	m := r.minute
	for _, k := range r.keys {
		m.Keys = append(m.Keys, k.KeyMinute)
	}
	slices.SortFunc(m.Keys, heavier)
	clear(r.keys)
	r.minute = Minute{}
	return &m
}

// trim lets go of the lightest keys.
func (r *Recorder) trim() {
	if len(r.keys) <= r.most {
		return
	}
	all := make([]KeyMinute, 0, len(r.keys))
	for _, k := range r.keys {
		all = append(all, k.KeyMinute)
	}
	slices.SortFunc(all, heavier)
	for _, k := range all[r.most:] {
		delete(r.keys, k.Key)
	}
}

func heavier(a, b KeyMinute) int {
	return cmp.Or(cmp.Compare(b.Peak, a.Peak), cmp.Compare(a.Key, b.Key))
}
