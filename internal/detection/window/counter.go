package window

import (
	"math"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/heavyhitters"
)

const (
	// maxSum is the greatest sum of a window: beyond it a count is rejected, so
	// that no sum overflows.
	maxSum  = 1 << 45
	maxSpan = 1 << 16 // of Window and of Future, in seconds
)

// DefaultCounters is the number of counters where none is given.
const DefaultCounters = 131_072

// MaxCounters is the most counters that can be had.
const MaxCounters = 1 << 23

// keyBytes is how many bytes the key of a counter may have on average.
const keyBytes = 64

// Config bounds a Counter. All times are whole seconds.
type Config struct {
	// Window is how many seconds a sum is over, ending with the current one. At least 1.
	Window int64
	// Lateness is how many seconds behind the current one a count may be, at most Window: what is older is in
	// neither sum any more. One of Window seconds ago is in the sum before the last turn only.
	Lateness int64
	// Future is how many seconds ahead of the current one a count may be. It is in the sum when its second
	// comes.
	Future int64
	// Counters caps the counters, which all seconds share: a key takes one for each second that it is counted
	// in. 0 means 131,072; at most MaxCounters. Memory is taken as needed, at most about 200 bytes a counter.
	Counters int
}

// clean puts every field into its domain.
func (c Config) clean() Config {
	c.Window = min(max(c.Window, 1), maxSpan)
	c.Lateness = min(max(c.Lateness, 0), c.Window)
	c.Future = min(max(c.Future, 0), maxSpan)
	if c.Counters <= 0 {
		c.Counters = DefaultCounters
	}
	c.Counters = min(c.Counters, MaxCounters)
	return c
}

// Counter holds the counts of one window. Not for concurrent use.
type Counter struct {
	cfg   Config
	clock clock
	slots []slot
	table *heavyhitters.Table[sums]

	pairs int // held in all slots
	idle  int // keys that have no pair and no watch
	limit int64

	watches []watch
	unused  []int32 // watches that are free
	crossed []int   // places of keys that a turn lifted to the limit
	scratch []int32 // by place, for folding and moving

	given uint64

	overCapacity bool // counters were all taken, and seconds like the last one need more
	pairsCreated int  // pairs in the current second, those given up too
	filter       coldFilter
}

type sums struct {
	sum int64 // over the window
	cur int64 // in the current second; its pair has no n of its own
	// left is what the key had in the second that left the window last, and leftAt the low bits of the second in
	// which that was so, so that no turn has to visit the key to clear it.
	left, leftAt uint32
	// pairs is how many pairs the key has in all slots.
	pairs int32
	watch int32 // number of its watch plus one; 0: none
}

// New builds a Counter whose current second is now. Fields of cfg outside
// their domain are taken as the nearest value in it.
func New(cfg Config, now int64) *Counter {
	cfg = cfg.clean()
	c := &Counter{cfg: cfg, clock: newClock(cfg, now), limit: math.MaxInt64}
	c.slots = make([]slot, c.clock.size)
	keys := cfg.Counters + cfg.Counters/4 + 16 // so that when it is full a fifth is idle
	c.table = heavyhitters.NewTable[sums](keys, max(cfg.Counters*keyBytes, 1<<18))
	return c
}

// Status says what became of a count.
type Status uint8

// The statuses of a count.
const (
	OK     Status = iota
	Late          // older than the window or than Lateness
	Future        // further ahead than Config.Future
	Full          // a key too long for the memory that there is
	Bad           // not positive, or beyond what can be summed
)

// Added answers an Add.
type Added struct {
	Status Status
	// Crossed is true where this count lifted the key's sum to Limit while
	// no watch is set, or to the threshold of its watch.
	Crossed bool
	// Place is where the key is, until the next Add or Advance; -1 where it is
	// too light to be held.
	Place int
	// Sum is the key's count over the window ending with the current second, after the Add: the lower bound of
	// it. Of a count that comes after its second, Before is that of the window ending with the second before the
	// current one; else 0.
	Sum, Before int64
}

