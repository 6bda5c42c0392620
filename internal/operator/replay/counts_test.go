package replay

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Sums over trailing windows and peaks are equal to a recount at each step.
func TestTotals_EqualRecount(t *testing.T) {
	t.Parallel()
	type hit struct {
		second int64
		key    string
	}
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(1, 7).Draw(t, "width")
		steps := rapid.SliceOfN(rapid.SampledFrom([]int64{0, 0, 0, 1, 1, 2, 5, 100}), 1, 60).Draw(t, "steps")
		var (
			hits   []hit
			second = int64(1_000_000)
		)
		for _, step := range steps {
			second += step
			hits = append(hits, hit{second, rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")})
		}
		b := newTotals[string](2, width)
		want := map[string]row{}
		for i, h := range hits {
			if id, ok := b.findOrAdd(h.key); ok {
				b.count(id)
			}
			if i+1 == len(hits) || hits[i+1].second != h.second {
				b.closeSecond(h.second)
			}
		}
		for _, k := range b.names {
			r := row{}
			for _, h := range hits {
				var one, wide uint32
				for _, g := range hits {
					if g.key == k && g.second == h.second {
						one++
					}
					if g.key == k && g.second <= h.second && g.second > h.second-int64(width) {
						wide++
					}
				}
				if h.key == k {
					r.requests++
				}
				if one > r.peak {
					r.peak, r.peakAt = one, h.second
				}
				if wide > r.wide {
					r.wide, r.wideAt = wide, h.second
				}
			}
			want[k] = r
		}
		for id, k := range b.names {
			if b.rows[id] != want[k] {
				t.Fatalf("%s: %+v, want %+v", k, b.rows[id], want[k])
			}
		}
		if len(b.names) > 2 {
			t.Fatalf("%q are more names than the limit", b.names)
		}
	})
}

func TestTopIDs_BreaksTiesByText(t *testing.T) {
	t.Parallel()
	b := newTotals[string](10, 5)
	for _, k := range []string{"c", "b", "a", "b"} {
		id, _ := b.findOrAdd(k)
		b.count(id)
	}
	var got []string
	for _, id := range b.topIDs(2, byRequests, b.names) {
		got = append(got, b.names[id])
	}
	if diff := cmp.Diff([]string{"b", "a"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestTimeline_KeepsTotalsAtAnyStep(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var (
			line           Timeline
			second         = int64(1_000_000)
			total, highest int64
		)
		for _, step := range rapid.SliceOf(rapid.Int64Range(1, 1000)).Draw(t, "steps") {
			second += step
			line.add(second, step, 1)
			total, highest = total+step, max(highest, step)
		}
		var requests int64
		for i, n := range line.Requests {
			requests += n
			if line.Peak[i] > n {
				t.Fatalf("step %d has %d requests, but a second with %d", i, n, line.Peak[i])
			}
		}
		if requests != total || slices.Max(append(line.Peak, 0)) != highest {
			t.Fatalf("%d requests, peak %d; want %d, %d", requests, slices.Max(append(line.Peak, 0)), total, highest)
		}
		if len(line.Requests) > maxSteps || total > 0 && second >= line.From+line.Step*int64(len(line.Requests)) {
			t.Fatalf("%d steps of %d s do not hold the last second", len(line.Requests), line.Step)
		}
	})
}
