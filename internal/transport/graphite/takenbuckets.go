package graphite

import "github.com/hotparam/pipeline/hotparam/hottype"

// takenBuckets remembers which buckets of which series have been taken, so that each
// is counted once however often it is answered, in whatever order, and also
// one that was empty when its neighbours were taken already. Not safe for
// concurrent use.
type takenBuckets struct {
	most   int
	series map[string]*seriesBuckets
}

// seriesBuckets is what was taken of one series. Buckets are known by their number:
// their time divided by the step.
type seriesBuckets struct {
	key    hottype.Key
	step   int64
	newest int64 // number of the newest bucket taken
	// before has a bit for each bucket that was taken before the newest one:
	// bit 0 for the one right before it. What is older counts as taken.
	before uint64
	at     int64 // time of the newest bucket taken
}

func newTakenBuckets(most int) *takenBuckets {
	return &takenBuckets{most: most, series: make(map[string]*seriesBuckets)}
}

// learn adds a series. The ledger must not be full.
func (l *takenBuckets) learn(name string, key hottype.Key) *seriesBuckets {
	a := &seriesBuckets{key: key}
	l.series[name] = a
	return a
}

// take notes a bucket and reports whether it is new.
func (a *seriesBuckets) take(at, step int64) bool {
	if a.step != step { // a new account, or another schema of carbon
		if a.step != 0 && at <= a.at {
			return false
		}
		a.step, a.newest, a.before, a.at = step, at/step, 0, at
		return true
	}
	n := at / step
	back := a.newest - n
	switch {
	case back < 0:
		a.before = (a.before<<1 | 1) << uint64(-back-1)
		a.newest, a.at = n, at
		return true
	case back == 0 || back > 64:
		return false
	}
	bit := uint64(1) << (back - 1)
	isNew := a.before&bit == 0
	a.before |= bit
	return isNew
}

// forget drops the series of which nothing new came since a time. It must be
// before everything that can still be answered, or that would be counted twice.
func (l *takenBuckets) forget(before int64) {
	for name, a := range l.series {
		if a.at < before {
			delete(l.series, name)
		}
	}
}
