package graphite

import (
	"math"
	"slices"
	"time"
)

// clockOffset maps the seconds of Graphite's clock to the seconds of ours at which their counts are placed. The two
// differ by the clocks and by a delay.
//
// The clocks: Graphite's clock may be minutes off. Each response carries its time, to the second. The difference in use
// is a whole number of seconds and is kept until it is wrong by more than a second and a half. Otherwise it would jump
// back and forth, and seconds would be left out or counted twice.
//
// The delay: the newest second in Graphite was counted a moment ago. The lag can be measured for a second that the
// previous poll did not see and this poll does. All counts are delayed by the longest lag, as an audio player buffers
// for the latest packet: with a shorter delay, windows would be judged before they are full, and with a changing one
// the same second of a window would get counts twice. Therefore the delay grows at once, which leaves a gap in the
// windows. It shrinks if a minute needed less, or at once if it is so far off that counts would lie further in the
// future than a window accepts; the seconds that would then fall on occupied ones are left out. All of these errors
// lead to fewer counts, never to more.
//
// A clock that is set: the seconds seen by a clock that was ahead do not tell anything about the corrected clock. When
// the difference changes, the newest second is forgotten, and the seconds of Graphite's clock that were seen are kept
// as a span, so that they are not counted again when the clock reaches them a second time.
//
// The zero value is ready for use. A clockOffset is not safe for concurrent use.
type clockOffset struct {
	known      bool  // a second was observed
	difference int64 // Graphite's clock less ours, in seconds
	delay      int64 // seconds; negative if the StatsD server's clock is fast
	newest     int64 // the newest second seen, by Graphite's clock
	edge       int64 // the latest place in use, by the same clock
	most       int64 // largest lag since minute
	minute     int64
	// The seconds after after, up to and including upTo, are left out since the delay shrank or the difference changed.
	after, upTo int64
	from        int64  // the first second that may have been counted since the difference changed
	counted     []span // the seconds that may have been counted before that
}

// span is a range of seconds of Graphite's clock, both ends included.
type span struct{ from, to int64 }

// maxSpans is the maximum number of remembered spans. If the clock is set more often, the oldest span is forgotten.
const maxSpans = 64

const (
	// ahead is the number of seconds that counts may lie in the future (detect.DefaultFuture).
	ahead = 2
	// remember is the number of seconds for which a delay is kept that is longer than needed.
	remember = 60
)

// observeClock records the time of Graphite's clock, which is exact to off, and reports whether buckets that were taken
// by another difference have to be forgotten.
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
	p.edge += by // the same second of our clock
	p.after, p.upTo = 0, p.edge-p.delay
	p.newest, p.from = p.upTo, p.upTo+1
	p.restart(p.server(now), p.delay)
	return true
}

// wasCounted reports whether a second may have been counted before the difference changed.
func (p *clockOffset) wasCounted(second int64) bool {
	return slices.ContainsFunc(p.counted, func(s span) bool { return s.from <= second && second <= s.to })
}

// server returns the current second of Graphite's clock.
func (p *clockOffset) server(now time.Time) int64 { return now.Unix() + p.difference }

// observe records the newest second of a poll. fresh is true if a poll of the last moments would have brought that
// second had it been there: only then its lag is caused by Graphite and not by a lack of requests. step is the length
// of a bucket.
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

// adjust chooses the delay by the lag of the newest second; second is the current second of Graphite's clock.
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

// restart sets the delay and begins a new measurement of the lag.
func (p *clockOffset) restart(second, delay int64) {
	p.delay, p.most, p.minute = delay, 0, second
}

// shrink shortens the delay. The seconds after newest whose new place is already in use are left out.
func (p *clockOffset) shrink(newest, second, delay int64) {
	p.after, p.upTo = newest, p.edge-delay
	p.restart(second, delay)
}

// place returns our second for a second of Graphite's clock, or false if the second is left out.
func (p *clockOffset) place(second int64) (int64, bool) {
	if p.after < second && second <= p.upTo || p.wasCounted(second) {
		return 0, false
	}
	return second - p.difference + p.delay, true
}
