package tally

import (
	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/clientsketch"
)

// burst is how many requests of one key in one flush make it worth looking at
// before the ranks say so: a key this fast is heavy at once.
const burst = 16

// attribution is who made requests that are added: a client, or a client sketch that
// another process has summed, or unknown. Origin is where most of them come from.
type attribution struct {
	client hottype.Client
	sketch *hottype.ClientSketch
	origin hottype.Origin
}

// addClient notes who made the n requests that at has just counted. It needs the
// shard's lock. For most keys it is one look into a small table.
func (t *Tally) addClient(sh *shard, at *slot, n int64, from *attribution) {
	at.vote(from.origin)
	if from.sketch == nil && (from.client.IsZero() || !t.isTracked(at)) || t.budget.maxSketches == 0 {
		return
	}
	if at.sketch == 0 && !t.budget.takeSketch(t.tracked.Load().has(at.hash)) {
		sh.unseen += uint64(n)
		return
	}
	c := sh.cur.sketches.of(at)
	if from.sketch != nil {
		clientsketch.Merge(c, from.sketch)
		return
	}
	clientsketch.Add(c, from.client, n)
}

// isTracked reports whether the clients of a key are recorded.
func (t *Tally) isTracked(at *slot) bool {
	return at.sketch != 0 || at.n >= burst || t.tracked.Load().has(at.hash)
}

// sketches are the client sketches of one table. Their memory is used again by the next
// flush, and halved when a flush used little of it.
type sketches struct {
	all  []hottype.ClientSketch
	used int // all[:used] are in use
}

// of gives the client sketch of a slot; one that has none yet gets an empty one.
func (cs *sketches) of(s *slot) *hottype.ClientSketch {
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

// sentSketches are client sketches as they leave, by place.
type sentSketches []hottype.ClientSketch

// send copies what is in use. The parts of all client sketches share two slices of
// just their length: receivers may keep them.
func (cs *sketches) send() sentSketches {
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

// of gives the client sketch of a slot, nil if it is not tracked or saw nothing.
func (cs sentSketches) of(s *slot) *hottype.ClientSketch {
	if s.sketch == 0 || cs[s.sketch-1].Attributed == 0 {
		return nil
	}
	return &cs[s.sketch-1]
}
