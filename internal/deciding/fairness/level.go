package fairness

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// Level is what an answer of the limit says about its bucket.
type Level struct {
	// Left of the bucket's capacity: 0 for empty, 1 for full.
	Left float64
	// Prefetched is the part of the capacity that this process has taken ahead.
	Prefetched float64
	// Limiters is how many processes share the bucket, at least 1.
	Limiters int64
}

// LevelOf reads the level from the answer to a charge of a spec. Time to full says more
// than what remains, which is rounded down to whole tokens. The answer to a prefetched
// charge says when the bucket that is shared would be full, and in Remaining what this
// process still has of it.
func LevelOf(s *limit.Spec, r *limit.Result, limiters int64, prefetched bool) Level {
	fill := float64(r.Limit) / float64(s.Limit) * float64(s.Window)
	l := Level{Left: 1 - float64(r.ResetAfter)/fill, Limiters: limiters}
	if prefetched {
		l.Prefetched = float64(r.Remaining) / float64(r.Limit)
	}
	return l
}

// note takes in a level. What is prefetched is answered with the same level until more
// is fetched, which must not seem new. It is called with mu held.
func (k *Divider) note(now time.Time, l Level) {
	left := max(0, min(l.Left, 1)) * k.burst
	if l.Prefetched == 0 || left != k.known {
		k.level, k.known, k.levelAt = left, left, now
	}
	k.ahead, k.inflow = l.Prefetched*k.burst, k.rate/float64(max(l.Limiters, 1))
}

// estimatedLevel is the level of the bucket at now: what was said last, and what has flowed in
// since for this process. It is called with mu held.
func (k *Divider) estimatedLevel(now time.Time) float64 {
	return min(k.burst, k.level+k.ahead+k.inflow*max(0, now.Sub(k.levelAt).Seconds()))
}