// Add places n of a key in its second. The Counter keeps its own copy of a new
// key. Hash is of the key, by a function that no client can predict.
func (c *Counter) Add(hash uint64, key string, second, n int64) Added {
	ahead := second - c.clock.now
	switch {
	case n <= 0 || n > hottype.MaxCount:
		return Added{Status: Bad}
	case ahead < -c.cfg.Lateness:
		return Added{Status: Late}
	case ahead > c.cfg.Future:
		return Added{Status: Future}
	}
	if c.pairs >= c.cfg.Counters {
		c.makeRoom()
	}
	i := c.table.Find(hash, key)
	if ahead == -c.clock.window {
		return c.addToLeft(i, hash, key, n)
	}
	if c.overCapacity && ahead == 0 {
		c.filter.weight += float64(n)
		c.filter.counts++
		if i < 0 && c.filterCold(hash, n) {
			return Added{Place: -1}
		}
	}
	if i < 0 {
		if i = c.enter(hash, key); i < 0 {
			return Added{Status: Full}
		}
	}
	v := c.table.At(i)
	switch {
	case v.sum > maxSum-n:
		return Added{Status: Bad}
	case ahead != 0:
		c.addToSecond(i, v, second, n)
		if ahead < 0 {
			return c.late(i, v)
		}
	default:
		if v.cur == 0 {
			c.pair(c.clock.pos, i, v, 0)
			c.pairsCreated++
		}
		v.cur += n
		v.sum += n
	}
	return Added{Place: i, Sum: v.sum, Crossed: v.sum >= c.limit && c.crosses(v, v.sum)}
}

// addToSecond adds to another second than the current one. The pair that the key may
// have there is not looked for; fold joins them when room is needed.
func (c *Counter) addToSecond(i int, v *sums, second, n int64) {
	s := c.clock.slot(second)
	c.slots[s].mixed = true
	c.pair(s, i, v, n)
	if second < c.clock.now {
		v.sum += n
	}
}

func (c *Counter) pair(slot int64, i int, v *sums, n int64) {
	s := &c.slots[slot]
	if v.pairs == 0 && v.watch == 0 {
		c.idle--
	}
	v.pairs++
	c.pairs++
	s.pairs = append(s.pairs, pair{n: n, err: s.offset, place: uint32(i)})
}

// crosses reports whether a sum at the limit or above is news.
func (c *Counter) crosses(v *sums, sum int64) bool {
	return v.watch == 0 || sum >= c.watches[v.watch-1].threshold
}

// enter puts a new key into the table, -1 where it is too long.
func (c *Counter) enter(hash uint64, key string) int {
	if len(key) > c.cfg.Counters*keyBytes/4 && len(key) > 1<<16 {
		return -1
	}
	for {
		if i := c.table.Insert(hash, key); i >= 0 {
			c.idle++ // until it has its pair
			return i
		}
		if 5*c.idle < c.table.Len() { // full of names
			c.purge(c.fullest())
		}
		c.compact()
	}
}

// Warm fetches what Add will need for some hashes; see [heavyhitters.Table.Warm].
func (c *Counter) Warm(hashes []uint64) (sum uint64) {
	if cells := c.filter.cells; len(cells) > 0 {
		for _, hash := range hashes {
			sum += uint64(cells[heavyhitters.Bucket(hash, len(cells))])
		}
	}
	return sum + c.table.Warm(hashes)
}

// SetLimit sets the sum at which Add reports keys that are not watched, and
// Limit returns it.
func (c *Counter) SetLimit(sum int64) { c.limit = sum }
func (c *Counter) Limit() int64       { return c.limit }

// Sum is the least and the most that a key can have in the window.
func (c *Counter) Sum(hash uint64, key string) (lower, upper int64) {
	e := c.Error()
	if i := c.table.Find(hash, key); i >= 0 {
		lower = c.table.At(i).sum
	}
	return lower, lower + e
}

// Error is how far the sum of a key can be below the truth: of every second in
// the window, the most that was given up of one key. 0: all sums are exact.
func (c *Counter) Error() (e int64) {
	for s := c.clock.oldest(); s <= c.clock.now; s++ {
		e += c.slots[c.clock.slot(s)].missed()
	}
	return e
}

// Each calls f with the place of every key whose sum is above 0, in no order.
// f must not add or advance.
func (c *Counter) Each(f func(place int, sum int64)) {
	for i := range c.table.Len() {
		if sum := c.table.At(i).sum; sum > 0 {
			f(i, sum)
		}
	}
}

// At is the sum of the key at a place.
func (c *Counter) At(place int) int64 { return c.table.At(place).sum }

// Key copies the key at a place, and Hash gives its hash.
func (c *Counter) Key(place int) string  { return c.table.Key(place) }
func (c *Counter) Hash(place int) uint64 { return c.table.Hash(place) }

// Stats tells what the Counter holds and has done.
type Stats struct {
	Keys    int    // held: those of the window and of the future
	Bytes   int    // of memory
	Error   int64  // see Counter.Error
	Evicted uint64 // counters given up to make room, since New
}

func (c *Counter) Stats() Stats {
	st := Stats{Keys: c.table.Len() - c.idle, Bytes: c.table.Bytes() + 4*cap(c.scratch) + cap(c.filter.cells),
		Error: c.Error(), Evicted: c.given}
	for i := range c.slots {
		st.Bytes += cap(c.slots[i].pairs) * pairSize
	}
	return st
}
