package hotparam

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Stats tell what a Pipeline has done since it was built. Counters only grow.
type Stats struct {
	// Counted are requests, once for each key that they have. Delivered of them
	// reached the detection of this process, were sent by StatsD, or were taken by the
	// Sink. Dropped were lost: more keys than memory is for, or no server took
	// them. The rest waits for the next 100 ms; after Run's end it is lost too.
	Counted, Delivered, Dropped uint64
	// Allowed requests passed; Denied were refused, by what refused them.
	Allowed uint64
	Denied  hottype.Denials
	// Panics are requests that passed because judging them panicked.
	Panics uint64
	// Cache is the response cache of all middleware.
	Cache CacheStats
	// Hot are the keys that are hot now, heaviest first.
	Hot []HotKey
	// Upstreams are those that adaptive limits follow, with their limits as far as they are known.
	Upstreams []hottype.UpstreamLimit
}

// CacheStats are the counters of the response cache. Bytes and Entries are of now.
type CacheStats struct {
	// Hits are requests answered with a fresh answer, Stale with one that was not.
	Hits, Stale uint64
	// Fetched are requests to the handler that the cache made, Failed those of them that it
	// did not answer well. FetchDenied are those that the limits of their keys denied.
	Fetched, Failed, FetchDenied uint64
	// Collapsed are waits for the answer to another request, and TimedOut the requests
	// refused because that took too long and nothing stale was left.
	Collapsed, TimedOut uint64
	// Bypassed are requests that passed by the cache, NotStored responses that were not stored, by
	// why.
	Bypassed, NotStored map[string]uint64
	// Evicted are entries that others took the place of, Purged those that Purge took out.
	Evicted, Purged uint64
	Entries         uint64
	Bytes           int64
}

// Stats reads the counters. It is made for once a second, not for each request.
func (p *Pipeline) Stats() Stats {
	counted, decided := p.parts.Tally.Stats(), p.parts.Gate.Stats()
	st := Stats{
		Counted: counted.Added, Delivered: counted.Flushed, Dropped: counted.DroppedFull + counted.DroppedSink,
		Allowed: decided.Allowed.Total(), Denied: decided.Denied,
		Panics:    p.layer.Stats().Panics + p.decide.Panics() + p.leaseGate.Panics(),
		Cache:     CacheStats(p.layer.Cache().Stats()),
		Upstreams: p.parts.Bounds(),
	}
	p.mu.Lock()
	for _, l := range p.layers {
		st.Panics += l.Stats().Panics
	}
	p.mu.Unlock()
	if p.delivered != nil {
		sent, lost := p.delivered()
		st.Delivered, st.Dropped = sent, st.Dropped+lost
	}
	for _, e := range p.parts.Hot.Entries(time.Now()) {
		st.Hot = append(st.Hot, e.Hot())
	}
	return st
}
