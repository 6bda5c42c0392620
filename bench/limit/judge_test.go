package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/bench/internal/measure"
	"github.com/hotparam/pipeline/hotparam/limit"
)

// The page and the picture equal the files that the present code makes of the results.
func TestPageAndPictureFitTheResults(t *testing.T) {
	t.Parallel()
	r, err := measure.LoadResults[results](".")
	if err != nil {
		t.Fatal(err)
	}
	files, err := render(".", r)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range measure.CheckFiles(files) {
		t.Error(err)
	}
}

// inMemory returns a limiter in this process, with the clock of the bubble.
func inMemory(spec limit.Spec) ask {
	store := limit.NewMemory(limit.MemoryConfig{})
	return func(ctx context.Context, key, _ string) (bool, error) {
		results := make([]limit.Result, 1)
		charge := limit.Charge{Subject: limit.Subject{Space: "bench", Name: key}, Spec: spec, Cost: 1}
		return store.Take(ctx, time.Now(), []limit.Charge{charge}, results)
	}
}

// An exact bucket scores without a fault, and windows of a second show their edges.
func TestScore_TellsBucketFromWindows(t *testing.T) {
	t.Parallel()
	tokens := limit.Spec{Algorithm: limit.TokenBucket, Limit: rate, Window: time.Second, Burst: burst}
	fixed := limit.Spec{Algorithm: limit.FixedWindow, Limit: rate, Window: time.Second}
	for _, c := range []struct {
		name      string
		spec      limit.Spec
		within    int // 0.2 s
		edges     float64
		readersIn float64
	}{{"bucket", tokens, 37, 1, 0.3}, {"windows", fixed, 199, 4.5, 0.4}} {
		synctest.Test(t, func(t *testing.T) {
			one := inMemory(c.spec)
			events := play(t.Context(), [2]ask{one, one}, accuracyTraffic(12, 1), nil)
			a := score(contender{name: c.name, most: bucket(burst)}, events)
			if got := a.Most[edges][1]; got != c.within {
				t.Errorf("%s: %d within 0.2 s, want %d", c.name, got, c.within)
			}
			if got := ofFit(a.tally(edges)); got < c.edges || c.edges == 1 && got > 1 {
				t.Errorf("%s: %v of what fits around the edges", c.name, got)
			}
			if got := ofFit(a.tally(flooded)); got < 0.97 || got > 1 {
				t.Errorf("%s: %v of what fits of the flood", c.name, got)
			}
			if b := a.tally(below); b.Admitted != b.Asked || b.Asked != 12*80 || a.Errors > 0 {
				t.Errorf("%s: %+v, %d errors", c.name, b, a.Errors)
			}
			if a.Readers > c.readersIn || a.Greedy < 60 {
				t.Errorf("%s: readers %v, greedy %v: the limit of a key knows no clients", c.name, a.Readers, a.Greedy)
			}
		})
	}
}

// The bucket of the judge admits as many as the bucket of the product.
func TestFit_EqualsTokenBucket(t *testing.T) {
	t.Parallel()
	spec := limit.Spec{Algorithm: limit.TokenBucket, Limit: rate, Window: time.Second, Burst: burst}
	rapid.Check(t, func(t *rapid.T) {
		store, results := limit.NewMemory(limit.MemoryConfig{}), make([]limit.Result, 1)
		var events []event
		want, at := 0, time.Duration(0)
		for range rapid.IntRange(1, 400).Draw(t, "requests") {
			at += time.Duration(rapid.IntRange(0, 30).Draw(t, "ms")) * time.Millisecond
			events = append(events, event{asked: at})
			ok, err := store.Take(context.Background(), time.Unix(1_700_000_000, 0).Add(at), []limit.Charge{{
				Subject: limit.Subject{Space: "bench", Name: "a"}, Spec: spec, Cost: 1}}, results)
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				want++
			}
		}
		if got := fit(events); got < want-1 || got > want+1 { // parts of tokens are rounded here
			t.Fatalf("%d fit, the bucket admits %d", got, want)
		}
	})
}

// Only requests that were asked and answered within a stretch count for it.
func TestMost_CountsWhatIsSure(t *testing.T) {
	t.Parallel()
	const s = time.Second
	events := []event{
		{asked: 0, answered: 3 * s, allowed: true}, // decided at any time of three seconds
		{asked: s, answered: s, allowed: true},
		{asked: s + 1, answered: s + 1},
		{asked: 2 * s, answered: 2 * s, allowed: true},
		{asked: 2*s + 1, answered: 2*s + 2, allowed: true},
	}
	for d, want := range map[time.Duration]int{0: 1, 1: 1, 2: 2, s: 2, s + 2: 3, 3 * s: 4} {
		if got := most(events, d); got != want {
			t.Errorf("within %v: %d, want %d", d, got, want)
		}
	}
}

// The requests of each key are as many as the page says, and go to both doors.
func TestTraffic_HasRatesOfPage(t *testing.T) {
	t.Parallel()
	all := accuracyTraffic(12, rand.Uint64())
	byKey := map[string][2]int{}
	for _, r := range all {
		n := byKey[r.key]
		n[r.door]++
		byKey[r.key] = n
	}
	for key, want := range map[string]int{flooded: 6000, edges: 800, below: 960, crowded: 6600} {
		if got := byKey[key]; got[0]+got[1] != want || got[0] != got[1] {
			t.Errorf("%s: %v requests, want %d", key, got, want)
		}
	}
	if got := byKey[random]; got[0]+got[1] < 800 || got[0]+got[1] > 1120 {
		t.Errorf("%v requests at random times", got)
	}
	if !slices.IsSortedFunc(all, func(a, b request) int { return int(a.at - b.at) }) {
		t.Error("the requests are not sorted by time")
	}
}

// A store that fails for a while is seen in the outcome, and so is its return.
func TestOutcome_ShowsFault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one := inMemory(limit.Spec{Algorithm: limit.TokenBucket, Limit: rate, Window: time.Second, Burst: burst})
		began := time.Now().Truncate(time.Second).Add(time.Second) // as play has it
		door := func(ctx context.Context, key, client string) (bool, error) {
			switch since := time.Since(began); {
			case since >= calm && since < calm+faulty && key == hot:
				time.Sleep(patience)
				return false, errors.New("frozen")
			case since >= calm+faulty && since < calm+faulty+500*time.Millisecond:
				time.Sleep(2 * sound)
			}
			return one(ctx, key, client)
		}
		events := play(t.Context(), [2]ask{door, door}, failureTraffic(calm+faulty+after), nil)
		o := sumUp("one", "frozen", events, calm+faulty)
		if o.Undecided != 1 || o.PagesUndecided != 0 || o.Hot != 0 || o.Rate != 300 || o.Max != 1000 || o.P50 != 1000 ||
			o.Healthy99 != 0 || o.First != "frozen" || o.HotAfter < 250 || o.HotAfter > 320 || o.RateAfter != 300 {
			t.Errorf("%+v", o)
		}
		if o.Recovery < 490 || o.Recovery > 500 || !o.Settled {
			t.Errorf("sound again after %v ms, %v", o.Recovery, o.Settled)
		}
	})
}
