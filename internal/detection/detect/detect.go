package detect

import (
	"cmp"
	"hash/maphash"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/window"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/rules"
)

// Detector judges which keys are hot. Add and AddAll may be called by any number of goroutines, beside all other
// methods. Each call holds one shard at a time, while it adds the counts of that shard. The other methods wait for each
// other.
type Detector struct {
	opts Options
	seed maphash.Seed // random, so that no client can choose keys that collide

	// rules guards the fields that only SetRules changes: routes, traffic, and the rule states of the shards. All other
	// methods lock it for reading.
	rules   sync.RWMutex
	routes  *routes
	traffic []*traffic // in the order of the rules
	uses    *rules.Uses
	shards  []*shard
	span    int64 // the number of seconds within which a count can matter

	batches    sync.Pool // of *batch
	noRule     atomic.Uint64
	clock      atomic.Int64 // the latest time passed to a method, unix ns
	incomplete atomic.Int64 // counts up to this time may be missing, unix ns; 0 if complete

	judging   sync.Mutex // held by Tick, OverThreshold, Forget and SetRules; guards all below
	hot       int64      // number of hot keys at the last Tick
	loops     int64      // number of loops at the last Tick
	displaced uint64
	full      []hotset.Full // the result of Full
	last      tick          // the last tick, whose memory is used again
}

// New returns a Detector for a set of rules. It starts no goroutines.
func New(set *rules.Set, o Options) *Detector {
	d := &Detector{opts: o.withDefaults(), seed: maphash.MakeSeed(), routes: &routes{}}
	d.batches.New = func() any { return new(batch) }
	for range d.opts.Shards {
		l := &shard{d: d}
		l.budget = &sketchBudget{
			free:  max(d.opts.MaxSketches/d.opts.Shards, 1),
			rules: func() []*ruleState { return l.states },
		}
		d.shards = append(d.shards, l)
	}
	d.SetRules(set)
	return d
}

// lockState locks the state that judging needs, and returns the function that unlocks it.
func (d *Detector) lockState() (release func()) {
	d.judging.Lock()
	d.rules.RLock()
	return func() {
		d.rules.RUnlock()
		d.judging.Unlock()
	}
}

// Add adds one count. For many counts AddAll is faster.
func (d *Detector) Add(now time.Time, c hottype.Count) (crossed bool) {
	return d.AddAll(now, []hottype.Count{c})
}

func (d *Detector) shardOf(hash uint64) int { return int(hash >> 32 & uint64(len(d.shards)-1)) }

// AddAll adds counts. It reports whether one of them made a key hot that was neither hot nor cooling before: the caller
// should then Tick at once and publish. The Detector copies the keys that it keeps.
func (d *Detector) AddAll(now time.Time, counts []hottype.Count) (crossed bool) {
	d.rules.RLock()
	defer d.rules.RUnlock()
	b := d.batches.Get().(*batch)
	now = d.advanceClock(now)
	for part := range slices.Chunk(counts, batchSize) {
		d.routeCounts(now.Unix(), part, b)
		for _, rule := range b.present {
			d.traffic[rule].add(now.Unix(), b.requestRuns(rule, d.traffic[rule], part))
		}
		for i, l := range d.shards {
			if mine := b.countsOf(i); len(mine) > 0 {
				crossed = l.addAll(now, part, b, mine) || crossed
			}
		}
	}
	b.reset(nil, 0)
	d.batches.Put(b)
	return crossed
}

// advanceClock returns the time of a call at now: the latest time passed to any call, so that time does not step back.
// If now is earlier by more than the span in which a count can matter, the clock had been wrong, and the time becomes
// now.
func (d *Detector) advanceClock(now time.Time) time.Time {
	heard := d.clock.Load()
	if n := now.UnixNano(); n > heard || time.Unix(0, heard).Unix()-now.Unix() > d.span {
		d.clock.Store(n)
		return now
	}
	return time.Unix(0, heard).In(now.Location())
}

func (d *Detector) routeCounts(second int64, counts []hottype.Count, b *batch) {
	b.reset(d.routes, len(d.shards))
	for i := range counts {
		if i%warmBatch == 0 {
			b.fetch(counts[i:min(i+warmBatch, len(counts))])
		}
		key := counts[i].Key
		rule := b.ruleFor(key)
		b.rule[i] = int32(rule)
		if rule < 0 {
			d.noRule.Add(1)
			continue
		}
		d.uses.RecordKey(rule, second, key)
		hash := maphash.String(d.seed, string(key))
		b.hash[i] = hash
		b.addCount(rule, d.shardOf(hash), i)
	}
}

