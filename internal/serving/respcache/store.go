package respcache

import (
	"cmp"
	"container/list"
	"hash/maphash"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
)

// store holds the answers: resources by target, and in each resource an entry for each variant.
//
//	shard (by hash of the target) ──> resource ──> entry ──> answer, fetch
//	  └── entries with an answer or a marker, by when they were last used
//
// One bound holds for the bytes of all shards. A shard that goes over it evicts the least recently used entries of its
// own, then of the others.
type store struct {
	limit  int64
	bytes  atomic.Int64
	seed   maphash.Seed
	shards [shards]shard
}

const shards = 32

// shard is a part of the store. It has the counters because its lock is held anyway when they change.
type shard struct {
	index                int // index in store.shards
	mu                   sync.Mutex
	resources            map[string]*resource
	lru                  list.List // of *entry, the most recently used first
	hits, stale, evicted uint64
	_                    [32]byte // shards on cache lines of their own
}

// resource holds the state of a target.
type resource struct {
	target   string
	key      hottype.Key // the hot key for which it is served
	vary     []string    // the fields by which its responses differ, as far as was seen
	part     *entry      // the last entry that got a partial response; may be nil
	variants map[string]*entry
}

// entry is one variant of a resource.
type entry struct {
	resource *resource
	variant  string
	part     string  // the Range of its answers; "" if they are whole
	answer   *answer // may be nil
	// uncacheableUntil is the time until which requests do not wait for each other, because the last response was not
	// to be stored.
	uncacheableUntil time.Time
	fetch            *fetch    // nil if no fetch is running
	retry            time.Time // when it may be fetched again in the background
	// notStored is the number of consecutive fetches that had more fields than the key and stored nothing. Those fields
	// may have been the reason.
	notStored int
	// failing is true if the last fetch failed or took too long. The answer is then served at once for as long as
	// errors allow, and fetched in the background.
	failing bool
	bytes   int64         // 0 if the entry is not in the list
	listed  *list.Element // in the shard's list; nil if not there
	moved   time.Time     // when it was last moved to the front
}

// maxNotStored bounds entry.notStored: after so many fetches a fetch has only the fields of the key.
const maxNotStored = 2

func newStore(limit int64) *store {
	s := &store{limit: limit, seed: maphash.MakeSeed()}
	for i := range s.shards {
		s.shards[i].index, s.shards[i].resources = i, map[string]*resource{}
	}
	return s
}

func (s *store) shardOf(target []byte) *shard {
	return &s.shards[maphash.Bytes(s.seed, target)%shards]
}

// found is the result of a look-up in the store for a request.
type found struct {
	now    time.Time
	answer *answer // may be served; may be nil
	backup *answer // may be served if the handler fails; may be nil
	fetch  *fetch  // to wait for, or to run if lead is true
	lead   bool    // the caller has to run fetch, or to end it
	pass   bool    // the request has to go to the handler by itself
}

// find looks for a response, decides whether it may be served, and makes a fetch if one is needed and none is running.
// A fresh answer is served without a fetch, unless it is unsure. A stale answer is served at once, and so is an older
// one that errors allow if the last fetch failed (entry.failing); a fetch in the background then brings a new one,
// unless a fetch is running, the last one is too recent, or the request is partial. Another answer that errors allow is
// the backup, which is served only if the handler fails.
//
// partial is true if the request asks for a part only: the part is cut from a stored whole response, but a whole
// response is not fetched for it. part is the request's Range, to look for partial responses.
func (s *store) find(r *http.Request, target []byte, v *verdict.Verdict, clock func() time.Time,
	partial bool, part string) (f found) {
	sh := s.shardOf(target)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := clock() // under the lock; an answer stored before would be in the future otherwise
	f.now = now
	e := sh.findEntry(r, target, v.Key, !partial, part)
	if e == nil {
		return found{pass: true}
	}
	if f.answer = e.cutFromLarger(now); f.answer != nil {
		sh.hits++
		s.removeIfEmpty(sh, e)
		return f
	}
	if a := e.answer; a != nil {
		resident := a.residentTime(now)
		sh.markUsed(e, now)
		switch {
		case isWithin(resident, a.fresh) && !a.unsure:
			sh.hits++
			return found{now: now, answer: a}
		case isWithin(resident, a.stale), e.failing && isWithin(resident, a.onError):
			sh.stale++
			f.answer = a
			if e.fetch != nil || partial || isBackingOff(now, e.retry) {
				return f
			}
		case isWithin(resident, a.onError):
			f.backup = a
		}
	}
	// No client waits for the fetch of a stale answer, so it need not carry the fields of a client. After maxNotStored
	// fetches that carried them and stored nothing, a fetch does without them.
	plain := f.answer != nil || e.notStored >= maxNotStored
	switch marked := f.answer == nil && f.backup == nil && isBackingOff(now, e.uncacheableUntil); {
	case e.fetch != nil && !e.fetch.isAwaited():
		return found{pass: true}
	case partial && f.answer == nil, marked && e.answer == nil:
		return found{pass: true}
	case marked:
		f.fetch, f.lead = newFetch(s, sh, e, nil, v.Cache), true
		f.fetch.released = true // no other request waits for it
		return f
	case e.fetch == nil:
		e.fetch = newFetch(s, sh, e, cmp.Or(f.backup, f.answer), v.Cache)
		e.fetch.plain, f.lead = plain, true
	}
	f.fetch = e.fetch
	return f
}

