package adaptive

import (
	"sync"
	"time"

	"github.com/hotparam/pipeline/internal/report"
)

// recorder adds up what one process sees of one upstream until its next report.
type recorder struct {
	mu           sync.Mutex
	latency      Histogram
	seen         report.Upstream
	since        time.Time
	open         int64         // requests that wait for their answer
	area         float64       // of open over the seconds since then
	areaAt       time.Time     // up to which it is added up
	mean         time.Duration // latency in the last report that had any
	reportedArea float64       // part of area of requests that are reported only at their end
	reportedCold ewma          // of these, cold requests in flight
}

// advance adds up the requests in flight to now. It needs mu.
func (r *recorder) advance(now time.Time) {
	if r.areaAt.IsZero() {
		r.since, r.areaAt = now, now
	}
	if d := now.Sub(r.areaAt); d > 0 {
		r.area += float64(r.open) * d.Seconds()
		r.areaAt = now
	}
}

// Begin notes that a request waits for its answer. End has to follow.
func (r *recorder) Begin(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.advance(now)
	r.open++
}

// End records the outcome of one that waited for took.
func (r *recorder) End(now time.Time, took time.Duration, o Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.advance(now)
	r.open = max(r.open-1, 0) // it may have begun before a change of the rules
	r.count(took, o, 1)
}

// RecordOutcomes records the outcome of n requests that are reported only at their end: their duration gives
// how many of them were in flight (Little's law).
func (r *recorder) RecordOutcomes(now time.Time, took time.Duration, o Outcome, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.advance(now)
	r.area += took.Seconds() * float64(n)
	r.reportedArea += took.Seconds() * float64(n)
	r.count(took, o, n)
}

// count needs mu.
func (r *recorder) count(took time.Duration, o Outcome, n int64) {
	switch o {
	case Answered:
		r.seen.OK += n
	case Failed:
		r.seen.Errors += n
	}
	// A quick failure gives no latency of answers, nor does a client that leaves soon.
	if o == Answered || took > r.mean {
		r.latency.addN(took, n)
	}
}

// Waiting is how many requests wait here for their response, those of cold keys included.
func (r *recorder) Waiting() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open
}

// reportedColdInFlight is how many cold requests, of those reported only at their end, are in flight on average.
func (r *recorder) reportedColdInFlight() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reportedCold.value
}

// Admit counts a request that may go to the upstream, by whether an adaptive limit applies to it.
func (r *recorder) Admit(hot bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if hot {
		r.seen.Hot++
	} else {
		r.seen.Cold++
	}
}

// Deny counts one that an adaptive limit denied.
func (r *recorder) Deny() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen.Denied++
}

// take returns the report, and begins the next one.
func (r *recorder) take(now time.Time) report.Upstream {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.advance(now)
	out := r.seen
	out.Seconds = now.Sub(r.since).Seconds()
	if out.Seconds > 0 {
		out.InFlight = r.area / out.Seconds
		r.reportedCold.add(r.reportedArea/out.Seconds*float64(out.Cold)/float64(max(1, out.Hot+out.Cold)), 0.5)
	}
	out.Latency, out.LatencySum = r.latency.Pairs(), r.latency.sum
	if r.latency.n > 0 {
		r.mean = r.latency.Mean()
	}
	r.seen, r.latency, r.area, r.reportedArea, r.since = report.Upstream{}, Histogram{}, 0, 0, now
	return out
}
