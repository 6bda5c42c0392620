package replay

import "time"

// cadence is how often keys are judged: as often as an aggregator ticks, and as
// a tally flushes its counts. It divides a second.
const cadence = 100 * time.Millisecond

// maxCooling bounds how long finish waits for keys to cool.
const maxCooling = 7 * 24 * time.Hour

// tickState is when keys were last judged, and whether they have to be judged again.
type tickState struct {
	ticked    time.Time // the last tick
	added     time.Time // the first count since then, or since no key was a candidate; zero: none
	published int64     // the second of the last publication
}

// noteCounts records the time of the first count since the last tick.
func (e *engine) noteCounts(now time.Time) {
	if e.added.IsZero() && len(e.counted) > 0 {
		e.added = now
	}
}

// judgeUntil judges ten times a second, at whole tenths, up to now. It leaves
// out the tenths at which nothing can have changed: those before the next
// count, the next second and the end of any cooling, and all of them while no
// key is near its threshold. So a quiet log costs next to nothing.
func (e *engine) judgeUntil(now time.Time) {
	if now.Before(tenthAfter(e.ticked)) {
		return
	}
	for {
		at, ok := e.nextTick()
		if !ok || at.After(now) {
			return
		}
		e.tick(at)
	}
}

// nextTick is the next tenth at which keys have to be judged if nothing is
// counted before; false: none.
func (e *engine) nextTick() (at time.Time, ok bool) {
	due, ok := e.detector.NextChange()
	if !ok {
		e.added = time.Time{} // the counts since then made no key a candidate
		return due, false
	}
	at = tenthAfter(due.Add(-1))
	if next := tenthAfter(e.added); !e.added.IsZero() && next.Before(at) {
		at = next
	}
	return at.UTC(), true
}

// tenthAfter is the first whole tenth of a second that is later than t.
func tenthAfter(t time.Time) time.Time { return t.Truncate(cadence).Add(cadence) }

// tick runs the detector and publishes the hot set: as an aggregator does, if it
// has changed and otherwise once a second, before the set expires.
func (e *engine) tick(now time.Time) {
	set, changes := e.detector.Tick(now)
	e.ticked, e.added = now, time.Time{}
	if len(changes) > 0 || e.published != now.Unix() {
		e.published = now.Unix()
		e.version++
		set.Version = e.version
		e.hotSet.Replace(publisher, set)
	}
	for _, c := range changes {
		e.spans.change(c)
		e.loops.change(c)
	}
}

// finish advances time until no key is hot, and returns all spans.
func (e *engine) finish() (hot, loops []Span) {
	end := time.Unix(e.last+1, 0)
	e.judgeUntil(end.Add(maxCooling))
	if end.Before(e.ticked) {
		end = e.ticked
	}
	return e.spans.all(end.Unix()), e.loops.all(end.Unix())
}
