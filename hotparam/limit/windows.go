package limit

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/limitcore"
)

// ClientWindows holds fixed and sliding windows of clients, compiled once. They are the same limits as charges of their
// Spaces, Specs and Name: each counts the charges of the other. For a client that has been charged before and is within
// its windows, as most clients are, Take costs a third of Memory.Take. Any number of goroutines may use it.
type ClientWindows struct {
	m    *Memory
	of   []clientWindow
	name subjectHash // of the Name of all subjects
}

type clientWindow struct {
	compiled limitcore.Compiled
	space    int
}

// MaxClientWindows is the maximum number of windows of a ClientWindows.
const MaxClientWindows = 2

// ClientWindows compiles the windows of charges, whose Client and Cost are ignored. It returns nil if Memory.Take has
// to be used: for other algorithms, blocks, invalid specs, no window or too many, several Names, and a Space twice or a
// Space without a table of its own.
func (m *Memory) ClientWindows(charges []Charge) *ClientWindows {
	if len(charges) == 0 || len(charges) > MaxClientWindows {
		return nil
	}
	name := charges[0].Subject.Name
	w := &ClientWindows{m: m, name: m.hashSubject(&Subject{Name: name})}
	for i := range charges {
		compiled, err := (*limitcore.Spec)(&charges[i].Spec).Compile()
		space := m.spaceIndex(charges[i].Subject.Space)
		if err != nil || compiled.Block > 0 || charges[i].Subject.Name != name ||
			space == maxSpaces-1 || i > 0 && space == w.of[0].space ||
			compiled.Kind != limitcore.KindFixed && compiled.Kind != limitcore.KindSliding {
			return nil
		}
		w.of = append(w.of, clientWindow{compiled, space})
	}
	return w
}

// Take charges a client to all windows, as Memory.Take does, and writes a result for each, if they know the client and
// all allow the cost. Otherwise it charges nothing, the results mean nothing, and the caller calls Memory.Take.
func (w *ClientWindows) Take(now time.Time, client *hottype.Client, cost int64, results []Result) bool {
	us, id := limitcore.Micros(now), w.m.hashClient(client).join(w.name)
	sh := &w.m.shards[id.hi%uint64(len(w.m.shards))]
	var entries [MaxClientWindows]*entry
	var before [MaxClientWindows]limitcore.State
	var slot int32
	allowed := 0
	sh.mu.Lock()
	for i := range w.of {
		c := &w.of[i]
		t := &sh.tables[c.space]
		if int(slot) >= len(t.entries) || t.entries[slot].id != id { // most clients have the same slot in both tables
			slot = t.find(id)
		}
		if slot < 0 || t.entries[slot].log != 0 {
			break
		}
		e := &t.entries[slot]
		entries[i], before[i] = e, e.state
		o := c.compiled.Charge(&e.state, nil, us, cost)
		if !o.Allowed {
			break
		}
		setResult(o, c.compiled.Capacity, &results[i])
		allowed++
	}
	for i, e := range entries[:allowed] {
		if allowed == len(w.of) {
			e.countCall()
		} else {
			e.state = before[i]
		}
	}
	sh.mu.Unlock()
	return allowed == len(w.of)
}

// TakeBoth charges a client to the windows of w and of another ClientWindows, as Take charges it to those of one: all
// allow the cost, or nothing is charged. Both have the same Memory. The results of w come first.
func (w *ClientWindows) TakeBoth(now time.Time, client *hottype.Client, and *ClientWindows, cost int64,
	results []Result) bool {
	us, n, id := limitcore.Micros(now), uint64(len(w.m.shards)), w.m.hashClient(client)
	first, second := id.join(w.name), id.join(and.name)
	var t, u windowCharges
	locks := uint64(1)<<(first.hi%n) | uint64(1)<<(second.hi%n)
	w.m.lock(locks)
	allowed := w.charge(&t, &w.m.shards[first.hi%n], us, first, cost, results) &&
		and.charge(&u, &w.m.shards[second.hi%n], us, second, cost, results[len(w.of):])
	t.finish(allowed)
	u.finish(allowed)
	w.m.unlock(locks)
	return allowed
}

// windowCharges holds the states that a Take has charged, and their values before.
type windowCharges struct {
	entries [MaxClientWindows]*entry
	before  [MaxClientWindows]limitcore.State
	n       int
}

// finish counts the call, or restores the states if it is denied.
func (t *windowCharges) finish(allowed bool) {
	for i, e := range t.entries[:t.n] {
		if allowed {
			e.countCall()
		} else {
			e.state = t.before[i]
		}
	}
}

// charge charges the windows of a subject, whose shard is locked, until one denies or does not know the subject. It
// reports whether all have allowed. Take has the same loop in place, because every request comes through there and a
// call made decisions 6 % slower.
func (w *ClientWindows) charge(to *windowCharges, sh *shard, us int64, id subjectHash, cost int64,
	results []Result) bool {
	var slot int32
	for i := range w.of {
		c := &w.of[i]
		t := &sh.tables[c.space]
		if int(slot) >= len(t.entries) || t.entries[slot].id != id { // most clients have the same slot in both tables
			slot = t.find(id)
		}
		if slot < 0 || t.entries[slot].log != 0 {
			return false
		}
		e := &t.entries[slot]
		to.entries[i], to.before[i] = e, e.state
		o := c.compiled.Charge(&e.state, nil, us, cost)
		if !o.Allowed {
			return false
		}
		to.n++
		setResult(o, c.compiled.Capacity, &results[i])
	}
	return true
}
