package hotset

// Stats counts what a Mirror was told. Keys, Publishers and Version are of
// this moment; Keys still has the ones that expired since the last Replace.
type Stats struct {
	Keys       int64
	Publishers int64
	Version    uint64 `metric:"gauge"` // highest version held

	Replaced  uint64 // sets taken
	Ignored   uint64 // sets whose version was not above the last one
	Forgotten uint64 // publishers dropped, expired or beyond the cap
}

// Stats gives the counters. It may be called by any goroutine.
func (m *Mirror) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	st := Stats{
		Publishers: int64(len(m.sets)),
		Replaced:   m.replaced,
		Ignored:    m.ignored,
		Forgotten:  m.forgotten,
	}
	for _, set := range m.sets {
		st.Version = max(st.Version, set.Version)
	}
	if s := m.current.Load(); s != nil {
		st.Keys = int64(len(s.entries))
	}
	return st
}
