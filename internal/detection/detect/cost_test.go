package detect

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

// A rule under which each request costs the same, with thresholds as many times higher, finds the keys that a rule by
// requests finds, at the same times.
func TestDetector_FindsSameInOtherUnits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		each := rapid.Int64Range(1, 1<<20).Draw(t, "cost") // microseconds of each request
		units := float64(each) / 1e6
		hot := rules.HotCriteria{Rate: 4, Share: 0.5, Surge: 6, MinRate: 1, Window: 3 * time.Second,
			Cooldown: 2 * time.Second, ReleaseRatio: 0.7, MinClients: rapid.IntRange(0, 3).Draw(t, "min_clients")}
		byTime := hot
		byTime.Rate, byTime.MinRate = hot.Rate*units, hot.MinRate*units
		now := time.Unix(1_700_000_000, 0)
		a := New(&rules.Set{Rules: []*rules.Rule{{Name: "topic", Hot: hot}}}, Options{})
		b := New(&rules.Set{Rules: []*rules.Rule{{Name: "topic", Cost: hottype.CostTime, Hot: byTime}}}, Options{})
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 1200).Draw(t, "ms")) * time.Millisecond)
			for range rapid.IntRange(0, 6).Draw(t, "counts") {
				c := hottype.Count{Key: hottype.Key(fmt.Sprint("topic?id=", rapid.IntRange(0, 3).Draw(t, "id"))),
					N: rapid.Int64Range(1, 12).Draw(t, "n"), Second: now.Unix()}
				a.Add(now, c)
				c.N *= each
				b.Add(now, c)
			}
			_, x := a.Tick(now)
			_, y := b.Tick(now)
			if len(x) != len(y) {
				t.Fatalf("cost %d: %d changes, want %d:\n%+v\n%+v", each, len(y), len(x), y, x)
			}
			for i := range x {
				p, q := &x[i], &y[i]
				if p.Kind != q.Kind || !p.At.Equal(q.At) || p.Hot.Key != q.Hot.Key || p.Hot.Why != q.Hot.Why {
					t.Fatalf("cost %d: %+v, want %+v", each, *q, *p)
				}
				if d := q.Hot.Rate - p.Hot.Rate*units; d > 1e-6 || d < -1e-6 || q.Hot.Cost != hottype.CostTime {
					t.Fatalf("cost %d: rate %v %s, want %v times %v", each, q.Hot.Rate, q.Hot.Cost, p.Hot.Rate, units)
				}
			}
		}
	})
}
