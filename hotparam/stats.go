package hotparam

import (
	"maps"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
)

// Stats tell what a Pipeline has done since it was built. Counters only grow.
type Stats struct {
	// Counted are requests, once for each key that they have. Delivered of them
	// reached the detection of this process, were handed to the kernel for StatsD (Health says
	// whether they arrive), or were taken by the Sink. Dropped were lost: more keys than memory
	// is for, or no server took them. The rest waits for the next 100 ms; after Run's end it is lost too.
	Counted, Delivered, Dropped uint64
	// Allowed requests passed; Denied did not. DeniedBy has their number for each reason that denies.
	Allowed  uint64
	Denied   uint64
	DeniedBy map[hottype.Reason]uint64
	// WouldDeny requests passed because what would have denied them has the mode shadow: a limit, or a window of their
	// client (WouldDenyIP).
	WouldDeny, WouldDenyIP uint64
	// WouldDenyBy has the number of WouldDeny requests for each rule that would have denied them, by its name. Each
	// request counts under the first: the name of a rule, "ip_fixed" or "ip_sliding" for a window of its client, or the
	// ID of an override. It has at most 1000 of them; the requests of further ones are under "(other)".
	WouldDenyBy map[string]uint64
	// Panics are requests that passed because judging them panicked.
	Panics uint64
	// Cache is the response cache of all middleware.
	Cache CacheStats
	// Hot are the keys that are hot now, heaviest first.
	Hot []HotKey
	// Upstreams are those that adaptive limits follow, with their limits as far as they are known.
	Upstreams []hottype.UpstreamLimit
	Health    Health
}

// Health is whether a Pipeline does its work, as far as it is known here.
type Health struct {
	// Running is false before Run and after it: no key becomes hot then.
	Running bool
	// HotSetAge is the age of the newest hot set, by the clock of its aggregator; -1: none has come.
	HotSetAge time.Duration
	// Publishers are aggregators that publish hot sets. NoInputPublishers of them receive no counts. StalePublishers
	// are others, which stopped without saying so: their keys stay hot. In one process there is one publisher.
	Publishers, NoInputPublishers, StalePublishers int64
	// CountsDown is whether counts cannot be sent by StatsD or do not arrive, or the Sink says that they cannot be
	// delivered: that of package kafkasink until a broker answers, and while none does. CountsLost is the share that
	// did not arrive in the last 3 s, 0 to 1, as aggregators report; -1: it is unknown, or counts go another way.
	CountsDown bool
	CountsLost float64
	// StoreCalls are calls to Redis for limits, StoreErrors those that failed or took too long. StoreOpen is whether a
	// circuit breaker prevents them: limits are those of this process then.
	StoreCalls, StoreErrors uint64
	StoreOpen               bool
}

// Blind reports whether what is hot is not known: no hot set comes, or none that is made of counts, or the counts of
// this process do not arrive. Limits of keys that were hot go on; no key becomes hot.
func (h Health) Blind() bool {
	return h.CountsDown || h.Publishers == 0 || h.NoInputPublishers+h.StalePublishers >= h.Publishers+h.StalePublishers
}

// CacheStats are the counters of the response cache. Bytes and Entries are of now.
type CacheStats struct {
	// Hits are requests answered with a fresh answer, Stale with one that was not.
	Hits, Stale uint64
	// Fetched are requests to the handler that the cache made, Failed those of them that it
	// did not answer well. FetchDenied are those that the limits of their keys denied.
	Fetched, Failed, FetchDenied uint64
	// Collapsed are waits for the answer to another request, and TimedOut the requests
	// denied because that took too long and nothing stale was left.
	Collapsed, TimedOut uint64
	// Bypassed are requests that passed by the cache, NotStored responses that were not stored, by
	// why.
	Bypassed, NotStored map[string]uint64
	// Evicted are entries that others took the place of, Purged those that Purge took out.
	Evicted, Purged uint64
	Entries         uint64
	Bytes           int64
}

func (p *Pipeline) health(now time.Time, decided *gate.Stats) Health {
	hot := p.parts.Hot.Stats(now)
	h := Health{
		Running: p.running.Load(), HotSetAge: -1, Publishers: hot.Publishers, NoInputPublishers: hot.NoInputPublishers,
		StalePublishers: hot.StalePublishers, CountsLost: -1, StoreCalls: decided.StoreCalls,
		StoreErrors: decided.StoreErrors, StoreOpen: decided.StoreOpen,
	}
	if hot.AgeSeconds >= 0 {
		h.HotSetAge = time.Duration(hot.AgeSeconds * float64(time.Second))
	}
	if p.with.Counts != nil {
		c := p.with.Counts()
		h.CountsDown, h.CountsLost = c.Down, c.Loss
	}
	return h
}

// Stats reads the counters. It is made for once a second, not for each request.
func (p *Pipeline) Stats() Stats {
	p.mustBeBuilt()
	counted, decided := p.parts.Tally.Stats(), p.parts.Gate.Stats()
	st := Stats{
		Counted: counted.Added, Delivered: counted.Flushed, Dropped: counted.DroppedFull + counted.DroppedSink,
		Allowed: decided.Allowed.Total(), Denied: decided.Denied.Total(), DeniedBy: maps.Collect(decided.Denied.All()),
		WouldDeny: decided.WouldDeny, WouldDenyIP: decided.WouldDenyIP, WouldDenyBy: decided.WouldDenyBy,
		Panics:    decided.Panics,
		Cache:     CacheStats(p.layer.Cache().Stats()),
		Upstreams: p.parts.Bounds(),
		Health:    p.health(time.Now(), &decided),
	}
	if p.with.Counts != nil {
		c := p.with.Counts()
		st.Delivered, st.Dropped = c.Sent, st.Dropped+c.Lost
	}
	for _, e := range p.parts.Hot.Entries(time.Now()) {
		st.Hot = append(st.Hot, e.Hot())
	}
	return st
}
