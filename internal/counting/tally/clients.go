package tally

import (
	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/clientsketch"
)

// burst is the number of requests of one key in one flush from which its clients are recorded before its score is high
// enough, because a key this fast is heavy at once.
const burst = 16

// attribution is the client of added requests, or the client sketch of another process, or unknown. origin is the
// origin of most of them.
type attribution struct {
	client   hottype.Client
	sketch   *hottype.ClientSketch
	origin   hottype.Origin
	requests int64
}

// addClient records the client of the n requests that at has just counted. The caller holds the shard's lock. For most
// keys it is one look-up in a small table.
func (t *Tally) addClient(sh *shard, at *slot, n int64, from *attribution) {
	at.addVotes(from.origin)
	if from.sketch == nil && (from.client.IsZero() || !t.isTracked(at)) || t.budget.maxSketches == 0 {
		return
	}
	if at.sketch == 0 && !t.budget.takeSketch(t.tracked.Load().has(at.hash)) {
		sh.unseen += uint64(n)
		return
	}
	c := sh.cur.sketches.findOrAdd(at)
	if from.sketch != nil {
		clientsketch.Merge(c, from.sketch)
		return
	}
	clientsketch.Add(c, from.client, n)
}

// isTracked reports whether the clients of a key are recorded.
func (t *Tally) isTracked(at *slot) bool {
	return at.sketch != 0 || at.requests >= burst || t.tracked.Load().has(at.hash)
}

// sketches holds the client sketches of one table. Their memory is used again by the next flush, and halved when a
// flush used little of it.
type sketches struct {
	all  []hottype.ClientSketch
	used int // all[:used] are in use
}

// findOrAdd returns the client sketch of a slot, which it creates if needed.
func (cs *sketches) findOrAdd(s *slot) *hottype.ClientSketch {
	if s.sketch == 0 {
		if cs.used == len(cs.all) {
			cs.all = append(cs.all, hottype.ClientSketch{})
		}
		cs.used++
		s.sketch = int32(cs.used)
	}
	return &cs.all[s.sketch-1]
}

func (cs *sketches) reset() {
	for i := range cs.all[:cs.used] {
		clientsketch.Reset(&cs.all[i])
	}
	if len(cs.all) > 8 && cs.used*8 < len(cs.all) {
		cs.all = append([]hottype.ClientSketch(nil), cs.all[:len(cs.all)/2]...)
	}
	cs.used = 0
}

// sentSketches holds the client sketches to be sent, by place.
type sentSketches []hottype.ClientSketch

// copyUsed copies the sketches in use. The parts of all client sketches share two slices of exactly their length,
// because receivers may keep them.
func (cs *sketches) copyUsed() sentSketches {
	used := cs.all[:cs.used]
	marks, heavy := 0, 0
	for i := range used {
		marks, heavy = marks+len(used[i].Sample), heavy+len(used[i].Heavy)
	}
	allMarks, allHeavy := make([]uint32, 0, marks), make([]hottype.ClientCount, 0, heavy)
	out := make(sentSketches, len(used))
	for i := range used {
		m, h := len(allMarks), len(allHeavy)
		allMarks, allHeavy = append(allMarks, used[i].Sample...), append(allHeavy, used[i].Heavy...)
		out[i] = hottype.ClientSketch{
			Attributed: used[i].Attributed,
			Sample:     allMarks[m:len(allMarks):len(allMarks)],
			Heavy:      allHeavy[h:len(allHeavy):len(allHeavy)],
		}
	}
	return out
}

// sketchOf returns the client sketch of a slot, or nil if it is not tracked or without requests.
func (cs sentSketches) sketchOf(s *slot) *hottype.ClientSketch {
	if s.sketch == 0 || cs[s.sketch-1].Attributed == 0 {
		return nil
	}
	return &cs[s.sketch-1]
}
