package replay

import (
	"cmp"
	"slices"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/clientsketch"
	"github.com/hotparam/pipeline/internal/detection/detect"
)

// maxEntries bounds the spans, and the pairs of second and key.
const maxEntries = 1_000_000

// spans turns the changes of a detector into times during which keys were hot, or
// loops.
type spans struct {
	begins, ends detect.Kind
	open         map[hottype.Key]*openSpan
	closed       []Span
	dropped      int64
}

// openSpan is a span whose end is not known yet, and its clients since it began.
type openSpan struct {
	Span
	who hottype.ClientSketch
}

func newSpans(begins, ends detect.Kind) spans {
	return spans{begins: begins, ends: ends, open: make(map[hottype.Key]*openSpan)}
}

func (s *spans) change(c detect.Change) {
	switch c.Kind {
	case s.begins:
		s.open[c.Hot.Key] = &openSpan{Span: Span{
			Key: c.Hot.Key, Rule: c.Hot.Rule, From: c.At.Unix(),
			Clients: c.Hot.Clients, Client: c.Hot.Client, ClientShare: c.Hot.ClientShare,
		}}
	case s.ends:
		if span, ok := s.open[c.Hot.Key]; ok {
			span.Until, span.PeakRate = c.At.Unix(), c.Hot.Peak
			delete(s.open, c.Hot.Key)
			s.close(span)
		}
	}
}

// asked records the client of a request for a key whose span is open.
func (s *spans) asked(key hottype.Key, client *hottype.ClientSketch) {
	if len(s.open) == 0 {
		return
	}
	if span := s.open[key]; span != nil {
		clientsketch.Merge(&span.who, client)
	}
}

// close keeps a span. Its clients are those of the window in which it began, or
// those since then if they are more.
func (s *spans) close(open *openSpan) {
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

// all closes the open spans at a second and returns all spans in order.
func (s *spans) all(end int64) []Span {
	for _, span := range s.open {
		span.Until = end
		s.close(span)
	}
	clear(s.open)
	slices.SortStableFunc(s.closed, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Key, b.Key))
	})
	return s.closed
}

// hotSeconds keeps the keys over their threshold, second by second, as indexes
// of names, which take a quarter of the memory of strings.
type hotSeconds struct {
	numbers map[hottype.Key]uint32
	names   []hottype.Key
	seconds []int64
	ends    []int    // of seconds[i] in keys
	keys    []uint32 // numbers
	dropped int64
}

// add records the keys of one second, which are sorted.
func (h *hotSeconds) add(second int64, over []hottype.Key) {
	fit := min(len(over), maxEntries-len(h.keys))
	h.dropped += int64(len(over) - fit)
	if fit == 0 {
		return
	}
	for _, k := range over[:fit] {
		h.keys = append(h.keys, h.number(k))
	}
	h.seconds, h.ends = append(h.seconds, second), append(h.ends, len(h.keys))
}

func (h *hotSeconds) number(k hottype.Key) uint32 {
	n, ok := h.numbers[k]
	if !ok {
		n = uint32(len(h.names))
		h.names = append(h.names, k)
		h.numbers[k] = n
	}
	return n
}

// byTime returns the keys of each second.
func (h *hotSeconds) byTime() map[int64][]hottype.Key {
	m := make(map[int64][]hottype.Key, len(h.seconds))
	from := 0
	for i, s := range h.seconds {
		keys := make([]hottype.Key, 0, h.ends[i]-from)
		for _, n := range h.keys[from:h.ends[i]] {
			keys = append(keys, h.names[n])
		}
		m[s], from = keys, h.ends[i]
	}
	return m
}
