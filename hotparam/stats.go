package hotparam

import (
	"maps"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
)

// Stats holds the counters of a Pipeline since it was built. Counters only grow.
type Stats struct {
	// Counted is the number of requests, once for each key that they have. Delivered of them reached the detection of
	// this process, were handed to the kernel for StatsD (Health reports whether they arrive), or were accepted by the
	// Sink. Dropped were lost: there were more keys than memory allows, or no server accepted them. The rest waits for
	// the next 100 ms; after Run's end it is lost too.
	Counted, Delivered, Dropped uint64
	// Allowed requests passed; Denied did not. DeniedBy has their number for each reason that denies.
	Allowed  uint64
	Denied   uint64
	DeniedBy map[hottype.Reason]uint64
	// WouldDeny requests passed because the limit that would have denied them has the mode shadow: a limit, or a window
	// of their client (WouldDenyIP).
	WouldDeny, WouldDenyIP uint64
	// WouldDenyBy has the number of WouldDeny requests for each rule that would have denied them, by its name. Each
	// request counts under the first: the name of a rule, "ip_fixed" or "ip_sliding" for a window of its client, or the
	// ID of an override. It has no more than 1000 names; the requests of further names are under "(other)".
	WouldDenyBy map[string]uint64
	// Panics is the number of requests that passed because judging them panicked.
	Panics uint64
	// Cache holds the counters of the response cache of all middleware.
	Cache CacheStats
	// Hot holds the keys that are hot now, heaviest first.
	Hot []HotKey
	// Upstreams holds the upstreams that adaptive limits follow, with their limits as far as they are known.
	Upstreams []hottype.UpstreamLimit
	Health    Health
}

// Health describes whether a Pipeline does its work, as far as that is known here.
type Health struct {
	// Running is false before Run and after it: no key becomes hot then.
	Running bool
	// HotSetAge is the age of the newest hot set, by the clock of its aggregator, or -1 before the first hot set.
	HotSetAge time.Duration
	// Publishers is the number of aggregators that publish hot sets. NoInputPublishers of them receive no counts.
	// StalePublishers is the number of other aggregators, which stopped without reporting it: their keys stay hot. In
	// one process there is one publisher.
	Publishers, NoInputPublishers, StalePublishers int64
	// CountsDown is true if counts cannot be sent by StatsD or do not arrive, or if the Sink reports that they cannot
	// be delivered: the Sink of package kafkasink reports it until a broker answers, and while no broker does.
	// CountsLost is the share that did not arrive in the last 3 s, 0 to 1, as aggregators report, or -1 if it is
	// unknown, or if counts go another way.
	CountsDown bool
	CountsLost float64
	// StoreCalls is the number of calls to Redis for limits, StoreErrors the number that failed or took too long.
	// StoreOpen is true if a circuit breaker prevents them: this process then enforces its own limits.
	StoreCalls, StoreErrors uint64
	StoreOpen               bool
}

// Blind reports whether the hot set is unknown: there is no hot set, or no hot set that is made of counts, or the
// counts of this process do not arrive. Limits of keys that were hot continue; no key becomes hot.
func (h Health) Blind() bool {
	return h.CountsDown || h.Publishers == 0 || h.NoInputPublishers+h.StalePublishers >= h.Publishers+h.StalePublishers
}

// CacheStats holds the counters of the response cache. Bytes and Entries are current.
type CacheStats struct {
	// Hits counts requests answered with a fresh response, Stale requests answered with a stale response.
	Hits, Stale uint64
	// Fetched counts requests to the handler that the cache made, Failed the part that the handler did not answer well.
	// FetchDenied counts the requests that the limits of their keys denied.
	Fetched, Failed, FetchDenied uint64
	// Collapsed counts waits for the response to another request, and TimedOut the requests denied because that took
	// too long and no stale response was left.
	Collapsed, TimedOut uint64
	// Bypassed counts requests that bypassed the cache, NotStored responses that were not stored, by the reason.
	Bypassed, NotStored map[string]uint64
	// Evicted counts entries that other entries replaced, Purged entries that Purge removed.
	Evicted, Purged uint64
	Entries         uint64
	Bytes           int64
}

func (p *Pipeline) currentHealth(now time.Time, decided *gate.Stats) Health {
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

// Stats reads the counters. It is made for a call once a second, not for each request.
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
		Health:    p.currentHealth(time.Now(), &decided),
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
