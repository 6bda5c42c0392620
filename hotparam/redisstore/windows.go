package redisstore

import (
	"cmp"
	"context"
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/limit"
)

const (
	// exchangeEvery is how often sums are exchanged.
	exchangeEvery = 100 * time.Millisecond
	// freshFor is how long after an exchange the sums of others are believed.
	freshFor = time.Second
	// windowShards is how many parts the records lie in, each with its lock.
	windowShards = 64
	// maxWindowTime, unix us, is far enough below 2^53 for the end of any window.
	maxWindowTime = 1<<53 - 1<<47
)

// Windows are fixed and sliding windows that many processes share by their sums:
// a decision is made in memory and waits for nothing, and ten times a second each
// process tells Redis what it has admitted and hears what all have.
//
//	Take ──> limit.Memory (own + what is known of others) ──> record: + cost
//	                 ^ Impose what others have admitted           │
//	                 └──────── exchange, every 100 ms <───────────┘
//
// What may pass beyond the limit. A process hears of a subject after it was asked
// for here, so the first requests for one after a while are judged by what was
// known before, until the next exchange. In one window at most
//
//	limit + what all but one of the processes admit within one exchange
//
// passes: never more than n x limit with n processes, and of a client that sends
// r a second at most limit + (n-1) x r x (100 ms + a round trip), for which it has
// to go from one process to the next. Who is known to be over the limit is denied
// everywhere until the window says otherwise.
//
// By whose clock: the caller's now, corrected by the difference to the clock of
// Redis that the exchanges measure, so that processes agree where a window begins.
//
// Where Redis fails, each process goes on with what it knows; Fresh says so, and
// the gate then holds each to its share. What could not be told is told later, in
// the same window or the next. A batch whose fate is unknown is not sent again,
// and no other is until Redis has answered, so an outage loses at most one.
//
// It may be used by any number of goroutines; Run by one.
type Windows struct {
	c      *Client
	local  *limit.Memory
	seed   maphash.Seed // of this process, so that nobody outside can aim at one shard
	shards [windowShards]windowShard
	room   int // records per shard
	slack  int64

	offset atomic.Int64 // of the clock of Redis, microseconds
	heard  atomic.Int64 // when the last exchange ended well, unix nanoseconds
	failed bool         // the last exchange; belongs to Run
	counts windowCounters
}

// WindowsConfig bounds Windows.
type WindowsConfig struct {
	// MaxSubjects bounds the clients remembered; default 262,144, about 150 MB
	// when all are in use with two windows each.
	MaxSubjects int
}

// WindowsStats tells how sums were exchanged. Subjects is of this moment.
type WindowsStats struct {
	// Exchanges that reached Redis, and Errors of those that did not.
	Exchanges, Errors uint64
	// Sums are those sent, of one subject's window each.
	Sums uint64
	// Learned is the cost of others that was heard of.
	Learned uint64
	// Uncertain are sums whose batch may or may not have arrived, Untracked the
	// admitted cost that found no room and is not told to others.
	Uncertain, Untracked uint64
	// Subjects are those with a record.
	Subjects int64
	// Last is how long the last exchange took.
	Last time.Duration
}

type windowCounters struct {
	exchanges, errors, sums, learned, uncertain, untracked atomic.Uint64
	last                                                   atomic.Int64
}

// who is a subject without its space: all windows of a client lie together, and
// are recorded with one look-up.
type who struct {
	client hotparam.Client
	name   string
}

// record is what this process knows of one window beside limit.Memory.
type record struct {
	space        string
	spec         limit.Spec
	start        int64 // of the window that own and others are of, unix us
	own, ownPrev int64 // admitted here, in that window and in the one before
	told         int64 // of own, what Redis was told
	toldPrev     int64
	others       int64 // admitted elsewhere in that window, as far as imposed
	othersPrev   int64
	asked        bool // since the last exchange, whatever came of it
}

type windowShard struct {
	mu      sync.Mutex
	records map[who][]record // guarded by mu
	_       [48]byte
}

// Windows gives windows that are shared by sums. They exchange while Run runs.
func (c *Client) Windows(cfg WindowsConfig) *Windows {
	most := cmp.Or(max(cfg.MaxSubjects, 0), 1<<18)
	w := &Windows{c: c, seed: maphash.MakeSeed(), local: limit.NewMemory(limit.MemoryConfig{MaxSubjects: most}), room: max(1, most/windowShards)}
	for i := range w.shards {
		w.shards[i].records = map[who][]record{}
	}
	return w
}

// HonoursContext says that Take never waits.
func (w *Windows) HonoursContext() bool { return true }

// Fresh reports whether the sums of others are known: an exchange ended well
// within the last second.
func (w *Windows) Fresh(now time.Time) bool {
	return now.UnixNano()-w.heard.Load() < int64(freshFor)
}

