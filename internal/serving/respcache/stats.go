package respcache

import (
	"slices"
	"sync/atomic"
)

// reasons are those of requests that pass by the cache, and of answers that are not kept.
var reasons = []string{
	byAuthorization, byCookie, byCertificate, byBody, byUpgrade, byPrecondition, byOverride, byRange, byUncacheable,
	whyStatus, whyDirective, whySetCookie, whyVary, whyStream, whyExpired, whySize, whyMemory,
}

func index(reason string) int { return slices.Index(reasons, reason) }

type counters struct {
	fetched, failed, collapsed, refused, tired, purged atomic.Uint64
	bypassed, unkept                                   [17]atomic.Uint64 // by index in reasons
}

// Stats are the counters of a cache since it was built. Bytes and Entries are of now.
type Stats struct {
	// Hits are requests answered with a fresh answer, Stale with one that was not.
	Hits, Stale uint64
	// Fetched are requests to the handler that the cache made, Failed those of them that it
	// did not answer well. Refused are those that the limits of their keys did not let pass.
	Fetched, Failed, Refused uint64
	// Collapsed are waits for the answer to another request, and TimedOut the requests
	// refused because that took too long and nothing stale was left.
	Collapsed, TimedOut uint64
	// Bypassed are requests that passed by the cache, Unkept answers that were not kept, by
	// why.
	Bypassed, Unkept map[string]uint64
	// Evicted are entries that others took the place of, Purged those that a person did away
	// with.
	Evicted, Purged uint64
	Entries         uint64
	Bytes           int64
}

// Stats reads the counters.
func (c *Cache) Stats() Stats {
	s := Stats{
		Fetched: c.fetched.Load(), Failed: c.failed.Load(), Refused: c.refused.Load(),
		Collapsed: c.collapsed.Load(), TimedOut: c.tired.Load(), Purged: c.purged.Load(),
		Bypassed: map[string]uint64{}, Unkept: map[string]uint64{}, Bytes: c.store.bytes.Load(),
	}
	for i, reason := range reasons {
		if slices.Index(reasons, whyStatus) > i {
			s.Bypassed[reason] = c.bypassed[i].Load()
		} else {
			s.Unkept[reason] = c.unkept[i].Load()
		}
	}
	for i := range c.store.shards {
		sh := &c.store.shards[i]
		sh.mu.Lock()
		s.Hits += sh.hits
		s.Stale += sh.stale
		s.Evicted += sh.evicted
		s.Entries += sh.entries
		sh.mu.Unlock()
	}
	return s
}
