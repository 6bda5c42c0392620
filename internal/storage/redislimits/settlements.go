package redislimits

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/wait"
)

const (
	// settleEvery is the time for which settlements are collected.
	settleEvery = 10 * time.Millisecond
	// settleTimeout is the longest time that a call in the background may take, for settlements or for an undo.
	settleTimeout = time.Second
	// refundSlack is added to the age of charges, because they were made by the clock of Redis, which is known except
	// for the time of two calls. Too great an age refunds less.
	refundSlack = 20 * time.Millisecond
	// maxSettlements is the maximum number of refunds, and of charges, that wait while Redis does not answer.
	maxSettlements = 1 << 14
)

// Settlements settles requests whose responses are known: it refunds charges because of their statuses, and charges the
// costs of rules with a cost, many in one call. Any number of goroutines may use it, but only one may call Run. The
// undo of charges after a denial or a failure of another shard does not pass through it (see Limiter.undoPart).
type Settlements struct {
	store *Limiter

	mu      sync.Mutex
	refunds []waitingRefund          // guarded by mu, as the next field
	charges map[chargeTerms]settling // by terms, because costs under the same terms are one cost
	signal  chan struct{}            // holds a value after the first that waits

	refunded, lost, forgiven, costsLost atomic.Uint64
}

// waitingRefund is a charge to refund, and the time at which it was made, by the clock of this process.
type waitingRefund struct {
	charge limit.Charge
	at     time.Time
}

// chargeTerms is a charge without its cost.
type chargeTerms struct {
	subject limit.Subject
	spec    limit.Spec
}

// settling is the sum of the costs of requests.
type settling struct {
	cost     int64
	requests uint64
}

// SettlementsStats counts charges to refund by their cost, and costs to charge by their requests.
type SettlementsStats struct {
	Refunded uint64 `metric:"hotparam_redis_limits_refunded_total" help:"Cost refunded to limits in Redis because of the status of a response."`
	Lost     uint64 `metric:"hotparam_redis_limits_refunded_lost_total" help:"Refunds that failed because Redis did not answer or the limit has changed; the cost stays charged."`
	Forgiven uint64 `metric:"hotparam_redis_limits_costs_forgiven_total" help:"Requests whose cost was not charged as a whole, because their limit in Redis was as far in debt as it may be."`
	// CostsLost counts requests of limits whose server did not answer.
	CostsLost uint64 `metric:"hotparam_redis_limits_costs_lost_total" help:"Requests whose cost was not charged, because Redis did not answer."`
}

// Settlements returns a part that settles charges that others have made to this limiter.
func (l *Limiter) Settlements() *Settlements {
	return &Settlements{store: l, signal: make(chan struct{}, 1), charges: map[chargeTerms]settling{}}
}

// Refund refunds a charge that was made at time at by the clock of this process. It neither waits nor fails. Cost that
// the bucket has regained is not refunded twice.
func (s *Settlements) Refund(at time.Time, c limit.Charge) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.refunds) >= maxSettlements {
		s.lost.Add(uint64(max(0, c.Cost)))
		return
	}
	s.refunds = append(s.refunds, waitingRefund{c, at})
	s.wake()
}

// Charge charges as much of the cost of a request as fits. It neither waits nor fails.
func (s *Settlements) Charge(c limit.Charge) {
	terms := chargeTerms{c.Subject, c.Spec}
	s.mu.Lock()
	defer s.mu.Unlock()
	sum, known := s.charges[terms]
	if !known && len(s.charges) >= maxSettlements {
		s.costsLost.Add(1)
		return
	}
	sum.cost, sum.requests = min(sum.cost, 1<<60)+min(c.Cost, 1<<60), sum.requests+1 // beyond any capacity anyway
	s.charges[terms] = sum
	s.wake()
}

// wake makes Run settle. The caller holds mu.
func (s *Settlements) wake() {
	if len(s.refunds)+len(s.charges) == 1 {
		wait.Signal(s.signal)
	}
}

// Run settles until ctx ends and nothing waits. It returns nil.
func (s *Settlements) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		select {
		case <-s.signal:
			wait.For(ctx, settleEvery)
		case <-ctx.Done():
		}
		s.flush(ctx)
	}
	return nil
}

// flush settles all that waits, also if ctx ends meanwhile.
func (s *Settlements) flush(ctx context.Context) {
	s.mu.Lock()
	refunds, charges := s.refunds, s.charges
	s.refunds, s.charges = nil, map[chargeTerms]settling{}
	s.mu.Unlock()
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if len(refunds) > 0 {
		s.refundAll(within, refunds)
	}
	for terms, sum := range charges {
		s.chargeCosts(within, terms, sum)
	}
}

// refundAll makes refunds in one round trip.
func (s *Settlements) refundAll(ctx context.Context, waiting []waitingRefund) {
	now, cost := s.store.now(), int64(0)
	refunds := make([]refundItem, len(waiting))
	for i, w := range waiting {
		// The clock of the server is not known here, so it gets the age.
		age := max(0, now.Sub(w.at)) + refundSlack
		refunds[i] = refundItem{charge: w.charge, when: -age.Microseconds()}
		cost += w.charge.Cost
	}
	refunded := s.store.refundAcrossShards(ctx, refunds)
	s.refunded.Add(uint64(refunded))
	s.lost.Add(uint64(cost - refunded))
}

// chargeCosts charges the costs of requests in one round trip, or two if not all of them fit.
func (s *Settlements) chargeCosts(ctx context.Context, terms chargeTerms, sum settling) {
	n, _, err := limit.TakeUpTo(ctx, s.store, s.store.now(),
		limit.Charge{Subject: terms.subject, Spec: terms.spec, Cost: sum.cost})
	switch {
	case err != nil:
		s.costsLost.Add(sum.requests)
	case n < sum.cost:
		s.forgiven.Add(sum.requests)
	}
}

// Stats returns the counters.
func (s *Settlements) Stats() SettlementsStats {
	return SettlementsStats{Refunded: s.refunded.Load(), Lost: s.lost.Load(), Forgiven: s.forgiven.Load(),
		CostsLost: s.costsLost.Load()}
}
