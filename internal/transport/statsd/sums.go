package statsd

import (
	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/clientsketch"
)

// sums sums up the counts of one second by metric name. It remembers names between flushes, so that a name is decoded
// once and not with every line.
//
// Sample rates make fractions: 1|c|@0.3 stands for 3.33 requests. The whole part is handed over, the fraction stays
// with its name for the next time, and when names are forgotten it is rounded to the nearest. So the total of a key is
// never off by more than one.
//
// Members of sets identify the clients of a name's counts. They follow their count, and belong to its second. Otherwise
// the clients of a count that was sent late would be missing in this second, where one client would seem to have sent
// all. Members without a count are handed over with the name's next count.
//
// A sums is not safe for concurrent use.
type sums struct {
	max     int              // maximum number of names, and of pairs of a name and a time
	most    int              // maximum of bytes
	bytes   int              // of names, entries and client sketches, roughly
	second  int64            // of all counts without a time of their own
	sender  uint32           // of the current lines; see package origins
	names   map[string]int32 // metric name -> entries
	entries []entry
	touched []int32              // the entries with new counts or members
	stamped map[stamp]stampedSum // counts that carried their own second
}

type stamp struct {
	entry  int32
	second int64
}

// stampedSum is a count with a second of its own, and its clients, or nil if they are unknown.
type stampedSum struct {
	sum     float64
	clients *hottype.ClientSketch
}

type entry struct {
	key     hottype.Key
	second  int64 // the second that the last count carried, or 0 without one
	sum     float64
	origin  hottype.Origin        // of the next count
	dirty   bool                  // is in touched
	waits   uint8                 // number of flushes that the client sketch has waited for a count
	clients *hottype.ClientSketch // of the next count, or nil if unknown
}

const (
	// epsilon is added because a sum of thirds lands just below the whole number that it stands for.
	epsilon = 1e-6
	// maxWaits is the number of flushes by which a set may precede its count; then the count is lost.
	maxWaits = 50
)

// The memory of a name and its clients besides the text, with the spare room of slices and maps.
const (
	nameBytes   = 192
	sketchBytes = 1024
)

func newSums(names, bytes int) *sums {
	return &sums{max: names, most: bytes, names: map[string]int32{}, stamped: map[stamp]stampedSum{}}
}

// findEntry returns the entry of a name, or -1 for a new name. It does not allocate.
func (s *sums) findEntry(name []byte) int32 {
	if i, ok := s.names[string(name)]; ok {
		return i
	}
	return -1
}

func (s *sums) addName(name []byte, key hottype.Key) int32 {
	i := int32(len(s.entries))
	s.entries = append(s.entries, entry{key: key})
	s.names[string(name)] = i
	s.bytes += nameBytes + len(name) + len(key)
	return i
}

// areNamesFull reports whether there is no room for another name, and areTimesFull whether there is no room for another
// time of a name.
func (s *sums) areNamesFull() bool { return len(s.entries) >= s.max || s.bytes >= s.most }
func (s *sums) areTimesFull() bool { return len(s.stamped) >= s.max }

// hasClientRoom reports whether there is room for the clients of a name.
func (s *sums) hasClientRoom(i int32) bool {
	return s.bytes < s.most || s.entries[i].clients != nil && !s.isLastStamped(i)
}

// isLastStamped reports whether the last count of a name carried its own second, and has not been taken yet.
func (s *sums) isLastStamped(i int32) bool {
	second := s.entries[i].second
	if second == 0 {
		return false
	}
	_, ok := s.stamped[stamp{i, second}]
	return ok
}

func (s *sums) isEmpty() bool { return len(s.touched) == 0 && len(s.stamped) == 0 }

func (s *sums) touchEntry(i int32) *entry {
	e := &s.entries[i]
	if !e.dirty {
		e.dirty = true
		s.touched = append(s.touched, i)
	}
	return e
}

func (s *sums) add(i int32, n float64) {
	e := s.touchEntry(i)
	e.second = 0
	e.sum = min(e.sum+n, maxSum)
	e.origin.Add(s.sender, int64(n+0.5))
}

// addAt adds to another second than the current one.
func (s *sums) addAt(i int32, second int64, n float64) {
	at := stamp{i, second}
	v := s.stamped[at]
	v.sum = min(v.sum+n, maxSum)
	s.stamped[at] = v
	s.entries[i].second = second
	s.entries[i].origin.Add(s.sender, int64(n+0.5))
}

const maxSum = hottype.MaxCount // a greater number is not a count

func (s *sums) addMember(i int32, m clientsketch.Member) {
	e := s.touchEntry(i)
	if at := (stamp{i, e.second}); s.isLastStamped(i) {
		v := s.stamped[at]
		if v.clients == nil {
			v.clients = s.newSketch()
			s.stamped[at] = v
		}
		m.AddTo(v.clients)
		return
	}
	if e.clients == nil {
		e.clients, e.waits = s.newSketch(), 0
	}
	m.AddTo(e.clients)
}

func (s *sums) newSketch() *hottype.ClientSketch {
	s.bytes += sketchBytes
	return new(hottype.ClientSketch)
}

// takeCounts returns the new counts, in a slice that the caller may keep.
func (s *sums) takeCounts() []hottype.Count {
	if s.isEmpty() {
		return nil
	}
	counts := make([]hottype.Count, 0, len(s.touched)+len(s.stamped))
	for at, v := range s.stamped {
		e := s.touchEntry(at.entry) // for the fraction
		n := int64(v.sum + epsilon)
		from := &v.clients
		if v.clients == nil && e.sum < 1-epsilon { // members that came before their count
			from = &e.clients
		}
		e.sum += v.sum - float64(n)
		clients := s.takeSketch(from)
		if n > 0 {
			counts = append(counts, hottype.Count{Key: e.key, N: n, Second: at.second, Clients: clients,
				Origin: e.originOf(n)})
		}
	}
	clear(s.stamped)
	waiting := s.touched[:0]
	for _, i := range s.touched {
		e := &s.entries[i]
		n := int64(e.sum + epsilon)
		switch {
		case n > 0:
			e.sum -= float64(n)
			counts = append(counts, hottype.Count{Key: e.key, N: n, Second: s.second, Clients: s.takeSketch(&e.clients),
				Origin: e.originOf(n)})
		case e.clients != nil && e.waits < maxWaits:
			e.waits++
			waiting = append(waiting, i)
			continue
		default:
			s.takeSketch(&e.clients)
		}
		e.dirty, e.origin = false, hottype.Origin{}
	}
	s.touched = waiting
	return counts
}

func (e *entry) originOf(n int64) hottype.Origin {
	return hottype.Origin{Tag: e.origin.Tag, N: min(e.origin.N, n)}
}

// removeNames removes all names and returns the fractions that round up to one. Call takeCounts before.
func (s *sums) removeNames() []hottype.Count {
	var counts []hottype.Count
	for i := range s.entries {
		if e := &s.entries[i]; e.sum >= 0.5 {
			counts = append(counts, hottype.Count{Key: e.key, N: 1, Second: s.second})
		}
	}
	s.names = map[string]int32{}
	s.entries, s.touched, s.bytes = nil, nil, 0
	return counts
}

// takeSketch returns a client sketch and removes it, or returns nil for an unsound one. Members may be lost or forged,
// so that the number of attributed requests is raised to at least the sum of the others.
func (s *sums) takeSketch(from **hottype.ClientSketch) *hottype.ClientSketch {
	c := *from
	if c == nil {
		return nil
	}
	*from = nil
	s.bytes -= sketchBytes
	if !clientsketch.Repair(c) {
		return nil
	}
	return c
}
