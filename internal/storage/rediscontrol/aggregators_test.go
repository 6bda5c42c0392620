package rediscontrol

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// Each aggregator receives the reports of the others and its own report of its last run. Reports of aggregators that
// stopped, or that cannot be read, do not stay.
func TestExchangeAggregators_HearsOthers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	clock := now()
	f := open(t, s.Addr())
	setClock(f, clock)
	ctx := context.Background()
	said := func(instance string, at time.Time) report.Aggregator {
		return report.Aggregator{Instance: instance, At: at.UTC(), RulesHash: "h",
			Use: []report.RuleUse{{Rule: "topic", Params: "id", Since: 1, WithParams: 2}}}
	}
	exchange := func(own report.Aggregator, want ...report.Aggregator) {
		t.Helper()
		got, err := f.ExchangeAggregators(ctx, own)
		if err != nil || len(got)+len(want) > 0 && !cmp.Equal(got, want) {
			t.Errorf("%s hears %v: %s", own.Instance, err, cmp.Diff(want, got))
		}
	}
	old, a, b := said("a-1", clock.Add(-time.Hour)), said("a-2", clock), said("b-1", clock)
	exchange(old)
	f.rdb.HSet(ctx, f.keys.Aggregators(), "broken", "{", "forged", `{"instance":"b-1"}`)
	exchange(a, old)
	exchange(b, a)
	exchange(a, a, b)
	if got, err := f.ReadAggregators(ctx); err != nil || !cmp.Equal(got, []report.Aggregator{a, b}) {
		t.Errorf("%v, %v", got, err)
	}
	if n := f.rdb.HLen(ctx, f.keys.Aggregators()).Val(); n != 2 {
		t.Errorf("%d reports are stored, want 2", n)
	}
	if life := f.rdb.PTTL(ctx, f.keys.Aggregators()).Val(); life <= 0 || life > aggregatorLife {
		t.Errorf("they live for %v", life)
	}
	exchange(said("a-2", clock.Add(-aggregatorRuns-time.Second)), a, b)
	if got, err := f.ReadAggregators(ctx); err != nil || !cmp.Equal(got, []report.Aggregator{b}) {
		t.Errorf("one that is silent runs: %v, %v", got, err)
	}
	if _, err := f.ExchangeAggregators(ctx, said("a b", clock)); err == nil {
		t.Error("a name with a space is taken")
	}
}
