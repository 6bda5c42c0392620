package main

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/detect"
	counts "github.com/hotparam/pipeline/internal/detection/window"
)

// start is the time at which every stream begins.
var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// future is the number of seconds by which counts may be ahead of the detector, by default.
const future = 2

// accuracy holds the results of one stream with one number of counters.
type accuracy struct {
	Stream    string  `json:"stream"`
	Group     string  `json:"group"`
	Counters  int     `json:"counters"`
	Requests  int     `json:"requests"`
	Threshold int64   `json:"threshold"`
	Recall    float64 `json:"recall"`    // of key-seconds at the threshold
	Precision float64 `json:"precision"` // of key-seconds called hot
	KeySecs   int     `json:"key_seconds"`

	Said     int64   `json:"error_said"` // the largest E
	Real     int64   `json:"error_real"` // the largest real error of any key
	Promised float64 `json:"error_promised"`
	Mean     float64 `json:"error_mean"` // of hot keys, relative

	Crossed   int `json:"crossed"` // keys that reached the threshold
	SameTick  int `json:"same_tick"`
	Never     int `json:"never"`
	DelayHalf int `json:"delay_half_ms"` // of keys that became hot late
	DelayMost int `json:"delay_most_ms"`
}

// trial is an accuracy being measured.
type trial struct {
	stream *stream
	truth  *exact
	found  *detect.Detector
	bare   *counts.Counter // the window alone, for the count of every key
	seed   maphash.Seed
	lower  []int32

	a             accuracy
	wanted, right int
	called        int
	lost, hot     float64 // fractions of counts, and their number
	crossed, told map[uint32]int
}

// measureAccuracy plays a stream to a detector with size counters.
func measureAccuracy(s *stream, size int) (accuracy, error) {
	t := &trial{
		stream: s, truth: newExact(s.keys, s.threshold()), seed: maphash.MakeSeed(), lower: make([]int32, s.keys),
		found: detect.New(s.set, detect.Options{Counters: size}),
		bare: counts.New(counts.Config{Window: window, Lateness: window, Future: future, Counters: size},
			start.Unix()),
		crossed: map[uint32]int{}, told: map[uint32]int{},
		a: accuracy{Stream: s.name, Group: s.group, Counters: size, Threshold: s.threshold()},
	}
	next := s.open()
	var ids []uint32
	var batch []hottype.Count
	for tick := range s.seconds * ticks {
		ids = next(tick, ids[:0])
		now := start.Add(time.Duration(tick) * time.Second / ticks)
		if tick > 0 && tick%ticks == 0 {
			t.truth.turn()
			t.bare.Advance(now.Unix(), nil)
		}
		t.a.Requests += len(ids)
		t.truth.add(ids)
		for part := range slices.Chunk(ids, 1000) {
			batch = s.counts(part, now.Unix(), batch)
			t.found.AddAll(now, batch)
			for i := range batch {
				t.bare.Add(maphash.String(t.seed, string(batch[i].Key)), string(batch[i].Key), now.Unix(), 1)
			}
		}
		if err := t.judge(tick); err != nil {
			return t.a, err
		}
		if tick%ticks == ticks-1 {
			if err := t.second(now.Unix()); err != nil {
				return t.a, err
			}
		}
	}
	t.finish()
	return t.a, nil
}

// thumb is the number of counters that the page advises for each time that the rate of a hot key fits into the rate of
// all requests of a rule.
const thumb = 12

// rulesOfThumb measures with the advised numbers of counters, and fails if the advice was bad.
func rulesOfThumb(all []*stream) (found []accuracy, err error) {
	for _, s := range all {
		a, err := measureAccuracy(s, max(thumb*s.perSecond/rate, 1))
		if err != nil {
			return nil, err
		}
		if a.Said*4 >= a.Threshold || a.Recall < 1 || a.Never > 0 {
			return nil, fmt.Errorf("study: %s: %d counters are not enough: recall %v, error %d", s.name, a.Counters,
				a.Recall, a.Said)
		}
		found = append(found, a)
	}
	return found, nil
}

