package respcache

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// used is an entry of the model: a list in which the first was used last.
type used struct {
	e     *entry
	bytes int64
	moved time.Time
}

// listOrders are the entries of a shard in both directions.
func listOrders(sh *shard) (forward, back []*entry) {
	for l := sh.lru.Front(); l != nil; l = l.Next() {
		forward = append(forward, l.Value.(*entry))
	}
	for l := sh.lru.Back(); l != nil; l = l.Prev() {
		back = append(back, l.Value.(*entry))
	}
	slices.Reverse(back)
	return forward, back
}

// A store evicts the same entries as a model with the simplest list by use, and counts the same bytes: no more than
// necessary, from its own shard first. A use within a second of the last one moves nothing.
func TestStore_EvictsLeastRecentlyUsed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := newStore(rapid.Int64Range(2000, 9000).Draw(rt, "limit"))
		model := map[int][]used{} // by shard
		now := time.Unix(1000, 0)
		evicted := map[int]uint64{}
		total := func() (n int64) {
			for _, list := range model {
				for _, u := range list {
					n += u.bytes
				}
			}
			return n
		}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int64{0, 1, 999_999_999, 1e9, -5}).Draw(rt, "later")))
			at := rapid.IntRange(0, 2).Draw(rt, "shard")
			sh := &s.shards[at]
			r := &http.Request{Header: http.Header{}}
			target := fmt.Sprint("t", rapid.IntRange(0, 3).Draw(rt, "target"))
			i := slices.IndexFunc(model[at], func(u used) bool { return u.e.resource.target == target })
			switch rapid.IntRange(0, 3).Draw(rt, "what") {
			case 0:
				if i >= 0 {
					sh.markUsed(model[at][i].e, now)
					if u := model[at][i]; now.Sub(u.moved) >= time.Second || now.Before(u.moved) {
						u.moved = now
						model[at] = append([]used{u}, slices.Delete(model[at], i, i+1)...)
					}
				}
			case 1:
				if i >= 0 {
					e := model[at][i].e
					s.removeAnswer(sh, e)
					s.removeIfEmpty(sh, e)
					model[at] = slices.Delete(model[at], i, i+1)
				}
			default:
				var a *answer
				size := int64(769 + 2*len(target)) // one byte for the codings
				if rapid.Bool().Draw(rt, "answer") {
					a = &answer{body: make([]byte, rapid.IntRange(0, 900).Draw(rt, "body"))}
					size += 768 + int64(len(a.body))
				}
				e := sh.findEntry(r, []byte(target), "k", true, "")
				s.setAnswer(sh, e, a, now)
				if i >= 0 {
					model[at] = slices.Delete(model[at], i, i+1)
				}
				model[at] = append([]used{{e, size, now}}, model[at]...)
				s.evictExcess(sh)
				for k := 0; k < shards; k++ {
					for other := (at + k) % shards; total() > s.limit && len(model[other]) > 0; evicted[other]++ {
						model[other] = model[other][:len(model[other])-1]
					}
				}
			}
			if s.bytes.Load() != total() {
				rt.Fatalf("%d bytes, want %d", s.bytes.Load(), total())
			}
			for at := range 3 {
				sh := &s.shards[at]
				want := make([]*entry, 0, len(model[at]))
				for _, u := range model[at] {
					want = append(want, u.e)
				}
				forward, back := listOrders(sh)
				if !slices.Equal(forward, want) || !slices.Equal(back, want) || sh.lru.Len() != len(want) ||
					sh.evicted != evicted[at] || len(sh.resources) != len(want) {
					rt.Fatalf("shard %d: %d and %d entries, want %d; counted %d, %d resources, %d evicted of %d", at,
						len(forward),
						len(back), len(want), sh.lru.Len(), len(sh.resources), sh.evicted, evicted[at])
				}
			}
		}
	})
}

