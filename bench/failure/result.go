package main

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/hotparam/pipeline/internal/deciding/gate"
)

const (
	before = 2 * time.Second // load before the trouble
	after  = 3 * time.Second // load after the trouble
	most   = 30 * time.Second
	hangs  = time.Second
	calm   = 200 * time.Millisecond
)

// result holds the measurements of one scenario.
type result struct {
	l                   *load
	healed              time.Duration // time since the load began at which Redis answered again
	length              time.Duration
	early, peak, late   int // goroutines before, at most, and after
	stats               gate.Stats
	ownLines, moreLines int64
	forgets             bool
}

// play runs a scenario.
func (sc *scenario) play(ctx context.Context, o options) (*result, error) {
	s, err := sc.open(ctx, o.server)
	if err != nil {
		return nil, err
	}
	defer s.close()
	all, stop, err := openSidecars(ctx, s.addrs)
	if err != nil {
		return nil, err
	}
	defer stop()
	r := &result{l: newLoad(o.rate, most), forgets: sc.forgets}
	if err := r.drive(ctx, sc, s, o, all); err != nil {
		return nil, err
	}
	return r, nil
}

// drive keeps the load running while the trouble begins and ends.
func (r *result) drive(ctx context.Context, sc *scenario, s *site, o options, all []*sidecar) error {
	warm := newLoad(o.rate, time.Second)
	warm.run(ctx, o.rate, all)
	warm.out.Wait()
	runtime.GC()
	r.early = runtime.NumGoroutine()
	loading, end := context.WithCancel(ctx)
	defer end()
	over := make(chan struct{})
	go func() { r.l.run(loading, o.rate, all); close(over) }()
	err := pause(ctx, before)
	base := count(all)
	if err == nil {
		err = sc.trouble(ctx, s, o.trouble)
		r.healed = time.Since(r.l.began)
	}
	if err == nil {
		err = pause(ctx, after)
	}
	end()
	<-over
	r.length = time.Since(r.l.began)
	_ = pause(ctx, hangs)
	r.peak, r.late = r.l.peak, runtime.NumGoroutine()
	r.count(base, all)
	return err
}

// counted holds the counters of the gates.
type counted struct {
	errors, opened, closed uint64
	own, others            int64
}

func count(all []*sidecar) (c counted) {
	for _, s := range all {
		st := s.gate.Stats()
		c.errors += st.StoreErrors
		c.opened += st.StoreOpened
		c.closed += st.StoreClosed
		c.own += s.lines.gate.Load()
		c.others += s.lines.others.Load()
	}
	return c
}

func (r *result) count(base counted, all []*sidecar) {
	c := count(all)
	r.stats.StoreErrors, r.stats.StoreOpened, r.stats.StoreClosed = c.errors-base.errors, c.opened-base.opened,
		c.closed-base.closed
	r.ownLines, r.moreLines = c.own-base.own, c.others-base.others
}

// columns are the values of row. A time of -1 is one that did not come.
var columns = []string{"decisions", "p50, ms", "p99, ms", "max, ms", "p99 of the start, ms", "late, %", "hung",
	"goroutines before", "goroutines at most", "goroutines after", "hot key by share", "may pass by share",
	"hot key in all", "may pass in all", "store errors", "breaker opened", "breaker closed", "log lines of the gate",
	"log lines of others", "first, ms", "normal, ms"}

func (r *result) row() []float64 {
	took, starts, hung := r.times()
	late := len(took) - lateFrom(took)
	share, most := r.share()
	first, normal := r.recovery()
	return []float64{float64(r.l.used), ms(took[len(took)/2]), ms(took[len(took)*99/100]), ms(took[len(took)-1]),
		ms(starts[len(starts)*99/100]), 100 * float64(late) / float64(len(took)), float64(hung),
		float64(r.early), float64(r.peak), float64(r.late), float64(share), float64(most),
		float64(r.admitted()), float64(r.bound()), float64(r.stats.StoreErrors), float64(r.stats.StoreOpened),
		float64(r.stats.StoreClosed), float64(r.ownLines), float64(r.moreLines), ms(first), ms(normal)}
}

// times returns the durations of the decisions and the delays of their beginnings, both sorted, and the number that
// hung.
func (r *result) times() (took, starts []time.Duration, hung int) {
	for i := range r.l.used {
		s := &r.l.samples[i]
		if !s.back.Load() {
			hung++
			continue
		}
		if s.ended-s.began > hangs {
			hung++
		}
		took, starts = append(took, s.ended-s.due), append(starts, s.began-s.due)
	}
	slices.Sort(took)
	slices.Sort(starts)
	return took, starts, hung
}

func lateFrom(sorted []time.Duration) int {
	i, _ := slices.BinarySearch(sorted, gate.DefaultBudget+5*time.Millisecond+1)
	return i
}

// admitted returns the number of times that the hot key passed.
func (r *result) admitted() (n int) {
	for i := range r.l.used {
		if s := &r.l.samples[i]; s.back.Load() && s.hot && s.allowed {
			n++
		}
	}
	return n
}

// bound returns the number of times that the hot key may pass: a bucket, its refill, a bucket of shares, and the bucket
// again if Redis has forgotten it.
func (r *result) bound() int {
	length := r.length // and as long as calls go on, which on a busy machine is longer
	for i := range r.l.used {
		if s := &r.l.samples[i]; s.back.Load() {
			length = max(length, s.ended)
		}
	}
	n := burst + int(rate*length.Seconds())
	if r.stats.StoreErrors > 0 {
		n += burst
	}
	if r.forgets {
		n += burst
	}
	return n
}

// share returns how often the hot key passed by the gates' own shares, and how often it may between the first time and
// the last: each gate's bucket and its refill.
func (r *result) share() (n, most int) {
	var first, last [gates]time.Duration
	var any [gates]bool
	for i := range r.l.used {
		s := &r.l.samples[i]
		if !s.back.Load() || !s.hot || s.byRedis {
			continue
		}
		if !any[s.gate] {
			any[s.gate], first[s.gate] = true, s.began
		}
		last[s.gate] = max(last[s.gate], s.ended)
		if s.allowed {
			n++
		}
	}
	for g := range gates {
		if any[g] {
			most += burst/gates + int(rate/gates*(last[g]-first[g]).Seconds())
		}
	}
	return n, most
}

// recovery returns the times from the moment at which Redis answered again until Redis first decided, and until it
// decided everything for a while. A time is -1 if that did not happen.
func (r *result) recovery() (first, normal time.Duration) {
	first, normal = -1, -1
	since := r.healed // time since which Redis decided everything
	for i := range r.l.used {
		s := &r.l.samples[i]
		if !s.back.Load() || s.began < r.healed {
			continue
		}
		if !s.byRedis {
			since = max(since, s.ended)
			continue
		}
		if first < 0 && !s.hot {
			first = s.ended - r.healed
		}
		if normal < 0 && s.began-since >= calm {
			normal = since - r.healed
		}
	}
	return first, normal
}

func ms(d time.Duration) float64 {
	if d < 0 {
		return -1
	}
	return float64(d.Microseconds()) / 1000
}