// findEntry returns the entry of a request's variant, or nil if there is none. It adds a missing entry if add is true.
// It needs mu.
func (sh *shard) findEntry(r *http.Request, target []byte, key hottype.Key, add bool, part string) *entry {
	res := sh.resources[string(target)]
	if res == nil {
		if !add {
			return nil
		}
		res = &resource{target: string(target), key: key, variants: map[string]*entry{}}
		sh.resources[res.target] = res
	}
	var buf [128]byte
	variant := appendVariant(buf[:0], r, res.vary, part)
	e := res.variants[string(variant)]
	if e == nil && add {
		e = &entry{resource: res, variant: string(variant), part: part}
		res.variants[e.variant] = e
	}
	return e
}

// finishFetch is the part of fetch.release that changes the store: it takes the fetch out of its entry, and applies the
// outcome to the entry. If the entry no longer has the fetch, it changes nothing.
func (s *store) finishFetch(f *fetch, o outcome, now time.Time) {
	sh, e := f.shard, f.entry
	sh.mu.Lock()
	if e.fetch == f {
		e.fetch, e.retry = nil, o.retryAt
		switch {
		case o.answer != nil:
			s.storeAnswer(f, o.answer, now)
		case o.failed || o.notStored:
			s.recordUnstored(f, o, now)
		}
		s.removeIfEmpty(sh, e)
	}
	sh.mu.Unlock()
	s.evictExcess(sh)
}

// recordUnstored records a fetch without a response to store. A stored answer stays: for as long as errors allow if the
// handler failed, otherwise until it may no longer be served.
func (s *store) recordUnstored(f *fetch, o outcome, now time.Time) {
	e := f.entry
	switch {
	case f.plain:
		e.notStored = 0 // it was not for the fields of one client
	case !f.slow:
		e.notStored++
	}
	if a := e.answer; a != nil {
		e.failing = o.failed
		resident := a.residentTime(now)
		if o.failed || isWithin(resident, a.stale) || !f.plain && isWithin(resident, a.onError) {
			e.retry = now.Add(fetchBackoff)
			return
		}
	}
	s.setAnswer(f.shard, e, nil, now)
	e.uncacheableUntil = now.Add(fetchBackoff)
}

// storeLate stores the response of a fetch for which requests no longer wait.
func (s *store) storeLate(f *fetch, a *answer, now time.Time) {
	f.shard.mu.Lock()
	if f.shard.resources[f.entry.resource.target] == f.entry.resource { // not removed in the meantime
		s.storeAnswer(f, a, now)
	}
	f.shard.mu.Unlock()
	s.evictExcess(f.shard)
}

// storeAnswer stores an answer. If it differs by a field by which no other answer of its target did, the others are
// removed, because it is unknown for which values of the field they hold.
func (s *store) storeAnswer(f *fetch, a *answer, now time.Time) {
	sh, res := f.shard, f.entry.resource
	if !containsAll(res.vary, a.vary) {
		s.removeResource(sh, res)
		all := append(slices.Clone(res.vary), a.vary...)
		slices.Sort(all)
		res.vary = slices.Compact(all)
		sh.resources[res.target] = res
	}
	part := f.entry.part
	variant := string(appendVariant(nil, f.request, res.vary, part))
	e := res.variants[variant]
	if e == nil {
		e = &entry{resource: res, variant: variant, part: part}
		res.variants[variant] = e
	}
	if part != "" {
		res.part = e
	}
	s.setAnswer(sh, e, a, now)
	if e.failing = false; !f.plain {
		e.notStored = 0
	}
	if e.uncacheableUntil = (time.Time{}); a.mustRevalidate() {
		e.uncacheableUntil = now.Add(fetchBackoff)
	}
}

func containsAll(list, of []string) bool {
	return !slices.ContainsFunc(of, func(name string) bool { return !slices.Contains(list, name) })
}

// removeEntries removes the entries of keys for which matches returns true, and expired entries. It returns the number
// of the former.
func (s *store) removeEntries(now time.Time, matches func(hottype.Key) bool) (purged int) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for _, res := range sh.resources {
			if matches(res.key) {
				purged += len(res.variants)
				s.removeResource(sh, res)
				continue
			}
			for _, e := range res.variants {
				if a := e.answer; a != nil && !a.isUsable(now) || a == nil && !isBackingOff(now, e.uncacheableUntil) {
					s.removeAnswer(sh, e)
					s.removeIfEmpty(sh, e)
				}
			}
		}
		sh.mu.Unlock()
	}
	return purged
}

// invalidate removes a target.
func (s *store) invalidate(target []byte) {
	sh := s.shardOf(target)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if res := sh.resources[string(target)]; res != nil {
		s.removeResource(sh, res)
	}
}
