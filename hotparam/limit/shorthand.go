package limit

import "time"

// Every allows n calls per window, as a token bucket of n: all of them at once, or
// one each time that a part of the window is over. It is what most limits mean;
// write a Spec for another burst or algorithm.
func Every(window time.Duration, n int64) Spec {
	return Spec{Algorithm: TokenBucket, Limit: n, Window: window, Burst: n}
}

// PerSecond is Every second.
func PerSecond(n int64) Spec { return Every(time.Second, n) }

// PerMinute is Every minute.
func PerMinute(n int64) Spec { return Every(time.Minute, n) }

// PerHour is Every hour.
func PerHour(n int64) Spec { return Every(time.Hour, n) }