// Take implements limit.Store, in memory. It takes fixed and sliding windows;
// charges of other algorithms are judged here too, but others never hear of them.
func (w *Windows) Take(ctx context.Context, now time.Time, charges []limit.Charge, results []limit.Result) (bool, error) {
	now = w.at(now)
	ok, err := w.local.Take(ctx, now, charges, results)
	if err != nil {
		return false, err
	}
	sign := int64(1)
	if !ok {
		sign = 0 // nothing was admitted, but it is asked for
	}
	w.note(now.UnixMicro(), charges, sign)
	return ok, nil
}

// RefundAt undoes a Take that was admitted here at now; see limit.Memory.RefundAt.
func (w *Windows) RefundAt(now time.Time, charges []limit.Charge) {
	now = w.at(now)
	w.local.RefundAt(now, charges)
	w.note(now.UnixMicro(), charges, -1)
}

// at is the caller's time by the clock of Redis, within what limit.Memory and the
// script keep exactly.
func (w *Windows) at(now time.Time) time.Time {
	us := now.UnixMicro() + w.offset.Load()
	return time.UnixMicro(min(max(us, 0), maxWindowTime))
}

// note records costs that were admitted, or with sign -1 taken back, or with 0
// only that others should be heard of.
func (w *Windows) note(us int64, charges []limit.Charge, sign int64) {
	for len(charges) > 0 {
		n := 1 // as many as are of one client
		for n < len(charges) && charges[n].Subject.Client == charges[0].Subject.Client && charges[n].Subject.Name == charges[0].Subject.Name {
			n++
		}
		w.noteAll(us, charges[:n], sign)
		charges = charges[n:]
	}
}

// noteAll is note for charges of one client.
func (w *Windows) noteAll(us int64, charges []limit.Charge, sign int64) {
	k := who{charges[0].Subject.Client, charges[0].Subject.Name}
	sh := w.shard(&k)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	list, known := sh.records[k]
	size := len(list)
	for i := range charges {
		c := &charges[i]
		if !shares(&c.Spec) {
			continue
		}
		window := c.Spec.Window.Microseconds()
		r := find(list, c)
		if r == nil {
			if !known && len(sh.records) >= w.room {
				w.counts.untracked.Add(uint64(max(0, sign*c.Cost)))
				continue
			}
			list = append(list, record{space: c.Subject.Space, spec: c.Spec, start: us - us%window})
			r = &list[len(list)-1]
		}
		r.note(us-us%window, window, sign*c.Cost)
	}
	if len(list) != size {
		sh.records[k] = list
	}
}

// shares is whether a limit is one whose sums are exchanged.
func shares(s *limit.Spec) bool {
	return (s.Algorithm == limit.FixedWindow || s.Algorithm == limit.SlidingWindow) && s.Window >= time.Microsecond
}

// find is the record of a charge, nil where there is none.
func find(list []record, c *limit.Charge) *record {
	for i := range list {
		if list[i].space == c.Subject.Space && list[i].spec == c.Spec {
			return &list[i]
		}
	}
	return nil
}

func (r *record) note(start, window, cost int64) {
	r.asked = true
	r.roll(start, window)
	switch start {
	case r.start:
		r.own += cost
	case r.start - window: // the clock was corrected meanwhile
		r.ownPrev += cost
	}
}

// roll makes a later window the current one.
func (r *record) roll(start, window int64) {
	switch {
	case start <= r.start:
	case start == r.start+window:
		r.ownPrev, r.toldPrev, r.othersPrev = r.own, r.told, r.others
		r.start, r.own, r.told, r.others = start, 0, 0, 0
	default:
		*r = record{space: r.space, spec: r.spec, start: start, asked: r.asked}
	}
}

// shard is where a client is recorded: by its address, or its names.
func (w *Windows) shard(k *who) *windowShard {
	var h uint64
	if k.client.Addr.IsValid() {
		address := k.client.Addr.As16()
		h = maphash.Bytes(w.seed, address[:])
	} else {
		h = maphash.String(w.seed, k.client.Name) ^ bits.RotateLeft64(maphash.String(w.seed, k.name), 1)
	}
	return &w.shards[h%windowShards]
}

// Stats reads the figures.
func (w *Windows) Stats() WindowsStats {
	st := WindowsStats{
		Exchanges: w.counts.exchanges.Load(), Errors: w.counts.errors.Load(), Sums: w.counts.sums.Load(),
		Learned: w.counts.learned.Load(), Uncertain: w.counts.uncertain.Load(), Untracked: w.counts.untracked.Load(),
		Last: time.Duration(w.counts.last.Load()),
	}
	for i := range w.shards {
		sh := &w.shards[i]
		sh.mu.Lock()
		st.Subjects += int64(len(sh.records))
		sh.mu.Unlock()
	}
	return st
}
