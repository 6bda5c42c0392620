package main

import (
	"math"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// Every limit that is drawn is about most in length, so that pictures compare.
const (
	most   = 10
	length = time.Second
)

// subject is the subject of one picture.
type subject struct {
	file, title string
	spec        limit.Spec
	// bound returns the largest number that passes in any stretch of d, and promise describes it.
	bound   func(d time.Duration) float64
	promise string
	// waits is true if admitted calls may have to wait. The picture then also shows the times at which they continue.
	waits bool
}

func subjects() []subject {
	window := func(a limit.Algorithm) limit.Spec { return limit.Spec{Algorithm: a, Limit: most, Window: length} }
	refilled := func(a limit.Algorithm, burst int64) limit.Spec {
		s := window(a)
		s.Burst = burst
		return s
	}
	logged, waiting := window(limit.BucketedWindow), refilled(limit.TokenBucket, most/2)
	logged.Buckets, waiting.Wait = 10, length/2
	warming := window(limit.WarmingUp)
	warming.WarmUp, warming.Wait = 2*length, length/2
	const evenly = "burst + rate x d"
	return []subject{
		{"token_bucket.svg", "token bucket: 10 a second, burst 10", refilled(limit.TokenBucket, most), bucket(most),
			evenly, false},
		{"gcra.svg", "gcra: 10 a second, burst 9", refilled(limit.GCRA, most-1), bucket(most), "burst + 1 + rate x d",
			false},
		{"leaky_bucket.svg", "leaky bucket: 10 a second, burst 9", refilled(limit.LeakyBucket, most-1), bucket(most),
			"burst + 1 + rate x d", true},
		{"fixed_window.svg", "fixed window: 10 a second", window(limit.FixedWindow), windows,
			"limit in each window touched: 2 x limit for d up to one window", false},
		{"anchored_window.svg", "anchored window: 10 a second", window(limit.AnchoredWindow), windows,
			"limit in each window touched: 2 x limit for d up to one window", false},
		{"sliding_window.svg", "sliding window: 10 a second", window(limit.SlidingWindow), weighted,
			"limit x (1 + d / window)", false},
		{"sliding_log.svg", "sliding log: 10 a second", window(limit.SlidingLog), logs, "limit in any window's length",
			false},
		{"bucketed_window.svg", "bucketed window: 10 a second, 10 buckets", logged, logs,
			"limit in any window's length", false},
		{"warming_up.svg", "warming up: 10 a second, warm-up 2s, wait 500ms", warming, bucket(most/2 + 1),
			"1 + rate x (d + wait)", true},
		{"wait.svg", "token bucket that lets wait: 10 a second, burst 5, wait 500ms", waiting, bucket(most),
			"burst + rate x (d + wait)", true},
	}
}

// bucket returns the bound of a bucket that is full at first, and refilled.
func bucket(size float64) func(time.Duration) float64 {
	return func(d time.Duration) float64 { return size + most*d.Seconds()/length.Seconds() }
}

// windows returns the bound of all windows that a stretch of d touches, wherever it begins.
func windows(d time.Duration) float64 {
	return most * (math.Ceil(d.Seconds()/length.Seconds()) + 1)
}

// weighted returns the bound of two windows that approximate a sliding window.
func weighted(d time.Duration) float64 { return most * (1 + d.Seconds()/length.Seconds()) }

// logs returns the bound of windows that each hold the limit: the windows that begin within d.
func logs(d time.Duration) float64 {
	return most * (math.Floor(d.Seconds()/length.Seconds()) + 1)
}
