package tally

import (
	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/clientsketch"
)

// sudden is how many requests of one key in one flush make it worth looking at
// before the ranks say so: whoever comes this fast is heavy at once.
const sudden = 16

// source is who made requests that are added: a client, or a crowd that
// somebody else has summed, or nobody knows.
type source struct {
	client hottype.Client
	crowd  *hottype.Crowd
}

// see notes who made the n requests that at has just counted. It needs the
// shard's lock. For most keys it is one look into a small table.
func (t *Tally) see(sh *shard, at *slot, n int64, from source) {
	if from.crowd == nil && (from.client.IsZero() || !t.watches(at)) || t.room.maxCrowds == 0 {
		return
	}
	if at.crowd == 0 && !t.room.takeCrowd() {
		sh.unseen += uint64(n)
		return
	}
	c := sh.cur.crowds.of(at)
	if from.crowd != nil {
		clientsketch.Merge(c, from.crowd)
		return
	}
	clientsketch.Add(c, from.client, n)
}

// watches reports whether it matters who asks for a key.
func (t *Tally) watches(at *slot) bool {
	return at.crowd != 0 || at.n >= sudden || t.followed.Load().has(at.hash)
}

// crowds are the crowds of one table. Their memory is used again by the next
// flush, and halved when a flush used little of it.
type crowds struct {
	all  []hottype.Crowd
	lent int // all[:lent] are in use
}

// of gives the crowd of a slot; one that has none yet gets an empty one.
func (cs *crowds) of(s *slot) *hottype.Crowd {
	if s.crowd == 0 {
		if cs.lent == len(cs.all) {
			cs.all = append(cs.all, hottype.Crowd{})
		}
		cs.lent++
		s.crowd = int32(cs.lent)
	}
	return &cs.all[s.crowd-1]
}

func (cs *crowds) reset() {
	for i := range cs.all[:cs.lent] {
		clientsketch.Reset(&cs.all[i])
	}
	if len(cs.all) > 8 && cs.lent*8 < len(cs.all) {
		cs.all = append([]hottype.Crowd(nil), cs.all[:len(cs.all)/2]...)
	}
	cs.lent = 0
}

// sent are crowds as they leave, by place.
type sent []hottype.Crowd

// send copies what is in use. The parts of all crowds lie in two slices, as
// long as they have to be: receivers may keep them.
func (cs *crowds) send() sent {
	used := cs.all[:cs.lent]
	marks, heavy := 0, 0
	for i := range used {
		marks, heavy = marks+len(used[i].Marks), heavy+len(used[i].Heavy)
	}
	allMarks, allHeavy := make([]uint32, 0, marks), make([]hottype.ClientCount, 0, heavy)
	out := make(sent, len(used))
	for i := range used {
		m, h := len(allMarks), len(allHeavy)
		allMarks, allHeavy = append(allMarks, used[i].Marks...), append(allHeavy, used[i].Heavy...)
		out[i] = hottype.Crowd{
			Seen:  used[i].Seen,
			Marks: allMarks[m:len(allMarks):len(allMarks)],
			Heavy: allHeavy[h:len(allHeavy):len(allHeavy)],
		}
	}
	return out
}

// of gives the crowd of a slot, nil where nobody looked or nothing was seen.
func (cs sent) of(s *slot) *hottype.Crowd {
	if s.crowd == 0 || cs[s.crowd-1].Seen == 0 {
		return nil
	}
	return &cs[s.crowd-1]
}
