package redislimits

import (
	"context"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// takeByShard takes charges in several shards, each by the clock of its shard: by the clock of another one, a window
// would begin or end at another time than for the other charges of its subject, and if the clocks differ by more than
// limit.Memory tolerates, it would begin afresh. First all charges are judged and none is taken, so that a denial by
// any shard has changed nothing. The stripes of the charges are locked, so that the results stay true until then.
func (w *Windows) takeByShard(ctx context.Context, now time.Time, charges []limit.Charge,
	results []limit.Result) (allowed bool, err error) {
	parts := splitByShard(charges, w.store.Shard)
	allowed = true
	for _, p := range parts {
		p.at = time.UnixMicro(w.shards[p.shard].redisTime(now))
		judged := make([]limit.Result, len(p.charges)+1)
		if _, err := w.local.Take(ctx, p.at, append(p.charges, neverAllowed), judged); err != nil {
			return false, err
		}
		copy(p.results, judged)
		for i := range p.results {
			allowed = allowed && p.results[i].Allowed
		}
	}
	for _, p := range parts {
		if allowed {
			if _, err := w.local.Take(ctx, p.at, p.charges, p.results); err != nil {
				return false, err
			}
		}
		w.recordCharges(p.at.UnixMicro(), p.charges, signOf(allowed))
		for i, of := range p.index {
			results[of] = p.results[i]
		}
	}
	return allowed, nil
}

// signOf returns the sign with which recordCharges records charges. Of denied charges nothing was admitted, but their
// sums are of use.
func signOf(allowed bool) int64 {
	if allowed {
		return 1
	}
	return 0
}
