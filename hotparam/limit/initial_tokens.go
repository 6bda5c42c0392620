package limit

// First sight. A bucket starts full, because "nothing taken" and "no state" are
// the same thing. One that is to start with less (Spec.InitialDeficit) begins to fill when
// its subject is first seen, so that moment has to be kept, even where the first
// call is denied: that is the one thing which such a denial writes. And it has to
// be kept while the bucket is full, or who comes back would be a stranger: a
// shared store keeps it for a day, a Memory until it needs the place or sweeps.

// FirstSeenMillis is how long a shared store remembers a full bucket that had
// not started full.
const FirstSeenMillis = 24 * 60 * 60 * 1000

// firstSeen is the state of a bucket whose subject was not known before.
func (t *Compiled) firstSeen(now int64) *state {
	return &state{kind: KindBucket, at: now, used: t.InitialDeficit, unit: t.Unit, aux: t.Fill}
}

// meet remembers the subject of a charge that was denied, where it was not known
// and its bucket does not start full.
func (m *Memory) meet(now int64, p *pending) {
	if p.compiled.InitialDeficit == 0 || p.cost == 0 || p.stored().kind != KindNone {
		return
	}
	if p.slot < 0 || p.tab.entries[p.slot].id != p.id {
		p.slot = p.tab.put(p.id, m.room, now)
	}
	p.tab.write(&p.tab.entries[p.slot], p.compiled.firstSeen(now), 0)
}
