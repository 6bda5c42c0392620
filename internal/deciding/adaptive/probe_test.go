package adaptive

import (
	"math"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

// queueing is an upstream of some workers, and the requests that wait for it, which a controller bounds.
type queueing struct {
	workers  int
	service  float64 // seconds
	patience float64 // seconds after which a request fails
	queue    float64 // the most requests in flight

	c        *Controller
	now      time.Time
	inFlight float64
	denied   float64 // requests so far
}

// second passes a second with a demand for hot and for cold keys, and returns the latency. More requests than workers
// wait for each other.
func (q *queueing) second(hot, cold float64) (latency float64) {
	q.now = q.now.Add(time.Second)
	workers, bound := float64(q.workers), q.c.Bound()
	rate, before := workers/q.service, q.inFlight
	coming := min(hot, bound.Rate) + cold
	most := min(q.queue, max(1, bound.InFlightCap, before-rate))
	q.inFlight = min(max(min(coming, rate)*q.service, before+coming-rate), most)
	answered := min(q.inFlight, workers) / q.service
	allowed := clamp(answered+q.inFlight-before-cold, 0, hot)
	q.denied += hot - allowed
	latency = q.service * max(1, q.inFlight/workers)
	m := Measurement{At: q.now, InFlight: q.inFlight, Limiters: 1, Hot: int64(allowed), Cold: int64(cold),
		Denied: int64(hot - allowed), OK: int64(answered)}
	if latency >= q.patience {
		m.OK, m.Errors = 0, m.OK
	}
	m.Latency.addN(time.Duration(latency*float64(time.Second)), m.OK+m.Errors)
	q.c.Tick(q.now.Add(time.Second), []Measurement{m})
	return latency
}

func newQueueing(service float64, t rules.UpstreamTarget) *queueing {
	return &queueing{workers: 4, service: service, patience: 5, queue: 500, c: New(t, 1, math.Inf(1)),
		now: time.Unix(1e9, 0)}
}

// A controller that begins in a rush finds the latency without a queue, in two seconds for each step of its probe, and
// some more.
func TestController_ProbesInARush(t *testing.T) {
	t.Parallel()
	for _, times := range []float64{1.2, 4, 10} {
		q := newQueueing(0.04, rules.UpstreamTarget{})
		q.inFlight = 100
		seconds := 0
		for ; !q.c.known && seconds < 60; seconds++ {
			q.second(100*times, 0)
		}
		base, _ := q.c.base()
		if most := 2*math.Ceil(math.Log(200)/-math.Log(probeStep)) + 4; base > 1.3*0.04 || float64(seconds) > most {
			t.Errorf("%v times: base %.0f ms after %d s", times, 1000*base, seconds)
		}
		for range 30 {
			q.second(100*times, 0)
		}
		if latency := q.second(100*times, 0); latency > 1.6*1.3*0.04 || q.c.Bound().Rate < 80 {
			t.Errorf("%v times: later latency %.0f ms, %.0f a second", times, 1000*latency, q.c.Bound().Rate)
		}
	}
}

// An upstream that fails all requests because of its queue is probed until it answers.
func TestController_ProbesAfterTimeouts(t *testing.T) {
	t.Parallel()
	q := newQueueing(0.04, rules.UpstreamTarget{})
	q.patience, q.queue, q.inFlight = 1, 5000, 5000 // the queue takes 50 s, which is longer than the steps of the probe
	for seconds := 0; !q.c.known && seconds < 80; seconds++ {
		q.second(1000, 0)
	}
	if base, known := q.c.base(); !known || base > 1.3*0.04 {
		t.Errorf("base %.0f ms, known %v", 1000*base, known)
	}
}

// An upstream that is slow by itself is asked once, which denies requests for some seconds, and is not limited then.
func TestController_EndsProbeWithoutRush(t *testing.T) {
	t.Parallel()
	q := newQueueing(0.4, rules.UpstreamTarget{})
	for range 20 {
		q.second(7, 0)
	}
	before := q.denied
	for range 60 {
		q.second(7, 0)
	}
	if base, known := q.c.base(); !known || base > 0.5 || q.denied > before || q.c.Bound().Saturated {
		t.Errorf("base %.0f ms, known %v, %.0f denied later, bound %+v", 1000*base, known, q.denied-before, q.c.Bound())
	}
}

func TestController_ProbesOnlyWithoutKnowledge(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func() *queueing{
		"a fast upstream": func() *queueing { return newQueueing(0.04, rules.UpstreamTarget{}) },
		"a target":        func() *queueing { return newQueueing(0.4, rules.UpstreamTarget{Latency: time.Second}) },
		"a restored base": func() *queueing {
			q := newQueueing(0.4, rules.UpstreamTarget{})
			q.c.setBase(0.4)
			return q
		},
		"quiet beforehand": func() *queueing {
			q := newQueueing(0.4, rules.UpstreamTarget{})
			for range 2 * quietMargin {
				q.second(0, 5)
			}
			return q
		},
	} {
		q := begin()
		for range 60 {
			q.second(0.5*float64(q.workers)/q.service, 0)
		}
		if q.denied > 0 {
			t.Errorf("%s: %.0f denied", name, q.denied)
		}
	}
}

// The seconds of a rush before its key is hot hardly lift the base, and a latency that stays does.
func TestController_LearnsBaseSlowly(t *testing.T) {
	t.Parallel()
	q := newQueueing(0.04, rules.UpstreamTarget{})
	for range 60 {
		q.second(0, 50)
	}
	quiet, _ := q.c.base()
	q.service = 0.4
	q.workers = 40
	for range 3 {
		q.second(0, 50)
	}
	if base, _ := q.c.base(); base > 1.2*quiet {
		t.Errorf("base %.0f ms after three slow seconds, before %.0f ms", 1000*base, 1000*quiet)
	}
	for range 600 {
		q.second(0, 50)
	}
	if base, _ := q.c.base(); base < 0.3 {
		t.Errorf("base %.0f ms after ten slow minutes", 1000*base)
	}
}

// A limit begins when the upstream is overloaded, and ends some seconds after the demand fits its capacity again.
func TestController_EndsItsLimit(t *testing.T) {
	t.Parallel()
	q := newQueueing(0.04, rules.UpstreamTarget{Latency: 100 * time.Millisecond})
	for range 30 {
		q.second(400, 0)
	}
	if !q.c.Bound().Saturated {
		t.Fatalf("four times the capacity: %+v", q.c.Bound())
	}
	for range 4 {
		q.second(60, 0)
	}
	if b := q.c.Bound(); b.Saturated || b.Why == "not limited" {
		t.Errorf("four seconds after the rush: %+v", b)
	}
	for range openAfterTicks {
		q.second(60, 0)
	}
	if b := q.c.Bound(); b.Saturated || b.Why != "not limited" {
		t.Errorf("later: %+v", b)
	}
}

// A few denials by the cap are chance and begin no limit, and limiters with a random part of the requests have a higher
// cap together.
func TestController_BearsChance(t *testing.T) {
	t.Parallel()
	tick := func(denied int64, limiters int) (b hottype.UpstreamLimit) {
		c := New(rules.UpstreamTarget{Latency: 100 * time.Millisecond}, 1, 1000)
		now := time.Unix(1e9, 0)
		for range 3 {
			now = now.Add(time.Second)
			m := Measurement{At: now, OK: 100, Hot: 100, InFlight: 9, Limiters: limiters}
			m.Denied = denied
			m.Latency.addN(40*time.Millisecond, 100)
			b = c.Tick(now, []Measurement{m})
		}
		return b
	}
	if b := tick(20, 1); b.Saturated || b.InFlightCap != 9+4*3+4 {
		t.Errorf("20 of 120 denied: %+v", b)
	}
	if b := tick(40, 1); !b.Saturated {
		t.Errorf("40 of 140 denied: %+v", b)
	}
	if one, ten := tick(0, 1).InFlightCap, tick(0, 10).InFlightCap; ten < one+20 || ten > 2*one {
		t.Errorf("the cap is %.0f with one limiter, and %.0f with ten", one, ten)
	}
}

// A controller that begins in a rush with a given target takes the answers while the queue drains for the capacity,
// although hardly anything is allowed meanwhile.
func TestController_BeginsInARush(t *testing.T) {
	t.Parallel()
	q := newQueueing(0.04, rules.UpstreamTarget{Latency: 100 * time.Millisecond})
	for range 10 {
		q.second(400, 0)
	}
	if b := q.c.Bound(); b.Rate < 80 || b.Rate > 120 {
		t.Errorf("%+v", b)
	}
}
