package gate_test

import (
	"context"
	"fmt"
	"math/big"
	"net/http"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
)

const placeRules = `
rules:
  - {name: page, match: {path: "/p/{x}"}, params: [], hot: {rate: 1}, limit: {rate: %d, burst: %d, priority: [a, b], scope: %s}}
  - {name: watched, match: {path: "/w/{x}"}, params: [], hot: {rate: 1}, limit: {rate: 1, burst: 8, priority: [a, b], mode: shadow}}
  - {name: report, match: {path: /report}, params: [id], hot: {rate: 1}, limit: {rate: 1, burst: 8, priority: [a, b], values: [{key: "report?id=2", rate: 1, burst: 16}]}}
  - {name: follows, match: {path: "/f/{x}"}, params: [], hot: {rate: 1}, limit: {adaptive: true, min: 10, max: 1000, priority: [a, b]}}
classes:
  - {name: a, match: {header: X-Place, pattern: "^a$"}}
  - {name: b, match: {header: X-Place, pattern: "^b$"}}
  - {name: other, match: {header: X-Place, pattern: "^o$"}}
overrides:
  - {key: "report?id=3", action: limit, rate: 1, burst: 12}
`

// askAs asks for a target as a class, through a proxy.
func (b *bundle) askAs(target, class string, cost int64) hottype.Verdict {
	req := request(target, "192.0.2.1")
	req.Header, req.Cost, req.FromProxy = http.Header{"X-Place": {class}}, cost, true
	return b.Decide(context.Background(), b.now, req)
}

// A request is allowed if and only if the bucket of the key, counted in fractions, holds its cost beside the reserve of
// its place, after any requests before. So a place never has less than if those after it did not exist above their
// reserve, and all together never have more than the bucket.
func TestPriority_IsOneBucketWithReserves(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rate, burst := rapid.Int64Range(1, 200).Draw(t, "rate"), rapid.Int64Range(8, 100).Draw(t, "burst")
		scope := rapid.SampledFrom([]string{"instance", "cluster"}).Draw(t, "scope")
		b := assemble(parse(t, fmt.Sprintf(placeRules, rate, burst, scope)), gate.Config{})
		b.hot("page")
		reserves := map[string]int64{"a": 0, "b": burst / 4, "o": burst / 2, "": burst / 2}
		left, last := big.NewRat(burst, 1), b.now
		for range rapid.IntRange(1, 80).Draw(t, "n") {
			b.now = b.now.Add(time.Duration(rapid.Int64Range(0, 200_000).Draw(t, "us")) * time.Microsecond)
			left.Add(left, big.NewRat(b.now.Sub(last).Microseconds()*rate, 1e6))
			if last = b.now; left.Cmp(big.NewRat(burst, 1)) > 0 {
				left.SetInt64(burst)
			}
			class := rapid.SampledFrom([]string{"a", "b", "o", ""}).Draw(t, "class")
			cost := rapid.Int64Range(1, 3).Draw(t, "cost")
			needed := big.NewRat(cost+reserves[class], 1)
			v := b.askAs("/p/1", class, cost)
			if want := left.Cmp(needed) >= 0; v.Allowed != want || v.Limit != burst-reserves[class] {
				t.Fatalf("class %q, cost %d: %+v, but the bucket has %s", class, cost, v, left.FloatString(3))
			}
			if v.Allowed {
				left.Sub(left, big.NewRat(cost, 1))
				continue
			}
			// A remembered denial may say less, because the classes before this one went on taking.
			wait := new(big.Rat).Mul(needed.Sub(needed, left), big.NewRat(1e6, rate))
			if us, _ := wait.Float64(); v.RetryAfter != hottype.Never && float64(v.RetryAfter.Microseconds()) > us+1 {
				t.Fatalf("class %q waits for %v, and %v us suffice", class, v.RetryAfter, us)
			}
		}
	})
}