// judge compares at the end of a tick, and fails if a promise is broken.
func (t *trial) judge(tick int) error {
	set, changes := t.found.Tick(start.Add(time.Duration(tick+1)*time.Second/ticks - 1))
	known := int32(t.found.Stats().Error)
	hot := make(map[uint32]bool, len(set.Keys))
	for i := range set.Keys {
		hot[t.stream.number(set.Keys[i].Key)] = true
	}
	for _, c := range changes {
		id := t.stream.number(c.Hot.Key)
		if c.Kind != detect.BecameHot {
			continue
		}
		if !t.truth.over[id] {
			return fmt.Errorf("study: %s, %d counters, tick %d: %s became hot with %d", t.a.Stream, t.a.Counters, tick,
				c.Hot.Key, t.truth.sums[id])
		}
		if _, again := t.told[id]; !again {
			t.told[id] = tick
		}
	}
	for id := range t.truth.over {
		if _, again := t.crossed[id]; !again {
			t.crossed[id] = tick
		}
		if sum := t.truth.sums[id]; sum >= t.truth.threshold+known && !hot[id] {
			return fmt.Errorf("study: %s, %d counters, tick %d: key %d has %d, the error is %d, and it is not hot",
				t.a.Stream, t.a.Counters, tick, id, sum, known)
		}
	}
	return nil
}

// second compares at the end of a second.
func (t *trial) second(second int64) error {
	t.wanted += len(t.truth.over)
	over := t.found.OverThreshold(second)
	t.called += len(over)
	for _, key := range over {
		if t.truth.over[t.stream.number(key)] {
			t.right++
		}
	}
	n := float64(t.truth.requests())
	if slots := float64(window + future); n*slots/window > float64(t.a.Counters) {
		t.a.Promised = max(t.a.Promised, 2.2*slots*n/float64(t.a.Counters))
	}
	return t.errors(second)
}

// errors checks the count of every key in the window, and fails if a count is further from the truth than the window's
// error.
func (t *trial) errors(second int64) error {
	said := t.bare.Error()
	t.a.Said = max(t.a.Said, said)
	clear(t.lower)
	t.bare.Each(func(place int, sum int64) {
		t.lower[t.stream.number(hottype.Key(t.bare.Key(place)))] = int32(sum)
	})
	for _, slot := range t.truth.slots {
		for _, id := range slot {
			missing := int64(t.truth.sums[id] - t.lower[id])
			if missing < 0 || missing > said {
				return fmt.Errorf(
					"study: %s, %d counters, second %d: the sum of key %d is short by %d, the error is %d", t.a.Stream,
					t.a.Counters, second, id, missing, said)
			}
			t.a.Real = max(t.a.Real, missing)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(t.truth.over)) { // sorted, because sums of floats depend on the order
		t.lost += float64(t.truth.sums[id]-t.lower[id]) / float64(t.truth.sums[id])
		t.hot++
	}
	return nil
}

func (t *trial) finish() {
	t.a.KeySecs = t.wanted
	t.a.Recall, t.a.Precision = ratio(t.right, t.wanted), ratio(t.right, t.called)
	t.a.Mean = t.lost / max(t.hot, 1)
	t.a.Crossed = len(t.crossed)
	var late []int
	for id, at := range t.crossed {
		told, ok := t.told[id]
		switch {
		case !ok:
			t.a.Never++
		case told <= at:
			t.a.SameTick++
		default:
			late = append(late, (told-at)*1000/ticks)
		}
	}
	if slices.Sort(late); len(late) > 0 {
		t.a.DelayHalf, t.a.DelayMost = late[len(late)/2], late[len(late)-1]
	}
}

// ratio returns n/of, or 1 if of is 0, because then nothing is missing.
func ratio(n, of int) float64 {
	if of == 0 {
		return 1
	}
	return float64(n) / float64(of)
}
