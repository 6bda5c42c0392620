package hotset

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
)

const (
	// DefaultNoInputTTL is the time for which hot keys stay after their publisher has ceased to renew them. A key that
	// has cooled meanwhile costs its requests a call of their limit; a key that has not cooled is the reason for the
	// limit.
	DefaultNoInputTTL = 10 * time.Minute
	// StaleAfter is the time for which a publisher may be silent and still counts as received: several publications.
	StaleAfter = 5 * time.Second
)

// State is the knowledge of a replica about a publisher.
type State int

// The states of a publisher.
const (
	Live    State = iota // it publishes
	NoInput              // it publishes, and reports that it receives no counts: nothing cools
	Stale                // it was not received for StaleAfter; its keys are kept
	Expired              // it was silent for so long that its keys have ended
	Stopped              // it reported that it stops; its keys are kept
)

// PublisherChange is a publisher whose State has changed. A publisher that appears in state Live is not a change.
type PublisherChange struct {
	Publisher string
	State     State
	Keys      int       // hot keys in its last set
	Until     time.Time // end of the keys unless it is received again
}

type published struct {
	set      report.HotSet
	lastSeen time.Time // time of the newest set, by CheckPublishers' clock; zero before its first
	fresh    bool      // a set has arrived since the last CheckPublishers
}

// reported holds the states that CheckPublishers has returned. The replica's mu guards it.
type reported struct {
	checkedAt    time.Time // of the last call
	lastReported map[string]PublisherChange
}

func (m *Replica) noInputTTL() time.Duration {
	if m.NoInputTTL == 0 {
		return DefaultNoInputTTL
	}
	return max(m.NoInputTTL, 0)
}

func (p *published) validUntil() time.Time {
	last := p.set.At
	for _, list := range [][]hottype.HotKey{p.set.Keys, p.set.Loops} {
		for i := range list {
			last = Later(last, list[i].Until)
		}
	}
	return last
}

// goneAt returns the time from which nothing is left of the set, or of the publisher.
func (p *published) goneAt(keep time.Duration) time.Time {
	return Later(p.validUntil(), p.set.At.Add(StaleAfter)).Add(keep)
}

// stateAt returns the state at now. If CheckPublishers is never called, the publisher's clock decides.
func (p *published) stateAt(now time.Time) State {
	last := p.lastSeen
	if p.fresh {
		last = Later(last, p.set.At)
	}
	switch {
	case p.set.Last:
		return Stopped
	case now.Sub(last) > StaleAfter:
		return Stale
	case p.set.NoInput:
		return NoInput
	}
	return Live
}

// newsAge is the time after its last publication from which on a publisher is no evidence that a key has ended.
const newsAge = StaleAfter / 2

// HasEnded reports whether a key that has left the set, hot or a loop, has ended: a publisher that receives counts was
// received lately, and no publisher that is silent or without input has the key. Publishers that have stopped do not
// matter. Otherwise the key has left because it is no longer renewed.
func (m *Replica) HasEnded(key hottype.Key, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	heard := false
	for _, p := range m.sets {
		switch state := p.stateAt(now); {
		case state == Stopped:
		case state == Live && (p.fresh || now.Sub(p.lastSeen) <= newsAge):
			heard = true
		case p.hasKey(key):
			return false
		}
	}
	return heard
}

// hasKey reports whether a key is in the last set of the publisher.
func (p *published) hasKey(key hottype.Key) bool {
	is := func(h hottype.HotKey) bool { return h.Key == key }
	return slices.ContainsFunc(p.set.Keys, is) || slices.ContainsFunc(p.set.Loops, is)
}

// FirstPublisher returns the first publisher by name of the publishers that are received, or "" if there are none: all
// replicas of the same publishers agree on it.
func (m *Replica) FirstPublisher(now time.Time) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, publisher := range slices.Sorted(maps.Keys(m.sets)) {
		if m.sets[publisher].stateAt(now) < Stale {
			return publisher
		}
	}
	return ""
}

