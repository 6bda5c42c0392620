package history

import (
	"maps"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Recorder folds seconds into minutes. It holds at most a few times as many keys as a minute keeps. It is not for
// concurrent use.
type Recorder struct {
	most   int // maximum number of keys of a minute, of each cost
	minute Minute
	keys   map[ID]*minuteAcc
}

type minuteAcc struct {
	KeyMinute
	seconds float64
}

// NewRecorder returns a Recorder that keeps the heaviest keys of each minute by their peaks, at most a number of each
// cost.
func NewRecorder(keys int) *Recorder {
	return &Recorder{most: keys, keys: map[ID]*minuteAcc{}}
}

// Add adds a second. If the second begins a new minute, Add returns the result of the minute before, or else nil. A
// clock that steps back ends the minute too.
func (r *Recorder) Add(s *Second) (ended *Minute) {
	minute := s.At.Truncate(time.Minute)
	if !minute.Equal(r.minute.Total.Minute) {
		ended = r.End()
		r.minute.Total = Total{Minute: minute, Allowed: Unknown, Denied: Unknown, By: map[string]float64{}}
	}
	r.minute.Total.Allowed = r.minute.Total.Allowed.Plus(s.Allowed)
	r.minute.Total.Denied = r.minute.Total.Denied.Plus(s.Denied)
	r.minute.Total.WouldDeny += s.WouldDeny
	for what, n := range s.DeniedBy {
		if n > 0 {
			r.minute.Total.By[what] += n
		}
	}
	for i := range s.Keys {
		r.addSecond(minute, &s.Keys[i])
	}
	if len(r.keys) > 4*r.most {
		r.pruneLightest()
	}
	return ended
}

// Forget removes a key from the current minute.
func (r *Recorder) Forget(key hottype.Key) {
	maps.DeleteFunc(r.keys, func(id ID, _ *minuteAcc) bool { return id.Key == key })
}

func (r *Recorder) addSecond(minute time.Time, s *KeySecond) {
	id := ID{s.Key, s.Cost}
	k := r.keys[id]
	if k == nil {
		k = &minuteAcc{KeyMinute: KeyMinute{Minute: minute, Key: s.Key, Cost: s.Cost, State: Cold, Allowed: Unknown,
			Denied: Unknown}}
		r.keys[id] = k
	}
	k.seconds++
	k.Rate += (s.Rate - k.Rate) / k.seconds
	k.Peak = max(k.Peak, s.Rate)
	k.Allowed, k.Denied = k.Allowed.Plus(s.Allowed), k.Denied.Plus(s.Denied)
	k.WouldDeny += s.WouldDeny
	k.Clients = max(k.Clients, s.Clients)
	if k.Rule == "" {
		k.Rule = s.Rule
	}
	k.State = hotterState(k.State, s.State)
}

// End returns the result of the current minute and begins again, or returns nil if no second was added.
func (r *Recorder) End() *Minute {
	if r.minute.Total.Minute.IsZero() {
		return nil
	}
	m := r.minute
	m.Keys = r.heaviest()
	clear(r.keys)
	r.minute = Minute{}
	return &m
}

// Present returns the keys of the current minute so far, the heaviest of each cost.
func (r *Recorder) Present() []KeyMinute { return r.heaviest() }

// heaviest returns the keys that the minute keeps.
func (r *Recorder) heaviest() []KeyMinute {
	all := make([]KeyMinute, 0, len(r.keys))
	for _, k := range r.keys {
		all = append(all, k.KeyMinute)
	}
	return Heaviest(all, r.most)
}

func (r *Recorder) pruneLightest() {
	kept := map[ID]*minuteAcc{}
	for _, k := range r.heaviest() {
		id := ID{k.Key, k.Cost}
		kept[id] = r.keys[id]
	}
	r.keys = kept
}
