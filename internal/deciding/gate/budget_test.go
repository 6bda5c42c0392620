package gate_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/gate"
)

// budgetRules give a request two keys.
const budgetRules = `
rules:
  - {name: live, match: {path: /t}, params: [id], continue: true, hot: {rate: 10}, limit: {rate: 4, on_store_failure: open}}
  - {name: other, match: {path: /t}, params: [id], hot: {rate: 10}, limit: {rate: 4, on_store_failure: open}}
`

func budgeted(t *testing.T, store gate.SharedStore, budget time.Duration) *bundle {
	b := build(t, budgetRules, gate.Config{Shared: store, Budget: budget})
	b.hot("live?id=1", "other?id=1")
	return b
}

// took returns the duration of a decision, by the clock of the bubble.
func (b *bundle) took() (time.Duration, hottype.Verdict) {
	began := time.Now()
	v := b.get("/t?id=1", "1.1.1.1")
	return time.Since(began), v
}

// A store that does not answer costs a decision exactly Config.Budget, to the nanosecond, for any budget.
func TestBudgetIsKeptExactly(t *testing.T) {
	t.Parallel()
	for configured, want := range map[time.Duration]time.Duration{
		0: gate.DefaultBudget, time.Millisecond: time.Millisecond, 7 * time.Millisecond: 7 * time.Millisecond,
		gate.DefaultBudget: gate.DefaultBudget, 3 * time.Second: 3 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			b := budgeted(t, newUnreliable(stuck), configured)
			if d, v := b.took(); d != want || !v.Allowed || v.Reason != hottype.ReasonStore {
				t.Errorf("budget %v: took %v: %+v", configured, d, v)
			}
		})
	}
}

// slow is a shared store of two shards that takes its time for every call, if its context lets it. The shard
// of live fails, so that it is called again for the other one.
type slow struct {
	*sharded
	each time.Duration
}

func (s *slow) Shard(subject *limit.Subject) int {
	if strings.HasPrefix(subject.Name, "live") {
		return 0
	}
	return 2
}

func (s *slow) Take(ctx context.Context, now time.Time, c []limit.Charge, r []limit.Result) (bool, error) {
	select {
	case <-time.After(s.each):
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if s.Shard(&c[0].Subject) == 0 {
		return false, shardDown(0)
	}
	return s.Memory.Take(ctx, now, c, r)
}

// All calls of one decision share its budget.
func TestBudgetIsOfTheDecision(t *testing.T) {
	t.Parallel()
	const budget = 20 * time.Millisecond
	for each, want := range map[time.Duration]time.Duration{
		4 * time.Millisecond: 8 * time.Millisecond, 12 * time.Millisecond: budget, 19 * time.Millisecond: budget,
		40 * time.Millisecond: budget,
	} {
		synctest.Test(t, func(t *testing.T) {
			b := budgeted(t, &slow{newSharded(), each}, budget)
			if d, v := b.took(); d != want || !v.Allowed {
				t.Errorf("two calls of %v took %v, want %v: %+v", each, d, want, v)
			}
		})
	}
}

// Decisions that begin within a twentieth of the budget end together; one that
// begins later has a budget of its own.
func TestBudgetIsSharedForATwentieth(t *testing.T) {
	t.Parallel()
	const budget = 20 * time.Millisecond
	for later, want := range map[time.Duration]time.Duration{
		0: budget, budget/20 - 1: budget - (budget/20 - 1), budget / 20: budget, budget/20 + 1: budget,
	} {
		synctest.Test(t, func(t *testing.T) {
			b := budgeted(t, newUnreliable(stuck), budget)
			go b.took()
			time.Sleep(later)
			synctest.Wait()
			if d, _ := b.took(); d != want {
				t.Errorf("%v after another: took %v, want %v", later, d, want)
			}
			time.Sleep(budget)
		})
	}
}
