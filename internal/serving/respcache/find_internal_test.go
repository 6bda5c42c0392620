package respcache

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
)

// situation is the state of an entry when a request comes.
type situation struct {
	age                                        time.Duration // of its answer; 0 if there is no answer
	unsure, failing, running, retries, partial bool
	uncacheable                                time.Duration // for how much longer
	notStored                                  int
}

// expect returns the result of find in the situation: the answer is fresh for 1 s, stale until 11 s, and may be served
// on errors until 61 s.
func (c *situation) expect() (answer, backup, pass, lead, wait, plain, alone bool, hits, stale uint64) {
	const s = time.Second
	has := c.age > 0
	switch {
	case has && c.age < s && !c.unsure:
		return true, false, false, false, false, false, false, 1, 0
	case has && (c.age < 11*s || c.failing && c.age < 61*s):
		refresh := !c.running && !c.partial && !c.retries
		return true, false, false, refresh, false, refresh, false, 0, 1
	}
	backup = has && c.age < 61*s
	marked := !backup && c.uncacheable > 0 && c.uncacheable <= s
	switch {
	case c.partial, marked && !has:
		return false, backup, true, false, false, false, false, 0, 0
	case marked:
		return false, false, false, true, false, false, true, 0, 0
	case c.running:
		return false, backup, false, false, true, false, false, 0, 0
	}
	return false, backup, false, true, false, c.notStored >= 2, false, 0, 0
}

// find returns the expected result in each situation of an entry.
func TestFind_HandlesEachSituation(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	const s = time.Second
	both := []bool{false, true}
	for _, age := range []time.Duration{0, 1, s - 1, s, 11*s - 1, 11 * s, 61*s - 1, 61 * s} {
		for bits := range 1 << 5 {
			for _, uncacheable := range []time.Duration{0, 1, s, s + 1} {
				for _, notStored := range []int{0, 1, 2} {
					c := situation{age, both[bits&1], both[bits>>1&1], both[bits>>2&1], both[bits>>3&1],
						both[bits>>4&1], uncacheable,
						notStored}
					if got, want := c.find(now), fmt.Sprint(c.expect()); got != want {
						t.Fatalf("%+v: %s, want %s", c, got, want)
					}
				}
			}
		}
	}
}

// find asks a store for an entry in the situation.
func (c *situation) find(now time.Time) string {
	st := newStore(1 << 20)
	target := []byte("t")
	sh := st.shardOf(target)
	r := httptest.NewRequest("GET", "/topic?id=1", nil)
	e := sh.findEntry(r, target, "topic?id=1", true, "")
	if c.age > 0 {
		a := storedAnswer(now.Add(-c.age))
		a.unsure = c.unsure
		st.setAnswer(sh, e, a, now.Add(-c.age))
	}
	e.failing, e.notStored = c.failing, c.notStored
	if c.retries {
		e.retry = now.Add(time.Second)
	}
	if c.uncacheable > 0 {
		e.uncacheableUntil = now.Add(c.uncacheable)
	}
	var running *fetch
	if c.running {
		running = newFetch(st, sh, e, nil, testPolicy())
		e.fetch = running
	}
	f := st.find(r, target, &verdict.Verdict{Verdict: hottype.Verdict{
		Key: "topic?id=1",
	}, Cache: testPolicy()}, func() time.Time { return now },
		c.partial, "")
	wait, alone := f.fetch != nil && !f.lead, f.lead && f.fetch != e.fetch
	if wait && f.fetch != running || f.lead && f.fetch == running || alone != (f.lead && f.fetch.released) {
		return "another fetch"
	}
	if f.lead && (f.fetch.prior != e.answer || f.fetch.backup != nil != (f.backup != nil || f.answer != nil)) {
		return "another prior or backup"
	}
	backup := f.backup != nil
	if f.pass && c.partial {
		backup = c.age >= 11*time.Second && c.age < 61*time.Second && !c.failing // it is of no use then
	}
	return fmt.Sprint(f.answer != nil, backup, f.pass, f.lead, wait, f.lead && f.fetch.plain, alone, sh.hits, sh.stale)
}
