package demo

import (
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/detect"
)

type Wave struct {
	Key hottype.Key `json:"key"`
	// Crossed is the time at which the request was sent that reached the threshold.
	Crossed time.Time `json:"crossed"`
	// FoundMS and EnforcedMS are the milliseconds from Crossed until the key was hot, and until the first request was
	// denied.
	FoundMS    float64 `json:"found_ms"`
	EnforcedMS float64 `json:"enforced_ms"`
	// Cooled is the time at which the key cooled, or zero if it was still hot at the end.
	Cooled time.Time `json:"cooled,omitzero"`
	// Asked and LetThrough count the requests and the allowed requests from the first denial until the key cooled.
	// Bound is the maximum that the limit may allow in that time: burst + rate x time.
	Asked      uint64 `json:"asked"`
	LetThrough uint64 `json:"let_through"`
	Bound      uint64 `json:"bound"`
	// Served is true if the wave was answered from memory, and Adaptive if its limit followed the capacity of the site.
	// Such waves have no bound, so EnforcedMS, Asked, LetThrough and Bound are 0.
	Served   bool `json:"served,omitempty"`
	Adaptive bool `json:"adaptive,omitempty"`
}

// hasFixedLimit reports whether the wave has the same limit all the time.
func (w *Wave) hasFixedLimit() bool { return !w.Served && !w.Adaptive }

// watcher measures by the visitors' own clock how fast the pipeline is. It counts sent requests by the second, as the
// detector counts them, and records the time at which the sum over the window reached the threshold.
type watcher struct {
	key       hottype.Key
	threshold int64
	window    int64 // seconds
	rate      float64
	burst     float64

	mu       sync.Mutex // guards the fields below
	sent     map[int64]int64
	crossed  time.Time
	enforced time.Time
	waves    []Wave
	hot      bool
	next     Wave // the template of the next wave
}

func newWatcher(key hottype.Key, threshold int64, window time.Duration, rate, burst float64) *watcher {
	return &watcher{key: key, threshold: threshold, window: int64(window / time.Second), rate: rate, burst: burst,
		next: Wave{Key: key}, sent: map[int64]int64{}}
}

// setNextWave sets the kind of the following waves: answered from memory, with a limit that follows the capacity of the
// site, or with a fixed limit.
func (w *watcher) setNextWave(served, adaptive bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hot { // still hot from the previous wave, which ends here
		w.finishWave(time.Now())
		w.hot = true
	}
	w.next = Wave{Key: w.key, Served: served, Adaptive: adaptive}
}

// onSend is called before every request is sent.
func (w *watcher) onSend(k Kind, now time.Time) {
	if k != Viral {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s := now.Unix()
	w.sent[s]++
	delete(w.sent, s-w.window-1)
	var sum int64
	for i := range w.window {
		sum += w.sent[s-i]
	}
	if sum < w.threshold {
		if !w.hot {
			w.crossed = time.Time{} // from an earlier wave
		}
		return
	}
	if w.crossed.IsZero() {
		w.crossed = now
	}
}

func (w *watcher) onDone(k Kind, status int) {
	if k != Viral {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.next.hasFixedLimit() {
		return
	}
	if status == 429 && w.enforced.IsZero() {
		w.enforced = time.Now()
		if n := len(w.waves); n > 0 && w.hot {
			w.waves[n-1].EnforcedMS = toMilliseconds(w.enforced.Sub(w.waves[n-1].Crossed))
		}
	}
	if n := len(w.waves); n > 0 && w.hot && !w.enforced.IsZero() {
		w.waves[n-1].Asked++
		if status == 200 {
			w.waves[n-1].LetThrough++
		}
	}
}

// onChange records a change that the aggregator reports, and returns its wave, or nil if the change is of another key.
func (w *watcher) onChange(c detect.Change) *Wave {
	if c.Hot.Key != w.key || c.Kind != detect.BecameHot && c.Kind != detect.Cooled {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if c.Kind == detect.BecameHot {
		w.hot = true
		wave := w.next
		wave.Crossed, wave.FoundMS = w.crossed, toMilliseconds(now.Sub(w.crossed))
		w.waves = append(w.waves, wave)
		return w.lastWave()
	}
	w.finishWave(now)
	if n := len(w.waves); n > 0 {
		w.waves[n-1].Cooled = now
	}
	return w.lastWave()
}

// finishWave ends the wave under way and computes its bound. The caller must hold mu.
func (w *watcher) finishWave(now time.Time) {
	if n := len(w.waves); n > 0 && w.hot && !w.enforced.IsZero() {
		w.waves[n-1].Bound = uint64(w.burst + w.rate*now.Sub(w.enforced).Seconds())
	}
	w.hot, w.crossed, w.enforced = false, time.Time{}, time.Time{}
}

// lastWave returns a copy of the latest wave, or nil if there is none. The caller must hold mu.
func (w *watcher) lastWave() *Wave {
	if len(w.waves) == 0 {
		return nil
	}
	return new(w.waves[len(w.waves)-1])
}

// Waves returns all waves so far. It closes the wave under way.
func (w *watcher) Waves() []Wave {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finishWave(time.Now())
	return append([]Wave(nil), w.waves...)
}

// Hot reports whether the key is hot, by the latest change.
func (w *watcher) Hot() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hot
}

func toMilliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
