package replay_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/operator/replay"
	"github.com/hotparam/pipeline/internal/rules"
)

// batches holds the counts that a tally flushes.
type batches struct{ counts []hottype.Count }

func (b *batches) Send(_ context.Context, counts []hottype.Count) error {
	b.counts = append(b.counts, counts...)
	return nil
}

// live returns the keys that become hot if requests are counted by limiters that flush ten times a second, each at its
// own phase, and flushes take some time to arrive.
func live(t fataler, set *rules.Set, events []timed, phases, delays []time.Duration) map[hottype.Key]bool {
	type flush struct {
		at     time.Time // when it arrives
		counts []hottype.Count
	}
	var flushes []flush
	begin, end := events[0].at.Truncate(time.Second), events[len(events)-1].at.Add(2*time.Second)
	for i, phase := range phases {
		var out batches
		limiter, next := tally.New(tally.Config{Sink: &out}), i
		for at := begin.Add(phase); at.Before(end); at = at.Add(100 * time.Millisecond) {
			for ; next < len(events) && events[next].at.Before(at); next += len(phases) {
				e := &events[next]
				limiter.AddFrom([]byte(e.key), e.at.Unix(), 1, hottype.ParseClient(e.client))
			}
			if err := limiter.Flush(context.Background()); err != nil {
				t.Fatal(err)
			}
			flushes = append(flushes, flush{at.Add(delays[len(flushes)%len(delays)]), out.counts})
			out.counts = nil
		}
	}
	slices.SortStableFunc(flushes, func(a, b flush) int { return a.at.Compare(b.at) })
	d, hot := detect.New(set, detect.Options{}), map[hottype.Key]bool{}
	for tick := begin; tick.Before(end); tick = tick.Add(100 * time.Millisecond) {
		for len(flushes) > 0 && flushes[0].at.Before(tick) {
			if d.AddAll(flushes[0].at, flushes[0].counts) { // an aggregator judges at once then
				note(d, flushes[0].at, hot)
			}
			flushes = flushes[1:]
		}
		note(d, tick, hot)
	}
	return hot
}

// fataler is a testing.T or a rapid.T.
type fataler interface{ Fatal(args ...any) }

func note(d *detect.Detector, now time.Time, hot map[hottype.Key]bool) {
	set, _ := d.Tick(now)
	for i := range set.Keys {
		hot[set.Keys[i].Key] = true
	}
}

// replayed returns the keys that become hot in a replay of the same requests.
func replayed(t fataler, set *rules.Set, events []timed) map[hottype.Key]bool {
	var log strings.Builder
	for _, e := range events {
		fmt.Fprintf(&log, "%d.%06d\t%s\tGET\t/%s\n", e.at.Unix(), e.at.Nanosecond()/1e3, e.client,
			strings.TrimPrefix(string(e.key), "/"))
	}
	rep, err := replay.Run(context.Background(), replay.Config{Rules: set}, text("log", log.String()))
	if err != nil {
		t.Fatal(err)
	}
	hot := map[hottype.Key]bool{}
	for _, span := range rep.Hot {
		hot[span.Key] = true
	}
	return hot
}

// steady returns rate requests a second for a key by many clients, evenly spaced.
func steady(key hottype.Key, rate float64, for_ time.Duration) (events []timed) {
	begin := time.Unix(1_000_000_000, 0).UTC()
	for i := 0; ; i++ {
		at := begin.Add(time.Duration(float64(i) / rate * float64(time.Second)))
		if at.Sub(begin) >= for_ {
			return events
		}
		events = append(events, timed{at, fmt.Sprintf("192.0.2.%d", i%100), key})
	}
}

// A steady key is hot from its threshold on, for any times of flushes and any delays, and never below it, because a
// count belongs to the second in which it happened.
func TestRun_SteadyKeyIsHotFromItsThresholdOn(t *testing.T) {
	t.Parallel()
	const rate = 200
	for _, criteria := range []string{"rate: 200", "rate: 200, min_clients: 5", "share: 0.5, min_rate: 200",
		"rate: 200, share: 0.9, min_rate: 200"} {
		for _, window := range []int{1, 2, 5, 10, 30} {
			set := parse(t, fmt.Sprintf("rules: [{name: topic, match: {path: /topic}, params: [id], "+
				"hot: {window: %ds, cooldown: 1s, %s}}]", window, criteria))
			for factor, want := range map[float64]bool{0.99: false, 1: true, 1.01: true, 1.05: true} {
				events := steady("topic?id=42", factor*rate, time.Duration(window+3)*time.Second)
				if got := replayed(t, set, events); got["topic?id=42"] != want {
					t.Fatalf("%s over %d s: %g of the threshold replayed: %v", criteria, window, factor, got)
				}
				for _, late := range []time.Duration{0, 20, 50, 150, 400} {
					delays := []time.Duration{late * time.Millisecond, late * time.Millisecond / 3}
					phases := []time.Duration{3 * time.Millisecond, 37 * time.Millisecond, 95 * time.Millisecond}
					if got := live(t, set, events, phases, delays); got["topic?id=42"] != want {
						t.Errorf("%s over %d s: %g of the threshold, flushes %v late: hot %v", criteria, window,
							factor, late*time.Millisecond, got)
					}
				}
			}
		}
	}
}

// Bursts of every form are hot live if they are in replay.
func TestRun_EqualsLivePipeline(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		set := parse(t, fmt.Sprintf(`
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: %g, window: %ds, cooldown: 2s}}
  - {name: "*", params: ["*"], hot: {rate: %g, window: %ds, cooldown: 2s}}`,
			rapid.SampledFrom([]float64{0.7, 1, 3, 8, 20}).Draw(rt, "rate"),
			rapid.SampledFrom([]int{1, 2, 5, 11}).Draw(rt, "window"),
			rapid.SampledFrom([]float64{0.7, 1, 3, 8, 20}).Draw(rt, "other rate"),
			rapid.SampledFrom([]int{1, 2, 5, 11}).Draw(rt, "other window")))
		events := drawTraffic(rt)
		if span := events[len(events)-1].at.Sub(events[0].at); span > 10*time.Minute {
			rt.Skip("silence for too long")
		}
		ms := func(most int, what string) []time.Duration {
			list := make([]time.Duration, rapid.IntRange(1, 4).Draw(rt, what+"s"))
			for i := range list {
				list[i] = time.Duration(rapid.IntRange(0, most).Draw(rt, what)) * time.Millisecond
			}
			return list
		}
		got := live(rt, set, events, ms(99, "phase"), ms(800, "delay"))
		want := replayed(rt, set, events)
		if diff := gocmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
			rt.Fatalf("-replayed +live\n%s", diff)
		}
	})
}
