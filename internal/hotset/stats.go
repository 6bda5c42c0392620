package hotset

import "time"

// Stats counts what a Replica was told. Keys, Publishers and Version are of
// this moment; Keys still has the ones that expired since the last Replace.
type Stats struct {
	Keys  int64
	Loops int64 // keys that are not hot because one or a few clients ask for them
	// KeysKept are the keys that are hot only because their publisher fell
	// silent and has not said that they are cold.
	KeysKept int64
	// Publishers are those that are heard; of them, BlindPublishers say that they
	// get no counts. SilentPublishers are those that are not heard any more, and
	// whose keys are kept.
	Publishers, BlindPublishers, SilentPublishers int64
	Version                                       uint64 // highest version held
	// AgeSeconds is how long ago the newest set was judged, by the clock of who
	// judged it; -1 before the first. Aggregators publish once a second.
	AgeSeconds float64

	Replaced  uint64 // sets taken
	Ignored   uint64 // sets whose version was not above the last one
	Forgotten uint64 // publishers dropped, expired or beyond the cap
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
		case Silent:
			st.SilentPublishers++
		case Blind:
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
