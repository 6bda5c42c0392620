package hotset

import "time"

// Stats counts what a Replica was told. Keys, Publishers and Version are of
// this moment; Keys still has the ones that expired since the last Replace.
type Stats struct {
	Keys  int64 `metric:"hotparam_hotset_keys" help:"Hot keys in this process's copy of the hot set."`
	Loops int64 `metric:"hotparam_hotset_loops" help:"Loops in this process's copy of the hot set: keys over their threshold because of one or a few clients."`
	// KeysKept are the keys that are hot only because their publisher fell
	// silent and has not said that they are cold.
	KeysKept int64 `metric:"hotparam_hotset_keys_kept" help:"Keys that are hot only because their aggregator fell silent."`
	// Publishers are those that are heard; of them, BlindPublishers say that they
	// get no counts. SilentPublishers are those that are not heard any more, and
	// whose keys are kept.
	Publishers       int64  `metric:"hotparam_hotset_publishers" help:"Aggregators that publish."`
	BlindPublishers  int64  `metric:"hotparam_hotset_blind_publishers" help:"Aggregators that publish and receive no counts."`
	SilentPublishers int64  `metric:"hotparam_hotset_silent_publishers" help:"Aggregators that stopped publishing and whose keys stay hot."`
	Version          uint64 `metric:"hotparam_hotset_version" help:"Highest version of a hot set."`
	// AgeSeconds is how long ago the newest set was judged, by the clock of who
	// judged it; -1 before the first. Aggregators publish once a second.
	AgeSeconds float64 `metric:"hotparam_hotset_age_seconds" help:"Age of the newest hot set, by the aggregator's clock; -1 before the first."`

	Replaced  uint64 `metric:"hotparam_hotset_replaced_total" help:"Hot sets taken."`
	Ignored   uint64 `metric:"hotparam_hotset_ignored_total" help:"Hot sets ignored because a newer one was there."`
	Forgotten uint64 `metric:"hotparam_hotset_forgotten_total" help:"Aggregators forgotten: gone for too long, or too many."`
}

// Stats gives the counters, and the age at now. It may be called by any
// goroutine.
func (m *Replica) Stats(now time.Time) Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	st := Stats{
		AgeSeconds: -1,
		Replaced:   m.replaced,
		Ignored:    m.ignored,
		Forgotten:  m.forgotten,
	}
	for _, p := range m.sets {
		st.Version = max(st.Version, p.set.Version)
		switch p.stateAt(now) {
		case Stale:
			st.SilentPublishers++
		case NoInput:
			st.BlindPublishers++
			st.Publishers++
		default:
			st.Publishers++
		}
	}
	if s := m.current.Load(); s != nil {
		st.Keys, st.Loops = int64(len(s.entries)), int64(len(s.loops))
		st.AgeSeconds = now.Sub(s.at).Seconds()
		for _, e := range s.entries {
			if e.live(now.UnixMicro()) && !e.hot.Load().Until.After(now) {
				st.KeysKept++
			}
		}
	}
	return st
}
