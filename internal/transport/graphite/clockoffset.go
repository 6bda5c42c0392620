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
	longestLag int64 // largest lag since minute
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
	// maxAhead is the number of seconds that counts may lie in the future (detect.DefaultFuture).
	maxAhead = 2
	// delayKept is the number of seconds for which a delay is kept that is longer than needed.
	delayKept = 60
)

// observeClock records the time of Graphite's clock, which is exact to off, and reports whether buckets that were taken
// by another difference have to be forgotten.
func (o *clockOffset) observeClock(now, server time.Time, off time.Duration) (changed bool) {
	d := server.Sub(now)
	held := time.Duration(o.difference) * time.Second
	if (d - held).Abs() <= time.Second/2+off {
		return false
	}
	by := int64(math.Round(d.Seconds())) - o.difference
	o.difference += by
	if !o.known {
		return false
	}
	o.counted = append(o.counted, span{o.from, o.newest})
	o.counted = o.counted[max(0, len(o.counted)-maxSpans):]
	o.edge += by // the same second of our clock
	o.after, o.upTo = 0, o.edge-o.delay
	o.newest, o.from = o.upTo, o.upTo+1
	o.setDelay(o.serverSecond(now), o.delay)
	return true
}

// wasCounted reports whether a second may have been counted before the difference changed.
func (o *clockOffset) wasCounted(second int64) bool {
	return slices.ContainsFunc(o.counted, func(s span) bool { return s.from <= second && second <= s.to })
}

// serverSecond returns the current second of Graphite's clock.
func (o *clockOffset) serverSecond(now time.Time) int64 { return now.Unix() + o.difference }

// observeNewest records the newest second of a poll. fresh is true if a poll of the last moments would have brought
// that second had it been there: only then its lag is caused by Graphite and not by a lack of requests. step is the
// length of a bucket.
func (o *clockOffset) observeNewest(now time.Time, newest, step int64, fresh bool) {
	if o.known && newest <= o.newest {
		return
	}
	before := o.newest
	o.newest = newest
	o.adjustDelay(before, o.serverSecond(now), step, fresh)
	if newest > o.upTo {
		o.edge = max(o.edge, newest+o.delay)
	}
}

// adjustDelay chooses the delay by the lag of the newest second; second is the current second of Graphite's clock.
func (o *clockOffset) adjustDelay(before, second, step int64, fresh bool) {
	lag := second - o.newest
	switch {
	case !o.known:
		o.known = true
		o.setDelay(second, min(lag, 1+step))
	case !fresh || lag > maxLag+step || lag < -maxLag:
	case lag > o.delay:
		o.setDelay(second, lag)
	case o.delay-lag > maxAhead:
		o.shrinkDelay(before, second, lag)
	default:
		o.longestLag = max(o.longestLag, lag)
		if second-o.minute >= delayKept {
			o.shrinkDelay(before, second, o.longestLag)
		}
	}
}

// setDelay sets the delay and begins a new measurement of the lag.
func (o *clockOffset) setDelay(second, delay int64) {
	o.delay, o.longestLag, o.minute = delay, 0, second
}

// shrinkDelay shortens the delay. The seconds after newest whose new place is already in use are left out.
func (o *clockOffset) shrinkDelay(newest, second, delay int64) {
	o.after, o.upTo = newest, o.edge-delay
	o.setDelay(second, delay)
}

// placeOf returns our second for a second of Graphite's clock, or false if the second is left out.
func (o *clockOffset) placeOf(second int64) (int64, bool) {
	if o.after < second && second <= o.upTo || o.wasCounted(second) {
		return 0, false
	}
	return second - o.difference + o.delay, true
}
