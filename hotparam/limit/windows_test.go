package limit_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
)

// After any history, ClientWindows charges the calls of known clients within their windows as Memory.Take does, with
// the same results, and nothing else. Windows become longer, shorter and different meanwhile, and small tables evict.
func TestClientWindowsAreMemoryTake(t *testing.T) {
	t.Parallel()
	taken := 0
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.SampledFrom([]int{2, 1000}).Draw(rt, "size")
		short, long := limit.NewMemory(limit.MemoryConfig{MaxSubjects: size}), limit.NewMemory(
			limit.MemoryConfig{MaxSubjects: size})
		us := int64(1_700_000_000_000_000)
		spec := rapid.Custom(func(t *rapid.T) limit.Spec {
			return limit.Spec{
				Algorithm: rapid.SampledFrom([]limit.Algorithm{limit.FixedWindow, limit.SlidingWindow,
					limit.FixedWindow, limit.SlidingWindow, limit.SlidingLog}).Draw(t, "algorithm"),
				Limit: rapid.Int64Range(0, 6).Draw(t, "limit"), Window: time.Duration(rapid.Int64Range(1, 3).
					Draw(t, "window")) * time.Millisecond,
			}
		})
		specs := rapid.SliceOfN(spec, 1, 2).Draw(rt, "specs")
		for range 60 {
			if rapid.IntRange(0, 9).Draw(rt, "change") == 0 {
				specs = rapid.SliceOfN(spec, 1, 2).Draw(rt, "specs")
			}
			us += rapid.SampledFrom([]int64{0, 0, 1, 500, 1000, 4000, -700}).Draw(rt, "us")
			now, client := time.UnixMicro(us), hottype.ParseClient(fmt.Sprint("192.0.2.", rapid.IntRange(1, 3).
				Draw(rt, "client")))
			charges, cost := make([]limit.Charge, len(specs)), rapid.Int64Range(1, 3).Draw(rt, "cost")
			for i, s := range specs {
				charges[i] = limit.Charge{Spec: s, Cost: cost,
					Subject: limit.Subject{Space: fmt.Sprint("windows", i), Client: client}}
			}
			if size > 2 && rapid.IntRange(0, 9).Draw(rt, "forget") == 0 {
				short.Reset(&charges[0].Subject)
				long.Reset(&charges[0].Subject)
			}
			want, got := make([]limit.Result, len(specs)), make([]limit.Result, len(specs))
			ok, err := long.Take(t.Context(), now, charges, want)
			if err != nil {
				rt.Fatal(err)
			}
			allowed := false
			if w := short.ClientWindows(charges); w != nil {
				allowed = w.Take(now, &client, cost, got)
			}
			if allowed {
				taken++
			} else if allowed, err = short.Take(t.Context(), now, charges, got); err != nil {
				rt.Fatal(err)
			}
			if allowed != ok || fmt.Sprint(got) != fmt.Sprint(want) {
				rt.Fatalf("%+v: %v %+v, want %v %+v", charges, allowed, got, ok, want)
			}
		}
		if size > 2 && short.Dump() == "" {
			rt.Fatal("nothing is kept")
		}
	})
	if taken == 0 {
		t.Error("nothing was taken by ClientWindows")
	}
}