// Bytes of incomplete responses count too. A response without room is not taken, and returns the bytes that were
// counted for it.
func TestStore_ReservesBytesWithinLimit(t *testing.T) {
	t.Parallel()
	s := newStore(5000)
	sh := &s.shards[0]
	e := sh.findEntry(&http.Request{}, []byte("t"), hottype.Key("k"), true, "")
	s.setAnswer(sh, e, nil, time.Unix(1, 0))
	stored := s.bytes.Load()
	if !s.reserveBytes(sh, 5000-stored) || s.bytes.Load() != 5000 || sh.evicted != 0 {
		t.Errorf("all that is free is not given: %d bytes, %d evicted", s.bytes.Load(), sh.evicted)
	}
	if !s.reserveBytes(sh, 1) || s.bytes.Load() != 5001-stored || sh.evicted != 1 {
		t.Errorf("nothing is evicted for it: %d bytes, %d evicted", s.bytes.Load(), sh.evicted)
	}
	if s.reserveBytes(sh, stored) || s.bytes.Load() != 5001-stored {
		t.Errorf("more is given than there is: %d bytes", s.bytes.Load())
	}
}

// An answer that differs by a field that no other one of its target did takes their place; later ones go beside
// it by the fields of all.
func TestStore_AddsFieldsOfVary(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	s := newStore(1 << 20)
	sh := s.shardOf([]byte("t"))
	keep := func(plain bool, lang string, vary ...string) *fetch {
		r := &http.Request{Header: http.Header{"X-Lang": {lang}}}
		e := sh.findEntry(r, []byte("t"), "k", true, "")
		e.failing, e.notStored, e.uncacheableUntil = true, 1, now
		f := newFetch(s, sh, e, nil, testPolicy())
		f.request, f.plain = r, plain
		s.storeAnswer(f, &answer{vary: vary, fresh: time.Second}, now)
		f.releasePrior()
		return f
	}
	res := func() *resource { return sh.resources["t"] }
	for i, c := range []struct {
		lang    string
		vary    []string
		all     []string
		entries uint64
	}{
		{"de", nil, nil, 1}, {"en", nil, nil, 1}, {"de", []string{"X-Lang"}, []string{"X-Lang"}, 1},
		{"en", []string{"X-Lang"}, []string{"X-Lang"}, 2}, {"en", nil, []string{"X-Lang"}, 2},
		{"fr", []string{"Accept-Encoding", "X-Lang"}, []string{"Accept-Encoding", "X-Lang"}, 1},
		{"de", []string{"Accept-Encoding"}, []string{"Accept-Encoding", "X-Lang"}, 2},
	} {
		keep(false, c.lang, c.vary...)
		if !slices.Equal(res().vary, c.all) || len(res().variants) != int(c.entries) || sh.lru.Len() != int(c.entries) {
			t.Errorf("%d: %q, %d variants, %d entries; want %+v", i, res().vary, len(res().variants), sh.lru.Len(), c)
		}
		for _, e := range res().variants {
			if e.failing || e.notStored != 0 || !e.uncacheableUntil.IsZero() || e.answer == nil {
				t.Errorf("%d: %+v", i, e)
			}
		}
	}
	f := keep(true, "de", "Accept-Encoding") // it does not depend on the fields of one client
	if e := f.entry; e.notStored != 1 || e.failing {
		t.Errorf("%+v", e)
	}
	s.storeAnswer(f, &answer{}, now)
	if e := f.entry; !e.uncacheableUntil.Equal(now.Add(time.Second)) {
		t.Errorf("%+v", e)
	}
	s.invalidate([]byte("t"))
	if s.storeLate(f, &answer{}, now); len(sh.resources) != 0 || s.bytes.Load() != 0 {
		t.Error("what was taken out meanwhile is stored")
	}
	f = keep(false, "de")
	before := s.bytes.Load()
	if s.storeLate(f, &answer{body: make([]byte, 100), fresh: time.Second}, now); s.bytes.Load() != before+100 {
		t.Errorf("%d bytes after %d", s.bytes.Load(), before)
	}
}
