package main

import (
	"container/heap"
	"math"
	"slices"
	"time"

	"github.com/hotparam/pipeline/internal/deciding/adaptive"
)

// since adds the time of the requests under way up to t.
func (w *world) since(t float64) {
	w.area += float64(len(w.open)) * (t - w.areaAt)
	w.areaAt = t
}

// complete ends the requests that end before t.
func (w *world) complete(t float64) {
	for len(w.open) > 0 && w.open[0].end <= t {
		w.since(w.open[0].end)
		r := heap.Pop(&w.open).(request)
		w.inFlight[r.limiter]--
		if r.ok {
			w.seen.OK++
		} else {
			w.seen.Errors++
		}
		if r.took > 0 {
			w.seen.Latency.Add(time.Duration(r.took * float64(time.Second)))
		}
	}
	w.since(t)
}

// send sends the report of the second that ends at t.
func (w *world) send(t float64) {
	w.seen.At, w.seen.InFlight, w.seen.Limiters = clock(t), w.area, w.limiters
	for i, n := range w.coming {
		w.coldOf[i] += (n - w.coldOf[i]) / 2
		w.coming[i] = 0
	}
	lag := 0.6
	if w.report != nil {
		lag = w.report(t, w.rng)
	}
	if !math.IsInf(lag, 1) {
		w.late = append(w.late, arriving{t + lag, w.seen})
	}
	w.seen, w.area = adaptive.Measurement{}, 0
}

// deliver passes to the controller the reports that have arrived by t.
func (w *world) deliver(t float64) {
	if w.ctl == nil || w.away != nil && w.away(t) {
		return
	}
	var now []adaptive.Measurement
	w.late = slices.DeleteFunc(w.late, func(a arriving) bool {
		if a.at > t {
			return false
		}
		now = append(now, a.report)
		return true
	})
	if len(now) > 0 {
		w.bound = w.ctl.Tick(clock(t), now)
	}
}