// TakeBoth charges the windows of two subjects as Memory.Take does, and nothing if any window denies.
func TestClientWindows_TakeBothIsMemoryTake(t *testing.T) {
	t.Parallel()
	taken := 0
	rapid.Check(t, func(rt *rapid.T) {
		short, long := limit.NewMemory(limit.MemoryConfig{}), limit.NewMemory(limit.MemoryConfig{})
		of := func(space string, n int64) limit.Charge {
			return limit.Charge{Subject: limit.Subject{Space: space}, Spec: limit.Spec{
				Algorithm: rapid.SampledFrom([]limit.Algorithm{limit.FixedWindow, limit.SlidingWindow}).Draw(rt, space),
				Limit:     n, Window: time.Duration(n) * time.Millisecond}}
		}
		charges := []limit.Charge{of("a", 3), of("b", 5), of("c", 4), of("d", 6)}
		first, second := short.ClientWindows(charges[:2]), map[string]*limit.ClientWindows{}
		for _, rule := range []string{"login", "search"} {
			charges[2].Subject.Name, charges[3].Subject.Name = rule, rule
			second[rule] = short.ClientWindows(charges[2:])
		}
		us := int64(1_700_000_000_000_000)
		for range 60 {
			us += rapid.SampledFrom([]int64{0, 0, 0, 1, 500, 1000, 4000, -700}).Draw(rt, "us")
			cost := rapid.SampledFrom([]int64{1, 1, 1, 2}).Draw(rt, "cost")
			client := hottype.ParseClient(rapid.SampledFrom([]string{"192.0.2.1", "192.0.2.2"}).Draw(rt, "client"))
			rule := rapid.SampledFrom([]string{"login", "search"}).Draw(rt, "rule")
			for i := range charges {
				charges[i].Cost, charges[i].Subject.Client = cost, client
				if i >= 2 {
					charges[i].Subject.Name = rule
				}
			}
			want, got := make([]limit.Result, 4), make([]limit.Result, 4)
			ok, err := long.Take(t.Context(), time.UnixMicro(us), charges, want)
			if err != nil {
				rt.Fatal(err)
			}
			allowed := first.TakeBoth(time.UnixMicro(us), &client, second[rule], cost, got)
			if allowed {
				taken++
			} else if allowed, err = short.Take(t.Context(), time.UnixMicro(us), charges, got); err != nil {
				rt.Fatal(err)
			}
			if allowed != ok || fmt.Sprint(got) != fmt.Sprint(want) {
				rt.Fatalf("%+v: %v %+v, want %v %+v", charges, allowed, got, ok, want)
			}
		}
	})
	if taken == 0 {
		t.Error("nothing was taken by TakeBoth")
	}
}

// Charges that ClientWindows cannot make are left to Memory.Take.
func TestClientWindowsThatAreNone(t *testing.T) {
	t.Parallel()
	window := func(space string, s limit.Spec) limit.Charge {
		s.Limit, s.Window = 5, time.Second
		return limit.Charge{Subject: limit.Subject{Space: space}, Spec: s}
	}
	fixed := window("a", limit.Spec{Algorithm: limit.FixedWindow})
	sliding := window("b", limit.Spec{Algorithm: limit.SlidingWindow})
	blocks := window("c", limit.Spec{Algorithm: limit.FixedWindow, Block: time.Second})
	named := window("f", limit.Spec{Algorithm: limit.SlidingWindow})
	named.Subject.Name = "login"
	bucket := window("d", limit.Spec{Algorithm: limit.TokenBucket, Burst: 5})
	for name, c := range map[string]struct {
		charges []limit.Charge
		want    bool
	}{
		"one":       {[]limit.Charge{fixed}, true},
		"two":       {[]limit.Charge{fixed, sliding}, true},
		"none":      {nil, false},
		"three":     {[]limit.Charge{fixed, sliding, window("e", fixed.Spec)}, false},
		"one Space": {[]limit.Charge{fixed, window("a", sliding.Spec)}, false},
		"two Names": {[]limit.Charge{fixed, named}, false},
		"a block":   {[]limit.Charge{fixed, blocks}, false},
		"a bucket":  {[]limit.Charge{bucket}, false},
		"invalid":   {[]limit.Charge{{Subject: fixed.Subject, Spec: limit.Spec{Algorithm: limit.FixedWindow}}}, false},
	} {
		if got := limit.NewMemory(limit.MemoryConfig{}).ClientWindows(c.charges); (got != nil) != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	m := limit.NewMemory(limit.MemoryConfig{})
	for i := range 40 {
		got := m.ClientWindows([]limit.Charge{window(fmt.Sprint(i), fixed.Spec)})
		if i == 0 && got == nil || i == 39 && got != nil { // it shares a table
			t.Errorf("Space %d: %v", i, got)
		}
	}
}
