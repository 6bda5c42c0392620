package gate

import (
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/guarded"
)

// Stats are the gate's counters since it was built. They only grow, but for
// the states StoreOpen, StoreParts and StoreOut.
type Stats struct {
	// Allowed and Denied are the requests by reason.
	Allowed hottype.Admissions
	Denied  hottype.Denials
	// Shadowed are those of Allowed that a limit in shadow mode would deny.
	Shadowed uint64
	// ShadowedIP are those of Shadowed that a window of their client would deny.
	ShadowedIP uint64
	// HeldBack are those of Allowed that are delayed.
	HeldBack uint64
	// Candidates are requests for keys whose limit has a candidate, by how the two agree.
	Candidates Candidates

	// StoreCalls are calls of the shared store, StoreErrors those of them that failed, and
	// StoreRefused the calls that a breaker kept from it.
	StoreCalls, StoreErrors, StoreRefused uint64
	// Spared are denials without a store, because it would deny again.
	Spared uint64
	// StoreOpened and StoreClosed count the beginnings and ends of outages, of
	// each server of the store.
	StoreOpened, StoreClosed uint64
	// StoreOpen is whether a breaker is open or probing now.
	StoreOpen bool
	// StoreParts is how many breakers there are, and StoreOut how many of them are
	// open: one, or on a cluster as many as there are masters, as far as the last
	// failure showed.
	StoreParts, StoreOut int64
	// StoreLatency counts the calls by duration.
	StoreLatency Latency
	// LocalErrors are failures of the local store. limit.Memory has none.
	LocalErrors uint64
	// Refunded is the cost that was refunded because of the status of the response. The shared
	// store counts its refunds too.
	Refunded uint64
}

// Candidates compares candidate limits with the live ones.
type Candidates struct {
	Same     uint64 // both allow it, or neither
	Stricter uint64 // only the candidate would deny it
	Looser   uint64 // only the live one denies it
}

// Latency is a histogram of calls to the shared store.
type Latency = guarded.Latency

// shards is how many sets of counters there are. Each pooled decision is bound to
// one. The pool keeps decisions by processor, so that processors rarely write to the
// same cache line; with one shared counter two cores are slower than one.
const shards = 16

// stats are the gate's counters.
type stats struct {
	shards      [shards]shard
	next        atomic.Uint32
	localErrors atomic.Uint64
	refunded    atomic.Uint64
}

// shard is one set of counters, on cache lines of its own.
type shard struct {
	allowed                [hottype.NumReasons]atomic.Uint64
	denied                 [hottype.NumReasons]atomic.Uint64
	shadowed, shadowedIP   atomic.Uint64
	spared, heldBack       atomic.Uint64
	same, stricter, looser atomic.Uint64 // candidates
	_                      [48]byte
}

func (s *stats) shard() *shard { return &s.shards[s.next.Add(1)%shards] }

func (s *shard) verdict(v *hottype.Verdict) {
	if !v.Allowed {
		s.denied[v.Reason].Add(1)
		return
	}
	s.allowed[v.Reason].Add(1)
	if v.Wait > 0 {
		s.heldBack.Add(1)
	}
	if v.Shadowed {
		s.shadowed.Add(1)
		if v.ShadowReason.Info().OfClient {
			s.shadowedIP.Add(1)
		}
	}
}

// candidate counts how candidate and live limits agreed.
func (s *shard) candidate(candidate, live bool) {
	switch {
	case candidate == live:
		s.same.Add(1)
	case live:
		s.stricter.Add(1)
	default:
		s.looser.Add(1)
	}
}

// Stats reads the counters. Each is exact; they are not read at one instant.
func (g *Gate) Stats() Stats {
	out := Stats{LocalErrors: g.stats.localErrors.Load(), Refunded: g.stats.refunded.Load()}
	for i := range g.stats.shards {
		g.stats.shards[i].addTo(&out)
	}
	if g.shared != nil {
		s := g.shared.Stats()
		out.StoreCalls, out.StoreErrors, out.StoreRefused = s.Calls, s.Errors, s.Refused
		out.StoreOpened, out.StoreClosed, out.StoreParts, out.StoreOut = s.Opened, s.Closed, s.Breakers, s.Open
		out.StoreOpen, out.StoreLatency = s.Open > 0, s.Latency
	}
	return out
}

func (s *shard) addTo(out *Stats) {
	for r := range hottype.Reasons() {
		out.Allowed[r] += s.allowed[r].Load()
		out.Denied[r] += s.denied[r].Load()
	}
	out.Shadowed += s.shadowed.Load()
	out.ShadowedIP += s.shadowedIP.Load()
	out.Candidates.Same += s.same.Load()
	out.Candidates.Stricter += s.stricter.Load()
	out.Candidates.Looser += s.looser.Load()
	out.Spared += s.spared.Load()
	out.HeldBack += s.heldBack.Load()
}

// Report is what the gate has decided so far, one row a key: first the hot
// ones, heaviest first, then those that only an override decides on, by key.
// An override with a pattern has one row under its pattern (which contains a "*",
// as no key does) for all keys that it decided on and that were not hot then.
func (g *Gate) Report(now time.Time) hottype.Report {
	st := g.Stats()
	r := hottype.Report{Instance: g.instance, At: now, Allowed: st.Allowed.Total(), Denied: st.Denied}
	rows := make(map[hottype.Key]int)
	hot := g.hot.Entries(now)
	r.Samples = g.sampled(hot)
	for _, e := range hot {
		key := e.Key()
		rows[key] = len(r.Keys)
		r.Keys = append(r.Keys, e.Of(key))
	}
	for _, o := range g.cur.Load().sortedOverrideStates() {
		d := o.Of(o.key)
		if n := d.Allowed + d.Denied + o.countedTwice.Load(); n > 0 {
			hits := hottype.OverrideHits{ID: o.id, N: n, WouldDeny: o.wouldDeny.Load()}
			r.OverrideHits = append(r.OverrideHits, hits)
		}
		if i, ok := rows[o.key]; ok {
			r.Keys[i].Allowed += d.Allowed
			r.Keys[i].Denied += d.Denied
			r.Keys[i].Served += d.Served
		} else if d.Allowed+d.Denied > 0 {
			rows[o.key] = len(r.Keys)
			r.Keys = append(r.Keys, d)
		}
	}
	return r
}
