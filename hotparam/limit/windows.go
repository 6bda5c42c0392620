package limit

import (
	"time"

	"github.com/hotparam/pipeline/internal/limitcore"
)

// ClientWindows holds fixed and sliding windows of clients, compiled once. They are the same limits as charges of their
// Spaces and Specs: each counts the charges of the other. For a client that has been charged before and is within its
// windows, as most clients are, Take costs a third of Memory.Take. Any number of goroutines may use it.
type ClientWindows struct {
	m  *Memory
	of []clientWindow
}

type clientWindow struct {
	compiled limitcore.Compiled
	space    int
}

// MaxClientWindows is the maximum number of windows of a ClientWindows.
const MaxClientWindows = 2

// ClientWindows compiles the windows of charges, whose Client and Cost are ignored. It returns nil if Memory.Take has
// to be used: for other algorithms, blocks, invalid specs, no window or too many, and a Space twice or a Space without
// a table of its own.
func (m *Memory) ClientWindows(charges []Charge) *ClientWindows {
	if len(charges) == 0 || len(charges) > MaxClientWindows {
		return nil
	}
	w := &ClientWindows{m: m}
	for i := range charges {
		compiled, err := (*limitcore.Spec)(&charges[i].Spec).Compile()
		space := m.spaceIndex(charges[i].Subject.Space)
		if err != nil || compiled.Block > 0 || space == maxSpaces-1 || i > 0 && space == w.of[0].space ||
			compiled.Kind != limitcore.KindFixed && compiled.Kind != limitcore.KindSliding {
			return nil
		}
		w.of = append(w.of, clientWindow{compiled, space})
	}
	return w
}

// Take charges the client of a subject to all windows, as Memory.Take does, and writes a result for each, if they know
// the client and all allow the cost. Otherwise it charges nothing, the results mean nothing, and the caller calls
// Memory.Take.
func (w *ClientWindows) Take(now time.Time, of *Subject, cost int64, results []Result) bool {
	us, id := limitcore.Micros(now), w.m.hashSubject(of)
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
