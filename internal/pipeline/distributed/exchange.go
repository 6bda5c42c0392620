package distributed

import (
	"context"
	"time"

	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/wait"
)

// exchangeEvery is the interval at which an aggregator sends its use of each rule to the others, and reads theirs.
const exchangeEvery = 2 * time.Second

// exchangeUse sends this aggregator's use of each rule to the other aggregators, and to itself after a restart, and
// merges theirs, because with partitions the keys of one rule are counted in several processes.
func (a *Aggregator) exchangeUse(ctx context.Context) error {
	failing := false
	once := func() {
		bounded, cancel := context.WithTimeout(ctx, exchangeEvery/2)
		defer cancel()
		all, err := a.Feed.ExchangeAggregators(bounded, a.Report())
		if err != nil && !failing && ctx.Err() == nil {
			a.log.Warn("the traffic of each rule at other aggregators is not known; trying again", "err", err)
		}
		failing = err != nil
		for i := range all {
			a.Aggregate.MergeUse(all[i].Use)
		}
	}
	once()
	wait.Every(ctx, exchangeEvery, once)
	return nil
}

// Report returns the report of this aggregator.
func (a *Aggregator) Report() report.Aggregator {
	r := report.Aggregator{Instance: a.instance, At: a.now(), RulesHash: a.Rules().Hash, Use: a.Aggregate.Use()}
	if a.Reported != nil {
		a.Reported(&r)
	}
	return r
}