// CheckPublishers returns the publishers whose state has changed since the previous call, by name. One goroutine calls
// it about once a second: a publisher's silence is counted from the first call that finds a set of it, so its clock
// need not agree with ours.
func (m *Replica) CheckPublishers(now time.Time) []PublisherChange {
	m.prunePublishers(now)
	m.mu.Lock()
	defer m.mu.Unlock()
	slept := now.Sub(m.checkedAt) > StaleAfter // this process: no publisher was seen
	m.checkedAt = now
	if m.lastReported == nil {
		m.lastReported = make(map[string]PublisherChange)
	}
	var changed []PublisherChange
	for publisher, p := range m.sets {
		if p.fresh || slept {
			p.lastSeen, p.fresh = now, false
		}
		before, known := m.lastReported[publisher]
		s := PublisherChange{Publisher: publisher, State: p.stateAt(now), Keys: len(p.set.Keys),
			Until: p.goneAt(m.noInputTTL())}
		m.lastReported[publisher] = s
		if s.State != before.State || !known && s.State != Live {
			changed = append(changed, s)
		}
	}
	for publisher, s := range m.lastReported {
		if m.sets[publisher] == nil {
			s.State = Expired
			delete(m.lastReported, publisher)
			changed = append(changed, s)
		}
	}
	slices.SortFunc(changed, func(a, b PublisherChange) int { return cmp.Compare(a.Publisher, b.Publisher) })
	return changed
}

// Stats counts the sets that a Replica received. Keys, Publishers and Version are current; Keys includes the keys that
// expired since the last Replace.
type Stats struct {
	Keys              int64   `metric:"hotparam_hotset_keys" help:"Hot keys in this process's copy of the hot set."`
	Loops             int64   `metric:"hotparam_hotset_loops" help:"Loops in this process's copy of the hot set: keys over their threshold because of one or a few clients."`
	KeysKept          int64   `metric:"hotparam_hotset_keys_kept" help:"Keys that are hot only because their aggregator is stale or has stopped."`
	Publishers        int64   `metric:"hotparam_hotset_publishers" help:"Aggregators that publish."`
	NoInputPublishers int64   `metric:"hotparam_hotset_no_input_publishers" help:"Aggregators that publish and receive no counts."`
	StalePublishers   int64   `metric:"hotparam_hotset_stale_publishers" help:"Aggregators that stopped publishing without notice and whose keys stay hot."`
	Version           uint64  `metric:"hotparam_hotset_version" help:"Highest version of a hot set."`
	AgeSeconds        float64 `metric:"hotparam_hotset_age_seconds" help:"Age of the newest hot set, by the aggregator's clock; -1 before the first."`

	Replaced          uint64 `metric:"hotparam_hotset_replaced_total" help:"Hot sets applied."`
	Ignored           uint64 `metric:"hotparam_hotset_ignored_total" help:"Hot sets ignored because a newer set was already in memory."`
	ExpiredPublishers uint64 `metric:"hotparam_hotset_expired_publishers_total" help:"Aggregators dropped because their keys expired or there were too many aggregators."`
}

// Stats returns the counters, and the age at now. Any goroutine may call it.
func (m *Replica) Stats(now time.Time) Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	st := Stats{AgeSeconds: -1, Replaced: m.replaced, Ignored: m.ignored, ExpiredPublishers: m.forgotten}
	for _, p := range m.sets {
		st.Version = max(st.Version, p.set.Version)
		switch p.stateAt(now) {
		case Stopped:
		case Stale:
			st.StalePublishers++
		case NoInput:
			st.NoInputPublishers++
			st.Publishers++
		default:
			st.Publishers++
		}
	}
	if s := m.current.Load(); s != nil {
		st.Keys, st.Loops = int64(len(s.entries)), int64(len(s.loops))
		st.AgeSeconds = now.Sub(s.at).Seconds()
		for _, e := range s.entries {
			if e.isLive(now.UnixMicro()) && !e.hot.Load().Until.After(now) {
				st.KeysKept++
			}
		}
	}
	return st
}
