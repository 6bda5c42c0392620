package replay

import (
	"cmp"
	"slices"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/clientsketch"
	"github.com/hotparam/pipeline/internal/detection/detect"
)

// totals holds the numbers of each key or each client, for at most limit of them. Names are entered in the order of
// arrival and identified by an id.
type totals[K comparable] struct {
	ids     map[K]uint32
	names   []K
	rows    []row
	limit   int
	dropped int64 // requests by names beyond limit
	now     []uint32
	window  *trailing
}

// row holds the numbers of one name. peak is of single seconds, wide of the trailing window; peakAt and wideAt are the
// first seconds at which they were reached.
type row struct {
	requests, denied int64
	current          uint32 // requests in the current second
	peak, wide       uint32
	peakAt, wideAt   int64
}

// newTotals returns totals whose trailing window is width seconds wide.
func newTotals[K comparable](limit, width int) *totals[K] {
	return &totals[K]{ids: make(map[K]uint32), limit: limit, window: &trailing{slots: make([][]amount, width)}}
}

// findOrAdd returns the id of a name. It may keep the name, so that the name must own its memory. It returns false if
// there are too many names.
func (t *totals[K]) findOrAdd(name K) (uint32, bool) {
	if id, ok := t.ids[name]; ok {
		return id, true
	}
	if len(t.names) >= t.limit {
		return 0, false
	}
	id := uint32(len(t.names))
	t.ids[name] = id
	t.names = append(t.names, name)
	t.rows = append(t.rows, row{})
	return id, true
}

func (t *totals[K]) count(id uint32) {
	r := &t.rows[id]
	if r.current == 0 {
		t.now = append(t.now, id)
	}
	r.current++
	r.requests++
}

// closeSecond ends second s, which must be later than all seconds before.
func (t *totals[K]) closeSecond(s int64) {
	t.window.advance(s)
	for _, id := range t.now {
		r := &t.rows[id]
		if r.current > r.peak {
			r.peak, r.peakAt = r.current, s
		}
		if sum := t.window.add(id, r.current); sum > r.wide {
			r.wide, r.wideAt = sum, s
		}
		r.current = 0
	}
	t.now = t.now[:0]
}

// topIDs returns the n ids with the greatest measure; ties are in the order of their texts.
func (t *totals[K]) topIDs(n int, measure func(*row) int64, texts []string) []uint32 {
	ids := make([]uint32, len(t.names))
	for i := range ids {
		ids[i] = uint32(i)
	}
	slices.SortFunc(ids, func(x, y uint32) int {
		return cmp.Or(cmp.Compare(measure(&t.rows[y]), measure(&t.rows[x])), cmp.Compare(texts[x], texts[y]))
	})
	return ids[:min(n, len(ids))]
}

func byRequests(r *row) int64 { return r.requests }
func byPeak(r *row) int64     { return int64(r.peak) }
func byWide(r *row) int64     { return int64(r.wide) }

// trailing holds, for each id, how often it occurred in the last width seconds. It is exact, and its memory is
// proportional to the occurrences in that time: an id without occurrences takes four bytes.
type trailing struct {
	slots  [][]amount // slot s%width holds second s
	sums   []uint32   // by id
	newest int64      // seconds are greater than 0
}

type amount struct{ id, n uint32 }

// advance makes second s the newest and expires the slots that are width older.
func (t *trailing) advance(s int64) {
	width := int64(len(t.slots))
	for i := max(t.newest+1, s-width+1); i <= s; i++ {
		slot := &t.slots[i%width]
		for _, a := range *slot {
			t.sums[a.id] -= a.n
		}
		*slot = (*slot)[:0]
	}
	t.newest = s
}

// add counts n for id in the newest second and returns the sum of id. An id is added at most once in a second.
func (t *trailing) add(id, n uint32) uint32 {
	for int(id) >= len(t.sums) {
		t.sums = append(t.sums, 0)
	}
	slot := &t.slots[t.newest%int64(len(t.slots))]
	*slot = append(*slot, amount{id, n})
	t.sums[id] += n
	return t.sums[id]
}

// maxEntries bounds the spans, and the pairs of second and key.
const maxEntries = 1_000_000

// spans turns the changes of a detector into the times during which keys were hot, or were loops.
type spans struct {
	begins, ends detect.Kind
	open         map[hottype.Key]*openSpan
	closed       []Span
	dropped      int64
}

// openSpan is a span whose end is not known yet, with its clients since it began.
type openSpan struct {
	Span
	who hottype.ClientSketch
}

func newSpans(begins, ends detect.Kind) spans {
	return spans{begins: begins, ends: ends, open: make(map[hottype.Key]*openSpan)}
}

func (s *spans) applyChange(c detect.Change) {
	switch c.Kind {
	case s.begins:
		s.open[c.Hot.Key] = &openSpan{Span: Span{
			Key: c.Hot.Key, Rule: c.Hot.Rule, From: c.At.Unix(),
			Clients: c.Hot.Clients, Client: c.Hot.HeaviestClient, ClientShare: c.Hot.ClientShare,
		}}
	case s.ends:
		if span, ok := s.open[c.Hot.Key]; ok {
			span.Until, span.PeakRate = c.At.Unix(), c.Hot.PeakRate
			delete(s.open, c.Hot.Key)
			s.closeSpan(span)
		}
	}
}

// addClient records the client of a request for a key whose span is open.
func (s *spans) addClient(key hottype.Key, client *hottype.ClientSketch) {
	if len(s.open) == 0 {
		return
	}
	if span := s.open[key]; span != nil {
		clientsketch.Merge(&span.who, client)
	}
}

// closeSpan adds a span to closed. Its clients are the clients of the window in which it began, or the clients since
// then if they are more.
func (s *spans) closeSpan(open *openSpan) {
	span := open.Span
	if n := clientsketch.Clients(&open.who); n > span.Clients {
		client, share := clientsketch.Heaviest(&open.who)
		span.Clients, span.Client, span.ClientShare = n, client.String(), share
	}
	if len(s.closed) >= maxEntries {
		s.dropped++
		return
	}
	s.closed = append(s.closed, span)
}

// closeAll closes the open spans at a second and returns all spans in order.
func (s *spans) closeAll(end int64) []Span {
	for _, span := range s.open {
		span.Until = end
		s.closeSpan(span)
	}
	clear(s.open)
	slices.SortStableFunc(s.closed, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Key, b.Key))
	})
	return s.closed
}

// hotSeconds holds the keys over their threshold, second by second.
type hotSeconds struct {
	bySecond map[int64][]hottype.Key
	entries  int
	dropped  int64
}

// add records the keys of one second, which are sorted.
func (h *hotSeconds) add(second int64, over []hottype.Key) {
	fit := min(len(over), maxEntries-h.entries)
	h.dropped += int64(len(over) - fit)
	if fit > 0 {
		h.entries += fit
		h.bySecond[second] = over[:fit]
	}
}
