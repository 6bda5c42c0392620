package demo

import (
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/detect"
)

type Wave struct {
	Key hottype.Key `json:"key"`
	// Crossed is when the request was sent that reached the threshold.
	Crossed time.Time `json:"crossed"`
	// FoundMS and EnforcedMS are the milliseconds from there until the key was
	// hot, and until the first visitor was turned away.
	FoundMS    float64 `json:"found_ms"`
	EnforcedMS float64 `json:"enforced_ms"`
	// Cooled is when the key was released; zero when it still was hot at the
	// end.
	Cooled time.Time `json:"cooled,omitzero"`
	// Asked and LetThrough count its requests from the first denial until it
	// cooled. Bound is the most that the limit may let through in that time:
	// burst + rate x time.
	Asked      uint64 `json:"asked"`
	LetThrough uint64 `json:"let_through"`
	Bound      uint64 `json:"bound"`
	// Served is whether it was answered from memory, and Adaptive whether its limit followed what
	// the site bears. Neither has a bound to hold, and so none of what follows FoundMS.
	Served   bool `json:"served,omitempty"`
	Adaptive bool `json:"adaptive,omitempty"`
}

// fixed reports whether the wave has the same limit all the time.
func (w *Wave) fixed() bool { return !w.Served && !w.Adaptive }

// watcher tells by the visitors' own clock how fast the pipeline was. It
// counts sent requests by the second, as the detector counts them, and notes
// when the sum over the window reached the threshold.
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
	next     Wave // what the next wave will be
}

func newWatcher(key hottype.Key, threshold int64, window time.Duration, rate, burst float64) *watcher {
	return &watcher{key: key, threshold: threshold, window: int64(window / time.Second), rate: rate, burst: burst,
		next: Wave{Key: key}, sent: map[int64]int64{}}
}

// begins says what the waves are from now on: answered from memory, with a limit that follows what
// the site bears, or neither.
func (w *watcher) begins(served, adaptive bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hot { // still from the wave before, which ends here
		w.close(time.Now())
		w.hot = true
	}
	w.next = Wave{Key: w.key, Served: served, Adaptive: adaptive}
}

// onSend hears of every request before it is sent.
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
			w.crossed = time.Time{} // an earlier wave's crossing
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
	if !w.next.fixed() {
		return
	}
	if status == 429 && w.enforced.IsZero() {
		w.enforced = time.Now()
		if n := len(w.waves); n > 0 && w.hot {
			w.waves[n-1].EnforcedMS = ms(w.enforced.Sub(w.waves[n-1].Crossed))
		}
	}
	if n := len(w.waves); n > 0 && w.hot && !w.enforced.IsZero() {
		w.waves[n-1].Asked++
		if status == 200 {
			w.waves[n-1].LetThrough++
		}
	}
}

// onChange hears what the aggregator says, and gives the wave that it is about,
// nil for other keys.
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
		wave.Crossed, wave.FoundMS = w.crossed, ms(now.Sub(w.crossed))
		w.waves = append(w.waves, wave)
		return w.last()
	}
	w.close(now)
	if n := len(w.waves); n > 0 {
		w.waves[n-1].Cooled = now
	}
	return w.last()
}

// close ends the wave under way and works out its bound. It needs mu.
func (w *watcher) close(now time.Time) {
	if n := len(w.waves); n > 0 && w.hot && !w.enforced.IsZero() {
		w.waves[n-1].Bound = uint64(w.burst + w.rate*now.Sub(w.enforced).Seconds())
	}
	w.hot, w.crossed, w.enforced = false, time.Time{}, time.Time{}
}

// last copies the latest wave. It needs mu.
func (w *watcher) last() *Wave {
	if len(w.waves) == 0 {
		return nil
	}
	return new(w.waves[len(w.waves)-1])
}

// Waves are all waves so far; the one under way is closed.
func (w *watcher) Waves() []Wave {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.close(time.Now())
	return append([]Wave(nil), w.waves...)
}

// Hot reports whether the key is hot now, as last heard.
func (w *watcher) Hot() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hot
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
