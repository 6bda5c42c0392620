package window

import (
	"math"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/heavyhitters"
)

const (
	// maxSum is the maximum sum of a window. A count beyond it is rejected, so that no sum overflows.
	maxSum  = 1 << 45
	maxSpan = 1 << 16 // of Window and of Future, in seconds
)

// DefaultCounters is the number of counters if Config.Counters is 0.
const DefaultCounters = 131_072

// MaxCounters is the maximum number of counters.
const MaxCounters = 1 << 23

// keyBytes is the average number of bytes that the key of a counter may have.
const keyBytes = 64

// Config bounds a Counter. All times are whole seconds.
type Config struct {
	// Window is the number of seconds of a sum, ending with the current second. At least 1.
	Window int64
	// Lateness is how many seconds behind the current second a count may be, at most Window, because older counts are
	// in no sum any more. A count of Window seconds ago is only in the sum before the last turn.
	Lateness int64
	// Future is how many seconds ahead of the current second a count may be. It is in the sum when its second begins.
	Future int64
	// Counters is the maximum number of counters, which all seconds share: a key takes one for each second in which it
	// is counted. 0 means 131,072; at most MaxCounters. Memory is taken as needed, at most about 200 bytes a counter.
	Counters int
}

// clampFields puts every field into its domain.
func (c Config) clampFields() Config {
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
	unused  []int32 // free watches
	crossed []int   // places of keys that the last turn lifted to the limit
	scratch []int32 // by place, for folding and moving

	given uint64

	overCapacity bool // all counters were taken, and seconds like the last one need more
	pairsCreated int  // pairs made in the current second, with those given up
	filter       coldFilter
}

type sums struct {
	sum int64 // over the window
	cur int64 // in the current second; its pair has no n of its own
	// left is the count of the key in the second that left the window last, and leftAt holds the low bits of the second
	// in which it left, so that no turn has to visit the key to clear it.
	left   int64
	leftAt uint32
	// pairs is the number of pairs of the key in all slots.
	pairs int32
	watch int32 // number of its watch plus one, or 0 without a watch
}

// New returns a Counter whose current second is now. Fields of cfg outside their domain are taken as the nearest value
// in it.
func New(cfg Config, now int64) *Counter {
	cfg = cfg.clampFields()
	c := &Counter{cfg: cfg, clock: newClock(cfg, now), limit: math.MaxInt64}
	c.slots = make([]slot, c.clock.size)
	keys := cfg.Counters + cfg.Counters/4 + 16 // so that when it is full a fifth is idle
	c.table = heavyhitters.NewTable[sums](keys, max(cfg.Counters*keyBytes, 1<<18))
	return c
}

// Status is the outcome of a count.
type Status uint8

// The statuses of a count.
const (
	OK     Status = iota
	Late          // older than the window or than Lateness
	Future        // further ahead than Config.Future
	Full          // a key too long for the memory that there is
	Bad           // not positive, or too large to be summed
)

// Added is the result of an Add.
type Added struct {
	Status Status
	// Crossed is true if this count lifted the key's sum to Limit while the key has no watch, or to the threshold of
	// its watch.
	Crossed bool
	// Place is the place of the key until the next Add or Advance, or -1 if the key is too light to be held.
	Place int
	// Sum is the lower bound of the key's count over the window ending with the current second, after the Add. For a
	// count that comes after its second, Before is the same for the window ending with the second before; else it is 0.
	Sum, Before int64
}

// Add adds n of a key in its second. The Counter keeps its own copy of a new key. The hash is of the key, by a function
// that no client can predict.
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
		if i = c.insertKey(hash, key); i < 0 {
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
			return c.lateResult(i, v)
		}
	default:
		if v.cur == 0 {
			c.addPair(c.clock.pos, i, v, 0)
			c.pairsCreated++
		}
		v.cur += n
		v.sum += n
	}
	return Added{Place: i, Sum: v.sum, Crossed: v.sum >= c.limit && c.crossesThreshold(v, v.sum)}
}

// addToSecond adds to a second other than the current one. It does not search for a pair that the key may have there;
// fold joins the pairs when room is needed or the second begins.
func (c *Counter) addToSecond(i int, v *sums, second, n int64) {
	s := c.clock.slotOf(second)
	c.slots[s].mixed = true
	c.addPair(s, i, v, n)
	if second < c.clock.now {
		v.sum += n
	}
}

func (c *Counter) addPair(slot int64, i int, v *sums, n int64) {
	s := &c.slots[slot]
	if v.pairs == 0 && v.watch == 0 {
		c.idle--
	}
	v.pairs++
	c.pairs++
	s.pairs = append(s.pairs, pair{n: n, err: s.offset, place: uint32(i)})
}

// crossesThreshold reports whether Add must report a sum at the limit or above.
func (c *Counter) crossesThreshold(v *sums, sum int64) bool {
	return v.watch == 0 || sum >= c.watches[v.watch-1].threshold
}

// insertKey adds a new key to the table, and returns its place, or -1 if the key is too long.
func (c *Counter) insertKey(hash uint64, key string) int {
	if len(key) > c.cfg.Counters*keyBytes/4 && len(key) > 1<<16 {
		return -1
	}
	for {
		if i := c.table.Insert(hash, key); i >= 0 {
			c.idle++ // until it has its pair
			return i
		}
		if 5*c.idle < c.table.Len() { // full of names
			c.purgeSlot(c.fullestSlot())
		}
		c.compactTable()
	}
}

// Warm fetches the memory that Add will need for some hashes; see [heavyhitters.Table.Warm].
func (c *Counter) Warm(hashes []uint64) (sum uint64) {
	if cells := c.filter.cells; len(cells) > 0 {
		for _, hash := range hashes {
			sum += uint64(cells[heavyhitters.Bucket(hash, len(cells))])
		}
	}
	return sum + c.table.Warm(hashes)
}

// SetLimit sets the sum at which Add reports keys that are not watched, and Limit returns it.
func (c *Counter) SetLimit(sum int64) { c.limit = sum }
func (c *Counter) Limit() int64       { return c.limit }

// Sum returns the lower and the upper bound of a key's count in the window.
func (c *Counter) Sum(hash uint64, key string) (lower, upper int64) {
	e := c.Error()
	if i := c.table.Find(hash, key); i >= 0 {
		lower = c.table.At(i).sum
	}
	return lower, lower + e
}

// Error returns the maximum by which the sum of a key can be too low. It is the total, over the seconds of the window,
// of the largest count that was given up of one key, and 0 if all sums are exact.
func (c *Counter) Error() (e int64) {
	for s := c.clock.oldestSecond(); s <= c.clock.now; s++ {
		e += c.slots[c.clock.slotOf(s)].maxMissed()
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

// At returns the sum of the key at a place.
func (c *Counter) At(place int) int64 { return c.table.At(place).sum }

// Key returns a copy of the key at a place, and Hash returns its hash.
func (c *Counter) Key(place int) string  { return c.table.Key(place) }
func (c *Counter) Hash(place int) uint64 { return c.table.Hash(place) }

// Stats describes the state of a Counter and counts its evictions.
type Stats struct {
	Keys    int    // held in the window and in the future
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
