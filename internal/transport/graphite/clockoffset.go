package graphite

import (
	"math"
	"slices"
	"time"
)

// clockOffset says at which second of ours a second of Graphite's is counted. Two
// things are between them.
//
// The clocks: Graphite's may be minutes off. Each answer tells its time, to the
// second. The difference that is used is a whole number of seconds and stays
// until it is wrong by more than a second and a half, or it would jump to and
// fro and leave seconds out or count two in one.
//
// The delay: what is newest in Graphite was counted a moment ago. How long ago
// is measured where it can be: a second that the poll before did not see, and
// this one does. The longest lag is what all counts are delayed by, as a player
// of sound buffers for the latest packet: with a shorter one, windows would be
// judged before they are full, with a changing one they would get seconds
// twice. So the delay grows at once, which leaves a gap in the windows, and
// shrinks when a minute needed less, or at once when it is so far off that
// counts would lie beyond the future that a window takes; then the seconds that
// would fall on others are left out. All of these err to fewer counts, never to
// more.
//
// A clock that is set: what was seen of one that was ahead says nothing about the
// one that is right. When the difference changes, the newest second is forgotten,
// and the seconds of Graphite's clock that were seen are kept as a span: they are
// not counted again when the clock comes to them once more.
//
// The zero value is ready. Not safe for concurrent use.
type clockOffset struct {
	known      bool  // something was seen
	difference int64 // Graphite's clock less ours, in seconds
	delay      int64 // seconds; below 0 where the StatsD server's clock is fast
	newest     int64 // the newest second seen, by Graphite's clock
	edge       int64 // the latest place that was given away, by the same clock
	most       int64 // largest lag since minute
	minute     int64
	// after to upTo are left out since the delay shrank or the difference changed.
	after, upTo int64
	from        int64  // the first second that may have been counted since the difference changed
	counted     []span // the seconds that may have been counted before that
}

// span is a range of seconds of Graphite's clock, both ends included.
type span struct{ from, to int64 }

// maxSpans bounds the remembered spans; a clock that is set more often gets its oldest forgotten.
const maxSpans = 64

const (
	// ahead is how far in the future counts may lie (detect.DefaultFuture).
	ahead = 2
	// remember is how long a delay is kept that is longer than needed, in seconds.
	remember = 60
)

// observeClock hears what time it is in Graphite, give or take off, and reports whether what was seen by another
// difference has to be forgotten.
func (p *clockOffset) observeClock(now, server time.Time, off time.Duration) (changed bool) {
	d := server.Sub(now)
	held := time.Duration(p.difference) * time.Second
	if (d - held).Abs() <= time.Second/2+off {
		return false
	}
	by := int64(math.Round(d.Seconds())) - p.difference
	p.difference += by
	if !p.known {
		return false
	}
	p.counted = append(p.counted, span{p.from, p.newest})
	p.counted = p.counted[max(0, len(p.counted)-maxSpans):]
	p.edge += by // the same second of ours
	p.after, p.upTo = 0, p.edge-p.delay
	p.newest, p.from = p.upTo, p.upTo+1
	p.restart(p.server(now), p.delay)
	return true
}

// wasCounted reports whether a second may have been counted before the difference changed.
func (p *clockOffset) wasCounted(second int64) bool {
	return slices.ContainsFunc(p.counted, func(s span) bool { return s.from <= second && second <= s.to })
}

// server is the second it is in Graphite.
func (p *clockOffset) server(now time.Time) int64 { return now.Unix() + p.difference }

// observe hears which second is the newest that a poll brought, and whether a
// poll of the last moments would have brought it if it had been there: only
// then its lag is Graphite's, and not just a lack of requests.
// Step is the length of a bucket.
func (p *clockOffset) observe(now time.Time, newest, step int64, fresh bool) {
	if p.known && newest <= p.newest {
		return
	}
	before := p.newest
	p.newest = newest
	p.adjust(before, p.server(now), step, fresh)
	if newest > p.upTo {
		p.edge = max(p.edge, newest+p.delay)
	}
}

// adjust chooses the delay, at a second of Graphite's.
func (p *clockOffset) adjust(before, second, step int64, fresh bool) {
	lag := second - p.newest
	switch {
	case !p.known:
		p.known = true
		p.restart(second, min(lag, 1+step))
	case !fresh || lag > maxLag+step || lag < -maxLag:
	case lag > p.delay:
		p.restart(second, lag)
	case p.delay-lag > ahead:
		p.shrink(before, second, lag)
	default:
		p.most = max(p.most, lag)
		if second-p.minute >= remember {
			p.shrink(before, second, p.most)
		}
	}
}

// restart measures anew from a delay on.
func (p *clockOffset) restart(second, delay int64) {
	p.delay, p.most, p.minute = delay, 0, second
}

// shrink makes the delay shorter. Seconds after the newest that would meet a given place have none.
func (p *clockOffset) shrink(newest, second, delay int64) {
	p.after, p.upTo = newest, p.edge-delay
	p.restart(second, delay)
}

// place is our second for a second of Graphite's; false if it has none.
func (p *clockOffset) place(second int64) (int64, bool) {
	if p.after < second && second <= p.upTo || p.wasCounted(second) {
		return 0, false
	}
	return second - p.difference + p.delay, true
}
