package window

import (
	"hash/maphash"
	"strings"

	"github.com/hotparam/pipeline/hotparam"
)

// MaxCount is the greatest count of one Add, and maxSum the greatest sum of a
// slot or a window: beyond them a count is refused, so that no sum overflows,
// also not when maxSpan future slots enter the window at once.
const (
	MaxCount = 1 << 40
	maxSum   = 1 << 45
	maxSpan  = 1 << 16 // of Window and of Future, in seconds
)

// slotsPerKey sets how many keys may have a ring: all of them up to a window
// (with its future) of so many seconds, fewer for longer windows, so that
// MaxKeys bounds the memory of any window.
const slotsPerKey = 64

// Config bounds a Counter. All times are whole seconds.
type Config struct {
	// Window is how many seconds a sum is over, ending with the current one.
	// At least 1.
	Window int64
	// Lateness is how many seconds behind the current one a count may be. It
	// has no effect beyond Window-1: what is older is in no sum any more.
	Lateness int64
	// Future is how many seconds ahead of the current one a count may be. It
	// is kept, and is in the sum when its second comes.
	Future int64
	// MaxKeys caps the distinct keys. At least 1.
	MaxKeys int
}

// clean puts every field into its domain.
func (c Config) clean() Config {
	c.Window = min(max(c.Window, 1), maxSpan)
	c.Lateness = min(max(c.Lateness, 0), c.Window-1)
	c.Future = min(max(c.Future, 0), maxSpan)
	c.MaxKeys = max(c.MaxKeys, 1)
	return c
}

// Counter holds the counts of one window. Not for concurrent use.
type Counter struct {
	cfg    Config
	clock  clock
	seed   maphash.Seed // own, so that nobody can aim at a shard
	shards []shard
	mask   uint64 // len(shards)-1, a power of two less one
	keys   int
	spare  int // rings that may still be given out

	next int // the shard to sweep next
	due  int // shards to sweep before the second turns again
}

// New builds a Counter whose current second is now. Fields of cfg outside
// their domain are taken as the nearest value in it.
func New(cfg Config, now int64) *Counter {
	cfg = cfg.clean()
	c := &Counter{cfg: cfg, seed: maphash.MakeSeed()}
	c.clock = newClock(cfg, now)
	c.shards = make([]shard, shardsFor(cfg.MaxKeys))
	c.mask = uint64(len(c.shards) - 1)
	c.spare = int(min(int64(cfg.MaxKeys), max(1, int64(cfg.MaxKeys)*slotsPerKey/c.clock.size)))
	return c
}

// Status says what became of a count.
type Status uint8

// The statuses of a count.
const (
	OK     Status = iota
	Late          // older than the window or than Lateness
	Future        // further ahead than Config.Future
	Full          // a new key beyond MaxKeys, or no ring left for a key that needs one
	Bad           // not positive, or beyond what can be summed
)

// Added answers an Add.
type Added struct {
	Status Status
	// First is true where the key had nothing yet in that second.
	First bool
	// Sum is the key's count over the window ending with the current second,
	// after the Add. Meaningful only when Status is OK.
	Sum int64
}

// Add places n of key in its second. The Counter keeps its own copy of a new
// key: senders cut keys from the buffer of a whole flush, and one long-lived
// key must not hold all of that in memory.
func (c *Counter) Add(key hotparam.Key, second, n int64) Added {
	if c.due > 0 {
		c.sweep(1)
	}
	ahead := second - c.clock.now
	switch {
	case n <= 0 || n > MaxCount:
		return Added{Status: Bad}
	case ahead < -c.cfg.Lateness:
		return Added{Status: Late}
	case ahead > c.cfg.Future:
		return Added{Status: Future}
	}
	h := maphash.String(c.seed, string(key))
	s := &c.shards[h&c.mask]
	i := s.find(uint32(h>>32), key)
	if i < 0 {
		if c.keys >= c.cfg.MaxKeys || len(s.keys) >= maxShard {
			return Added{Status: Full}
		}
		c.keys++
		s.insert(entry{key: own(key), hash: uint32(h >> 32), ring: -1, at: second, n: n, sum: n})
		return Added{First: true, Sum: c.clock.single(second, n)}
	}
	return c.addTo(s, &s.keys[i], second, n)
}

// addTo adds to a key that is held. Most adds are for the current second and
// for a key that has been rolled to it: they touch nothing but the entry.
func (c *Counter) addTo(s *shard, e *entry, second, n int64) Added {
	if e.at == second && second == c.clock.now && e.sum+n <= maxSum {
		first := e.n == 0
		e.n += n
		e.sum += n
		return Added{First: first, Sum: e.sum}
	}
	if e.ring < 0 {
		if added, done := s.addSingle(e, &c.clock, second, n); done {
			return added
		}
		if c.spare == 0 {
			return Added{Status: Full}
		}
		c.spare--
		s.spread(e, &c.clock)
	}
	return s.addRing(e, &c.clock, second, n)
}

// Sum is the count of key over the window ending with the current second.
func (c *Counter) Sum(key hotparam.Key) int64 {
	h := maphash.String(c.seed, string(key))
	s := &c.shards[h&c.mask]
	i := s.find(uint32(h>>32), key)
	if i < 0 {
		return 0
	}
	return s.sum(&s.keys[i], &c.clock)
}

// Each calls f with every key held and its sum, in no order. f must not call
// the Counter.
func (c *Counter) Each(f func(key hotparam.Key, sum int64)) {
	for i := range c.shards {
		s := &c.shards[i]
		for j := range s.keys {
			f(s.keys[j].key, s.sum(&s.keys[j], &c.clock))
		}
	}
}

// Len is how many keys are held: those of the window and of the future, and
// those idle for less than half a window more.
func (c *Counter) Len() int { return c.keys }

// Advance makes second the current one. An earlier second than the current one
// changes nothing: time stands still until it is reached again.
func (c *Counter) Advance(second int64) {
	passed := second - c.clock.now
	if passed <= 0 {
		return
	}
	c.sweep(c.due) // what the Adds of the past second left over
	c.clock.advance(second)
	shards, period := int64(len(c.shards)), max(c.cfg.Window/2, 1)
	c.due = int(min(shards, (shards*min(passed, period)+period-1)/period))
}

// sweep frees the idle keys of the next n shards.
func (c *Counter) sweep(n int) {
	for range n {
		s := &c.shards[c.next]
		keys, rings := s.sweep(&c.clock)
		c.keys -= keys
		c.spare += rings
		c.next = (c.next + 1) & int(c.mask)
	}
	c.due -= n
}

func own(key hotparam.Key) hotparam.Key { return hotparam.Key(strings.Clone(string(key))) }
