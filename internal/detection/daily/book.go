package daily

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Bounds of a book and of its summary.
const (
	keepKeys = 50   // busiest keys of a summary
	keepHot  = 50   // hot keys of a summary
	maxHot   = 4096 // hot keys whose time is taken
	// gap is the longest time between two looks that counts as hot: a process
	// that slept does not know.
	gap = 5 * time.Second
)

// Book is one day so far. Build it with New; any goroutine may use it.
type Book struct {
	source string
	zone   *time.Location

	mu       sync.Mutex // guards the fields below
	from     time.Time
	requests int64
	busy     busy
	heat     heat
	loops    heat
	looked   time.Time
	tally    decisions
	extended bool // some of it was read back after a restart
}

// New begins a day at now. Zone is whose calendar names the day.
func New(source string, zone *time.Location, now time.Time) *Book {
	return &Book{source: source, zone: zone, from: now, busy: newBusy(), heat: heat{}, loops: heat{}}
}

// Add takes counts. Keys are copied.
func (b *Book) Add(counts []hottype.Count) {
	var sum int64
	for i := range counts {
		sum += counts[i].N
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests += sum
	b.busy.add(counts)
}

// Look takes what is hot, and what loops, at now. Call it about once a second.
func (b *Book) Look(now time.Time, hot, loops []hottype.Hot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	passed := now.Sub(b.looked)
	if b.looked.IsZero() || passed < 0 || passed > gap {
		passed = 0
	}
	b.looked = now
	b.heat.look(hot, passed)
	b.loops.look(loops, passed)
}

// Decided takes the limiters' reports.
func (b *Book) Decided(reports []hottype.Report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tally.take(reports)
}

// Summary is the day so far.
func (b *Book) Summary(now time.Time) hottype.Summary {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.summary(now)
}

func (b *Book) summary(now time.Time) hottype.Summary {
	s := hottype.Summary{
		Day: b.from.In(b.zone).Format(time.DateOnly), Source: b.source, From: b.from.UTC(), Until: now.UTC(), Open: true,
		Requests: b.requests, Keys: b.busy.first(keepKeys), Estimated: b.busy.estimated || b.extended,
		Loops: b.loops.first(keepHot), Hot: b.heat.first(keepHot), HotMore: max(0, len(b.heat)-keepHot),
		Allowed: b.tally.allowed, Denied: b.tally.denied,
	}
	return s
}

// Turn ends the day, if the calendar has another date than when it began, and
// begins the next. The summary is the one of the day that is asked for or over.
func (b *Book) Turn(now time.Time) hottype.Summary {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.summary(now)
	if s.Day == now.In(b.zone).Format(time.DateOnly) {
		return s
	}
	s.Open = false
	b.from, b.requests, b.extended = now, 0, false
	b.busy = newBusy()
	b.heat, b.loops = b.heat.still(), b.loops.still()
	b.tally.allowed, b.tally.denied = 0, hottype.Denials{}
	return s
}

// Resume goes on with what was saved of the same day before a restart. It
// reports false, and does nothing, for another day. Call it once.
func (b *Book) Resume(s hottype.Summary) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.Day != b.from.In(b.zone).Format(time.DateOnly) || s.Source != b.source {
		return false
	}
	b.from, b.requests, b.extended = s.From, b.requests+s.Requests, true
	for _, k := range s.Keys {
		b.busy.counts[k.Key] += k.Requests
	}
	b.heat.resume(s.Hot)
	b.loops.resume(s.Loops)
	b.tally.allowed += s.Allowed
	b.tally.denied = plus(b.tally.denied, s.Denied)
	return true
}

// heat is for how long keys were hot.
type heat map[hottype.Key]*heatOf

type heatOf struct {
	total hottype.HotTotal
	on    bool // was hot at the last look
	seen  bool // scratch of look
}

func (h heat) look(hot []hottype.Hot, passed time.Duration) {
	for i := range hot {
		k := &hot[i]
		e := h[k.Key]
		if e == nil {
			if len(h) >= maxHot {
				continue
			}
			e = &heatOf{total: hottype.HotTotal{Key: k.Key}}
			h[k.Key] = e
		}
		e.seen = true
		e.total.Rule, e.total.Peak = k.Rule, max(e.total.Peak, k.Rate, k.Peak)
		if e.on {
			e.total.Seconds += passed.Seconds()
		} else {
			e.total.Times++
		}
	}
	for _, e := range h {
		e.on, e.seen = e.seen, false
	}
}

// still keeps what is hot for the next day, from zero.
func (h heat) still() heat {
	next := heat{}
	for key, e := range h {
		if e.on {
			next[key] = &heatOf{total: hottype.HotTotal{Key: key, Rule: e.total.Rule, Times: 1}, on: true}
		}
	}
	return next
}

func (h heat) resume(list []hottype.HotTotal) {
	for _, t := range list {
		if e := h[t.Key]; e != nil {
			e.total.Seconds += t.Seconds
			e.total.Times += t.Times
			e.total.Peak = max(e.total.Peak, t.Peak)
			continue
		}
		h[t.Key] = &heatOf{total: t}
	}
}

func (h heat) first(n int) []hottype.HotTotal {
	out := make([]hottype.HotTotal, 0, len(h))
	for _, e := range h {
		out = append(out, e.total)
	}
	slices.SortFunc(out, func(a, b hottype.HotTotal) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(b.Peak, a.Peak), cmp.Compare(a.Key, b.Key))
	})
	return out[:min(n, len(out))]
}
