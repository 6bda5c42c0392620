package distributed

import (
	"context"
	"time"

	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/wait"
)

// exchangeEvery is how often an aggregator tells others what it has seen, and hears of them.
const exchangeEvery = 2 * time.Second

// exchange tells the other aggregators, and this one after a restart, what this one has seen of the requests of each
// rule, and takes what they have: with partitions, the keys of one rule are counted in several processes.
func (a *Aggregator) exchange(ctx context.Context) error {
	failing := false
	once := func() {
		bounded, cancel := context.WithTimeout(ctx, exchangeEvery/2)
		defer cancel()
		all, err := a.Feed.ExchangeAggregators(bounded, a.Report())
		if err != nil && !failing && ctx.Err() == nil {
			a.log.Warn("what other aggregators have seen of each rule is not known; trying again", "err", err)
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

// Report is what this aggregator says of itself.
func (a *Aggregator) Report() report.Aggregator {
	r := report.Aggregator{Instance: a.instance, At: a.now(), RulesHash: a.Rules().Hash, Use: a.Aggregate.Use()}
	if a.Reported != nil {
		a.Reported(&r)
	}
	return r
}