// OverThreshold returns, sorted, the keys whose count over their rule's window ending with second s reaches the rule's
// rate. Other criteria, hysteresis, MaxHot and MinClients do not apply. It advances the time to s. It returns nil if s
// is before the current second, because those counts are no longer kept.
func (d *Detector) OverThreshold(s int64) []hottype.Key {
	defer d.lockState()()
	if s > time.Unix(0, d.clock.Load()).Unix() {
		d.advanceClock(time.Unix(s, 0))
	}
	var over []hottype.Key
	for _, l := range d.shards {
		over = append(over, l.keysOverThreshold(s)...)
	}
	slices.Sort(over)
	return over
}

func (l *shard) keysOverThreshold(s int64) (over []hottype.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now.IsZero() || s > l.second {
		l.advance(time.Unix(s, 0))
	}
	if s < l.second {
		return nil
	}
	for i, h := range l.states {
		if h.full { // more keys than are listed
			h.counts.Each(func(place int, sum int64) {
				if key := hottype.Key(h.counts.Key(place)); sum >= h.compiled.rate.hot && l.d.routes.ruleFor(key) == i {
					over = append(over, key)
				}
			})
			continue
		}
		for _, c := range h.candidates {
			if c != nil && h.counts.SumOf(c.watch) >= h.compiled.rate.hot {
				over = append(over, c.key)
			}
		}
	}
	return over
}

func (d *Detector) Stats() Stats {
	d.judging.Lock()
	st := Stats{Hot: d.hot, Loops: d.loops, Displaced: d.displaced, DroppedNoRule: d.noRule.Load()}
	for _, f := range d.full {
		st.Unplaced += int64(f.Unplaced)
	}
	d.judging.Unlock()
	d.rules.RLock()
	defer d.rules.RUnlock()
	for _, l := range d.shards {
		l.addStatsTo(&st)
	}
	for _, tr := range d.traffic {
		st.Bytes += int64(tr.memoryBytes())
	}
	return st
}

// The defaults of Options, and the maximum of Counters.
const (
	DefaultCounters = window.DefaultCounters
	MaxCounters     = window.MaxCounters // larger values are reduced to this
	DefaultLateness = 10 * time.Second
	DefaultFuture   = hottype.MaxFuture
	DefaultHotTTL   = 5 * time.Second
	DefaultSketches = 4096
)

// maxShards is the maximum number of shards.
const maxShards = 64

// Options bound a Detector. Zero and negative values select the defaults.
type Options struct {
	// Counters is the maximum number of counters of each rule. A key takes one, of at most about 200 bytes, for each
	// second of the window in which it is counted. 0 means 131,072. Beyond it the counters of the lightest keys are
	// given up, and sums are lower bounds with a known error: see Stats.Error.
	Counters int
	// MaxRate is the highest number of requests per second expected of a rule without max_rate, or 0 if it is unknown.
	// Only Check reads it.
	MaxRate float64
	// Shards is the number of parts into which keys are divided, each with its own lock and its share of the counters;
	// 0 means 1. Rounded up to a power of two.
	Shards int
	// Lateness is the maximum age of a count, by its second; 0 means 10 s. A rule takes no counts older than its
	// window. Whole seconds, rounded up.
	Lateness time.Duration
	// Future is how far the second of a count may be ahead of now, for senders with a fast clock; 0 means 2 s. Such
	// counts are judged when their second begins. Whole seconds, rounded up.
	Future time.Duration
	HotTTL time.Duration // how long a set keeps its keys hot: HotKey.Until = now + HotTTL; 0 means 5 s
	// MaxSketches is the maximum number of keys near their threshold whose clients are kept, over all rules; 0 means
	// 4096, of up to about 5 KB. Beyond it the lightest sketches of the network that has most are given up; such a key
	// counts as a single client until its clients are known again.
	MaxSketches int
	// NoClients is true if the source of the counts cannot name clients (Graphite): min_clients then has no effect.
	// Otherwise all requests without a client count as a single client.
	NoClients bool
	// WholeSeconds is true if all counts of a second arrive at once when it is over (Graphite).
	WholeSeconds bool
}

func (o Options) withDefaults() Options {
	o.Counters = min(cmp.Or(max(o.Counters, 0), DefaultCounters), MaxCounters)
	o.MaxSketches = cmp.Or(max(o.MaxSketches, 0), DefaultSketches)
	o.Shards = 1 << bits.Len(uint(min(max(o.Shards, 1), maxShards)-1))
	o.Lateness = cmp.Or(max(o.Lateness, 0), DefaultLateness)
	o.Future = cmp.Or(max(o.Future, 0), DefaultFuture)
	o.HotTTL = cmp.Or(max(o.HotTTL, 0), DefaultHotTTL)
	return o
}

// perShard returns the number of counters of one rule in one shard.
func (o Options) perShard() int { return max(o.Counters/o.Shards, 1) }

// wholeSeconds returns d in whole seconds, rounded up.
func wholeSeconds(d time.Duration) int64 {
	return int64((d + time.Second - 1) / time.Second)
}