func TestPriority_OfAForgedFieldDoesNotCount(t *testing.T) {
	t.Parallel()
	b := build(t, fmt.Sprintf(placeRules, 1, 8, "instance"), gate.Config{})
	b.hot("page")
	for range 4 {
		if v := b.askAs("/p/1", "", 1); !v.Allowed {
			t.Fatalf("%+v", v)
		}
	}
	req := request("/p/1", "192.0.2.1")
	req.Header = http.Header{"X-Place": {"a"}}
	if v := b.Decide(context.Background(), b.now, req); v.Allowed || v.Class != "a" || v.Limit != 4 {
		t.Errorf("a field that the client wrote: %+v", v)
	}
	if v := b.askAs("/p/1", "a", 1); !v.Allowed || v.Limit != 8 {
		t.Errorf("the same from a proxy: %+v", v)
	}
}

// Denials are remembered by key, and a denial of one place must not deny the places before it.
func TestPriority_RemembersDenialsByPlace(t *testing.T) {
	t.Parallel()
	b := build(t, fmt.Sprintf(placeRules, 1, 8, "cluster"), gate.Config{})
	b.hot("page")
	for range 20 {
		b.askAs("/p/1", "", 1)
	}
	if n := b.Stats().CachedDenials; n == 0 {
		t.Error("no denial was remembered")
	}
	for i := range 4 {
		if class := []string{"b", "a"}[i/2]; !b.askAs("/p/1", class, 1).Allowed {
			t.Errorf("request %d, of class %s, was denied", i, class)
		}
		b.askAs("/p/1", "", 1)
	}
}

func TestPriority_HoldsForValuesOverridesAndShadow(t *testing.T) {
	t.Parallel()
	b := build(t, fmt.Sprintf(placeRules, 1, 8, "cluster"), gate.Config{})
	b.hot("report?id=1", "report?id=2", "watched")
	for target, burst := range map[string]int64{"/report?id=1": 8, "/report?id=2": 16, "/report?id=3": 12} {
		for class, reserve := range map[string]int64{"a": 0, "b": burst / 4, "o": burst / 2} {
			if v := b.askAs(target, class, 0); v.Limit != burst-reserve {
				t.Errorf("%s as %s: %+v", target, class, v)
			}
		}
	}
	for i := range 10 {
		if v := b.askAs("/w/1", "o", 1); !v.Allowed || v.WouldDeny != (i >= 4) || v.Pass != nil {
			t.Errorf("request %d in shadow mode: %+v", i, v)
		}
	}
	if v := b.askAs("/w/1", "a", 1); v.WouldDeny {
		t.Errorf("the first place in shadow mode: %+v", v)
	}
}

// While the shared store fails, this process has its part of the bucket and of every reserve.
func TestPriority_HoldsWithoutTheSharedStore(t *testing.T) {
	t.Parallel()
	b := build(t, fmt.Sprintf(placeRules, 4, 32, "cluster"),
		gate.Config{Shared: newUnreliable(failing), Limiters: func() int { return 4 }})
	b.hot("page")
	var allowed []int
	for _, class := range []string{"", "b", "a"} {
		n := 0
		for range 10 {
			if b.askAs("/p/1", class, 1).Allowed {
				n++
			}
		}
		allowed = append(allowed, n)
	}
	if fmt.Sprint(allowed) != "[4 2 2]" {
		t.Errorf("allowed %v", allowed)
	}
}

// The last place has the bound on requests in flight that the controller found, and each place before it has more.
func TestPriority_ExceedsTheBoundInFlight(t *testing.T) {
	t.Parallel()
	b := build(t, fmt.Sprintf(placeRules, 4, 32, "cluster"), gate.Config{})
	b.hot("follows")
	b.Upstreams().SetBounds(b.now, bound(1000, 4))
	inFlight := 0
	for _, place := range []struct {
		class string
		most  int
	}{{"", 4}, {"b", 12}, {"a", 16}} {
		for range 20 {
			req := request("/f/1", "192.0.2.1")
			req.Header, req.FromProxy = http.Header{"X-Place": {place.class}}, true
			if v := b.Begin(context.Background(), b.now, req, true); v.Allowed {
				inFlight++
			} else if v.Reason != hottype.ReasonInFlight {
				t.Fatalf("%+v", v)
			}
		}
		if inFlight != place.most {
			t.Errorf("%d in flight with class %q, want %d", inFlight, place.class, place.most)
		}
	}
}
