package adaptive

import (
	"sync"
	"time"

	"github.com/hotparam/pipeline/internal/report"
)

// recorder adds up the measurements of one process for one upstream until its next report.
type recorder struct {
	mu           sync.Mutex
	latency      Histogram
	seen         report.Upstream
	since        time.Time
	open         int64         // requests that wait for their response
	area         float64       // integral of open since then, in seconds
	areaAt       time.Time     // up to when area is computed
	mean         time.Duration // latency in the last report with any
	reportedArea float64       // part of area of requests that are reported only at their end
	reportedCold ewma          // cold requests in flight among them
}

// advance adds the requests in flight up to now. It needs mu.
func (r *recorder) advance(now time.Time) {
	if r.areaAt.IsZero() {
		r.since, r.areaAt = now, now
	}
	if d := now.Sub(r.areaAt); d > 0 {
		r.area += float64(r.open) * d.Seconds()
		r.areaAt = now
	}
}

// Begin records that a request waits for its response. End has to follow.
func (r *recorder) Begin(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.advance(now)
	r.open++
}

// End records the outcome of a request that waited for took.
func (r *recorder) End(now time.Time, took time.Duration, o Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.advance(now)
	r.open = max(r.open-1, 0) // it may have begun before a change of the rules
	r.countOutcome(took, o, 1)
}

// RecordOutcomes records the outcome of n requests that are reported only at their end. The number of them in flight
// follows from their duration (Little's law).
func (r *recorder) RecordOutcomes(now time.Time, took time.Duration, o Outcome, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.advance(now)
	r.area += took.Seconds() * float64(n)
	r.reportedArea += took.Seconds() * float64(n)
	r.countOutcome(took, o, n)
}

// countOutcome counts an outcome. It needs mu.
func (r *recorder) countOutcome(took time.Duration, o Outcome, n int64) {
	switch o {
	case Answered:
		r.seen.OK += n
	case Failed:
		r.seen.Errors += n
	}
	// A quick failure shows no latency of responses, nor does a client that leaves soon.
	if o == Answered || took > r.mean {
		r.latency.addN(took, n)
	}
}

// Waiting returns the number of requests, of hot and cold keys, that wait here for their response.
func (r *recorder) Waiting() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open
}

// reportedColdInFlight returns the mean number in flight of the cold requests that are reported only at their end.
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

// Deny counts a request that an adaptive limit denied.
func (r *recorder) Deny() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen.Denied++
}

// takeReport returns the report and begins the next one.
func (r *recorder) takeReport(now time.Time) report.Upstream {
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
