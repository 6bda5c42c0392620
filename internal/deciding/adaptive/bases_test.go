package adaptive

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// quietSite returns the rules of a site whose hot keys follow its upstream, and reports of seconds without hot keys.
func quietSite(t *testing.T) (set *rules.Set, reportAt func(time.Time) []report.Limiter) {
	t.Helper()
	set, err := rules.Parse("test.yaml", []byte("rules: [{name: topic, match: {path: /topic}, params: [id], "+
		"hot: {rate: 10, window: 2s}, limit: {adaptive: true, min: 1, max: 100}}]"))
	if err != nil {
		t.Fatal(err)
	}
	var latency Histogram
	latency.addN(40*time.Millisecond, 100)
	return set, func(now time.Time) []report.Limiter {
		up := report.Upstream{Name: "default", Seconds: 1, OK: 100, Cold: 100, InFlight: 4, Latency: latency.Pairs(),
			LatencySum: latency.sum}
		return []report.Limiter{{Instance: "a", At: now, Upstreams: []report.Upstream{up}}}
	}
}

// knownBase returns the base latency that controllers know of the upstream "default", or 0.
func knownBase(c *Controllers) float64 {
	one := c.of["default"]
	if one == nil || !one.known {
		return 0
	}
	return one.baseLatency.value
}

// The base latency is known after the window of the rule and quietMargin, is encoded when it is new, other, or an hour
// old, and is there for the controllers of the next process.
func TestControllers_KeepBases(t *testing.T) {
	t.Parallel()
	set, reportAt := quietSite(t)
	var c Controllers
	now := time.Unix(1e9, 0)
	var text []byte
	seconds, written := 0, 0
	for ; seconds < 2*3600; seconds++ {
		now = now.Add(time.Second)
		c.Tick(now, set, nil, reportAt(now))
		if next := c.EncodeBases(now); next != nil {
			if written == 0 && seconds+1 != 2+quietMargin {
				t.Errorf("known after %d s", seconds+1)
			}
			text, written = next, written+1
		}
	}
	if written != 2 {
		t.Errorf("written %d times in two hours, want 2: %s", written, text)
	}
	for age, want := range map[time.Duration]bool{time.Minute: true, maxBaseAge - 2*time.Hour: true,
		maxBaseAge + time.Hour: false, -2 * maxBaseAge: false} {
		var next Controllers
		if err := next.RestoreBases(now.Add(age), text); err != nil {
			t.Fatal(err)
		}
		next.Tick(now.Add(age), set, nil, reportAt(now.Add(age)))
		if base := knownBase(&next); (base > 0.03 && base < 0.05) != want {
			t.Errorf("after %v: base %v, want it %v", age, base, want)
		}
	}
	// A running controller without a base gets the base too.
	var late Controllers
	late.Tick(now, set, nil, reportAt(now))
	if err := late.RestoreBases(now, text); err != nil || knownBase(&late) == 0 {
		t.Errorf("%v, base %v", err, knownBase(&late))
	}
	// A minute without requests for hot keys begins a new controller, which keeps the base.
	var unstored Controllers
	for range 20 {
		now = now.Add(time.Second)
		unstored.Tick(now, set, nil, reportAt(now))
	}
	before := unstored.of["default"]
	before.idle = idle + 1
	unstored.Tick(now.Add(time.Second), set, nil, reportAt(now.Add(time.Second)))
	if knownBase(&unstored) == 0 || unstored.of["default"] == before {
		t.Error("the base was lost by a reset, or there was none")
	}
}

// A base of another quantile is another latency, and a target that the rules name needs no base.
func TestControllers_RestoreOnlyFittingBases(t *testing.T) {
	t.Parallel()
	_, reportAt := quietSite(t)
	now := time.Unix(1e9, 0)
	text := fmt.Appendf(nil, `{"default": {"seconds": 0.04, "quantile": 0.9, "at": %q}}`, now.Format(time.RFC3339))
	for target, want := range map[string]bool{"quantile: 0.5": false, "quantile: 0.9": true} {
		set, err := rules.Parse("test.yaml", []byte("upstreams: [{name: default, target: {"+target+"}}]\n"+
			"rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 10}, "+
			"limit: {adaptive: true, min: 1, max: 100}}]"))
		if err != nil {
			t.Fatal(err)
		}
		var c Controllers
		if err := c.RestoreBases(now, text); err != nil {
			t.Fatal(err)
		}
		c.Tick(now, set, nil, reportAt(now))
		if known := knownBase(&c) > 0; known != want {
			t.Errorf("%s: known %v", target, known)
		}
	}
}

func TestControllers_RefuseBrokenBases(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "[", "[]", `{"default": 1}`, `{"default": {"seconds": -1, "quantile": 0.9}}`,
		`{"default": {"seconds": 1e9, "quantile": 0.9}}`, `{"default": {"seconds": 1, "quantile": 1}}`,
		`{"default": {}}`} {
		var c Controllers
		err := c.RestoreBases(time.Unix(1e9, 0), []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), "adaptive: base latencies: ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzRestoreBases restores any text: a base is a latency that an upstream can have, and restored bases are not written
// again.
func FuzzRestoreBases(f *testing.F) {
	f.Add(`{"default": {"seconds": 0.04, "quantile": 0.9, "at": "2001-09-09T01:46:40Z"}}`)
	f.Add(`{"a": {"seconds": 1e-300, "quantile": 0.5}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var c Controllers
		now := time.Unix(1e9, 0)
		if c.RestoreBases(now, []byte(text)) != nil {
			return
		}
		for name, b := range c.bases {
			one := &upstreamState{Controller: New(rules.UpstreamTarget{Quantile: b.Quantile}, 1, 2)}
			c.restoreBase(name, one)
			if base, known := one.base(); !known || !(base > 0 && base <= maxBase) || math.IsNaN(base) {
				t.Errorf("%q: base %v, known %v", name, base, known)
			}
		}
		if c.EncodeBases(now) != nil {
			t.Error("encoded without a change")
		}
	})
}
