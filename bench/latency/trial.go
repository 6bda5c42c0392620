package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
)

const (
	rate     = 50 // rate of the rule, requests a second
	times    = 4  // factor from the rate of the rule to the rate of a viral topic
	lanes    = 10 // trials at the same time
	limiters = 2
	most     = 10 * time.Second // for one trial
	warmUp   = 30 * time.Second // for the first trial, in which programs find each other
	askEvery = 5 * time.Millisecond
)

// trial is one topic that goes viral. Its tracer guards it.
type trial struct {
	key  hottype.Key
	uri  string
	need int64 // requests to the threshold

	handed  int64 // requests that tally has handed over
	marks   marks
	refused [limiters]bool
	early   bool          // refused before the threshold
	done    chan struct{} // closed when all have refused
}

// marks are the times seen on the way, in order.
type marks struct {
	over, handed, crossed, judged, heard, enforced time.Time
}

// tracer holds the trials under way. It is safe for concurrent use.
type tracer struct {
	mu    sync.Mutex // guards the fields below
	under map[hottype.Key]*trial
}

func newTracer() *tracer {
	return &tracer{under: map[hottype.Key]*trial{}}
}

func (tr *tracer) begin(id int, need int64) *trial {
	t := &trial{uri: uri(id), key: hottype.Key(fmt.Sprintf("topic?id=%d", id)), need: need, done: make(chan struct{})}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.under[t.key] = t
	return t
}

func uri(id int) string { return fmt.Sprintf("/topic?id=%d&utm_source=feed", id) }

func (tr *tracer) end(t *trial) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	delete(tr.under, t.key)
}

// over records that the next request reaches the threshold.
func (tr *tracer) over(t *trial, now time.Time) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	t.marks.over = now
}

// handed records counts that tally hands over.
func (tr *tracer) handed(counts []hottype.Count, now time.Time) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for i := range counts {
		t := tr.under[counts[i].Key]
		if t == nil {
			continue
		}
		if t.handed += counts[i].N; t.handed >= t.need && t.marks.handed.IsZero() {
			t.marks.handed = now
		}
	}
}

// heard records a hot set that a reader has received.
func (tr *tracer) heard(set report.HotSet, now time.Time) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for i := range set.Keys {
		if t := tr.under[set.Keys[i].Key]; t != nil && t.marks.heard.IsZero() {
			t.marks.crossed, t.marks.judged, t.marks.heard = set.Keys[i].Since, set.At, now
		}
	}
}

// asked returns the trials under way, about whose topics limiters are asked.
func (tr *tracer) asked() (list []*trial) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, t := range tr.under {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b *trial) int { return cmp.Compare(a.key, b.key) })
	return list
}

// answered records a limiter's answers about trials.
func (tr *tracer) answered(limiter int, list []*trial, allowed []bool, now time.Time) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for i, t := range list {
		if allowed[i] || t.refused[limiter] {
			continue
		}
		t.refused[limiter] = true
		t.early = t.early || t.marks.over.IsZero()
		if !slices.Contains(t.refused[:], false) {
			t.marks.enforced = now
			close(t.done)
		}
	}
}

// load sends requests for viral and quiet topics.
type load struct {
	way    *running
	tr     *tracer
	need   int64 // requests to the threshold
	trials int
	quiet  int // requests a second for other topics
	topics int // number of these topics
	next   atomic.Int64

	mu  sync.Mutex // guards the fields below
	got []*trial
}

// run does all trials.
func (l *load) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return l.murmur(ctx) })
	for i := range limiters {
		group.Go(func() error { return l.ask(ctx, i) })
	}
	err := l.goViralAll(ctx)
	stop()
	if cause := group.Wait(); cause != nil { // the error that ended the lanes
		return cause
	}
	return err
}

// goViralAll does a trial that is not measured, in which the programs find each other, and then all others.
func (l *load) goViralAll(ctx context.Context) error {
	if _, err := l.goViral(ctx, l.topics, warmUp); err != nil {
		return err
	}
	var viral errgroup.Group
	for range lanes {
		viral.Go(func() error { return l.lane(ctx) })
	}
	return viral.Wait()
}

// lane does one trial after the other.
func (l *load) lane(ctx context.Context) error {
	for {
		n := int(l.next.Add(1))
		if n > l.trials {
			return nil
		}
		if !pause(ctx, rand.N(time.Second)) { // so that trials begin in other phases of every clock
			return nil
		}
		t, err := l.goViral(ctx, l.topics+n, most)
		if err != nil {
			return err
		}
		l.mu.Lock()
		l.got = append(l.got, t)
		l.mu.Unlock()
	}
}

// goViral sends requests for a topic until it is refused.
func (l *load) goViral(ctx context.Context, id int, most time.Duration) (*trial, error) {
	t := l.tr.begin(id, l.need)
	defer l.tr.end(t)
	began := time.Now()
	for i := int64(1); ; i++ {
		pause(ctx, time.Until(began.Add(time.Duration(i)*time.Second/(rate*times))))
		select {
		case <-t.done:
			return t, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		default:
		}
		now := time.Now()
		if i == l.need {
			l.tr.over(t, now)
		}
		l.way.count(ctx, now, t.uri, client(int(i)))
		if now.Sub(began) > most {
			return nil, fmt.Errorf("topic %d was not refused within %v", id, most)
		}
	}
}

// murmur sends requests for quiet topics, until ctx ends.
func (l *load) murmur(ctx context.Context) error {
	began := time.Now()
	for i := 1; ; i++ {
		if !pause(ctx, time.Until(began.Add(time.Duration(i)*time.Second/time.Duration(l.quiet)))) {
			return nil
		}
		l.way.count(ctx, time.Now(), uri(rand.N(l.topics)), client(i))
	}
}

// ask asks one limiter about all topics under way, and about a quiet topic, until ctx ends.
func (l *load) ask(ctx context.Context, limiter int) error {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		list := l.tr.asked()
		uris := []string{uri(rand.N(l.topics))}
		for _, t := range list {
			uris = append(uris, t.uri)
		}
		allowed, err := l.way.limiters[limiter](ctx, uris)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("limiter %d: %w", limiter, err)
		}
		if !allowed[0] {
			return fmt.Errorf("limiter %d refused the quiet topic %s", limiter, uris[0])
		}
		l.tr.answered(limiter, list, allowed[1:], time.Now())
	}
}

// client returns the i-th of many clients.
func client(i int) hottype.Client {
	return hottype.ClientFromAddr(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
}

// pause waits for d and reports whether ctx still runs.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
