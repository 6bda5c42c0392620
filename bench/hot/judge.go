package main

import (
	"math"
	"slices"

	"github.com/hotparam/pipeline/bench/internal/counters"
	"github.com/hotparam/pipeline/bench/internal/trace"
)

// score says how well a contender found the hot keys of a trace.
type score struct {
	// Recall and Precision are of key-seconds: a key that is hot at the end of a second counts one.
	Recall     float64 `json:"recall"`
	Precision  float64 `json:"precision"`
	KeySeconds int     `json:"key_seconds"`
	// Order is Kendall's tau-b between the contender's counts of the hot keys and the true counts, on average over
	// Rankings seconds: those with at least three hot keys, not all with the same count. A key that the contender does
	// not call hot has count 0.
	Order    float64 `json:"order"`
	Rankings int     `json:"rankings"`
	// Error is the mean relative error of the counts of hot keys at the end of a second. A hot key that is not called
	// hot counts with one request less than the threshold, the most that it can have been counted.
	Error float64 `json:"error"`
	// Episodes is the number of times that a key became hot, after at least a window in which it was not. AtOnce is the
	// part of them that was called hot by the same tick, Missed the part that was not called hot as long as the key
	// was, and Half and Most the median and the 95th percentile of the delays of the others, in milliseconds.
	Episodes int     `json:"episodes"`
	AtOnce   float64 `json:"at_once"`
	Missed   float64 `json:"missed"`
	Half     int     `json:"delay_half_ms"`
	Most     int     `json:"delay_most_ms"`
	// Alarms is the number of times that a contender began to call a key hot that was not, and AlarmsHour how many that
	// makes an hour of the trace's time.
	Alarms     int     `json:"alarms"`
	AlarmsHour float64 `json:"alarms_an_hour"`
}

// judge compares the answers of a contender with the truth, tick by tick.
type judge struct {
	hot      int
	open     map[string]*episode // of keys that are hot, or were within the last window
	ended    []*episode
	called   map[string]float64 // at this tick
	before   map[string]bool    // called hot at the last tick
	wanted   int
	right    int
	said     int
	alarms   int
	errors   float64
	taus     float64
	rankings int
}

// episode is the time in which a key is hot, in ticks.
type episode struct {
	began, last int
	found       int // the first tick at which the contender called it hot, or -1
}

// scoreTrace plays a trace to a contender.
func scoreTrace(requests []counters.Request, known truth, hot int, c counters.Counter) score {
	j := &judge{hot: hot, open: map[string]*episode{}, called: map[string]float64{}, before: map[string]bool{}}
	var list []counters.Count
	for tick := range known {
		now := int64(tick+1) * trace.Tick
		n := before(requests, now)
		c.Add(requests[:n])
		requests = requests[n:]
		list = c.Hot(now, list[:0])
		j.tick(tick, known[tick], list)
	}
	return j.result(len(known))
}

// before returns the number of requests before a time.
func before(requests []counters.Request, now int64) int {
	n, _ := slices.BinarySearchFunc(requests, now, func(r counters.Request, now int64) int { return int(r.At - now) })
	return n
}

func (j *judge) tick(tick int, hot map[string]int, list []counters.Count) {
	clear(j.called)
	for _, c := range list {
		j.called[c.Key] = c.N
	}
	for key := range j.called {
		if _, is := hot[key]; !is && !j.before[key] {
			j.alarms++
		}
	}
	j.follow(tick, hot)
	if (tick+1)*trace.Tick%1000 == 0 {
		j.second(hot)
	}
	clear(j.before)
	for key := range j.called {
		j.before[key] = true
	}
}

// follow follows the episodes.
func (j *judge) follow(tick int, hot map[string]int) {
	for key := range hot {
		e := j.open[key]
		if e == nil {
			e = &episode{began: tick, found: -1}
			j.open[key] = e
		}
		e.last = tick
		if _, called := j.called[key]; called && e.found < 0 {
			e.found = tick
		}
	}
	for key, e := range j.open {
		if tick-e.last >= trace.Window/trace.Tick {
			j.ended = append(j.ended, e)
			delete(j.open, key)
		}
	}
}

// second compares at the end of a second.
func (j *judge) second(hot map[string]int) {
	j.wanted += len(hot)
	j.said += len(j.called)
	var counts, truths []float64
	for key, n := range hot {
		got, called := j.called[key]
		counts, truths = append(counts, got), append(truths, float64(n))
		if called {
			j.right++
		} else {
			got = float64(j.hot - 1)
		}
		j.errors += math.Abs(got-float64(n)) / float64(n)
	}
	if len(counts) >= 3 && slices.Max(truths) > slices.Min(truths) {
		j.taus += kendall(counts, truths)
		j.rankings++
	}
}

func (j *judge) result(ticks int) score {
	s := score{
		Recall: ratio(j.right, j.wanted), Precision: ratio(j.right, j.said), KeySeconds: j.wanted,
		Rankings: j.rankings, Error: j.errors / float64(max(j.wanted, 1)), Alarms: j.alarms,
		AlarmsHour: float64(j.alarms) * 3600 * 1000 / trace.Tick / float64(max(ticks, 1)),
	}
	if j.rankings > 0 {
		s.Order = j.taus / float64(j.rankings)
	}
	for _, e := range j.open {
		j.ended = append(j.ended, e)
	}
	atOnce, missed := 0, 0
	var late []int
	for _, e := range j.ended {
		switch {
		case e.found < 0:
			missed++
		case e.found == e.began:
			atOnce++
		default:
			late = append(late, (e.found-e.began)*trace.Tick)
		}
	}
	s.Episodes = len(j.ended)
	s.AtOnce, s.Missed = ratio(atOnce, s.Episodes), 1-ratio(s.Episodes-missed, s.Episodes)
	if slices.Sort(late); len(late) > 0 {
		s.Half, s.Most = late[len(late)/2], late[len(late)*95/100]
	}
	return s
}

// ratio returns n/of, or 1 if of is 0, because then nothing is missing.
func ratio(n, of int) float64 {
	if of == 0 {
		return 1
	}
	return float64(n) / float64(of)
}

// kendall returns the rank correlation tau-b of two lists: 1 for the same order, -1 for the reverse. Pairs that are
// equal in one list alone lower it. It is 0 if all are equal in one list alone.
func kendall(a, b []float64) float64 {
	agree, differ, onlyA, onlyB := 0, 0, 0, 0
	for i := range a {
		for k := range i {
			switch x, y := a[i]-a[k], b[i]-b[k]; {
			case x == 0 && y == 0:
			case x == 0:
				onlyB++
			case y == 0:
				onlyA++
			case x*y > 0:
				agree, differ = agree+1, differ+1
			default:
				agree, differ = agree-1, differ+1
			}
		}
	}
	switch {
	case differ+onlyA+onlyB == 0:
		return 1
	case differ+onlyA == 0 || differ+onlyB == 0:
		return 0
	}
	return float64(agree) / math.Sqrt(float64(differ+onlyA)*float64(differ+onlyB))
}
