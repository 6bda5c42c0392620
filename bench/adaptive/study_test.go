package main

import (
	"math"
	"testing"
)

// goals are the bounds for every scenario without goals of its own. The goals of the study are stricter by the seconds
// by which single seeds differ.
const (
	goalBack    = 6    // seconds until the target is held
	goalWithin  = 0.95 // fraction of the steady seconds in which the target is held
	goalGoodput = 0.90 // fraction of the goodput of the best fixed limit
	goalSwing   = 0.15
	wigglySwing = 0.25
	goalCold    = 0.005 // fraction of the cold requests that fail
)

// fixedGoodput holds the answers per second of the best fixed limit from the tables of RESULTS.md, because finding the
// limit again takes a minute for each scenario.
var fixedGoodput = map[string]float64{
	"onset 10 x": 955, "onset 50 x": 953, "cold steps": 789, "capacity halved": 488, "finite queue": 955,
	"contention": 860, "reports lost and late": 955, "20 limiters, skewed": 955, "heavy tail": 955,
	"5 keys": 955,
}

func run(t *testing.T, name string) (*scenario, []second, score) {
	t.Helper()
	list := scenarios()
	for i := range list {
		if s := &list[i]; s.name == name {
			out := s.simulate(math.Inf(1), true, 2)
			return s, out, s.score(out)
		}
	}
	t.Fatalf("no scenario %q", name)
	return nil, nil, score{}
}

func TestController_ReachesItsGoals(t *testing.T) {
	t.Parallel()
	for name, fixed := range fixedGoodput {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, out, r := run(t, name)
			swing := goalSwing
			if s.wiggly {
				swing = wigglySwing
			}
			if r.back > goalBack || r.within < goalWithin || r.goodput < goalGoodput*fixed || r.swing > swing ||
				r.cold > goalCold {
				t.Errorf("%+v", r)
			}
			for i, o := range out {
				if o.rate < s.least || o.rate > s.most {
					t.Errorf("second %d: rate %v is not within %v and %v", i, o.rate, s.least, s.most)
				}
			}
		})
	}
}

func TestController_DoesNotLimitQuiet(t *testing.T) {
	t.Parallel()
	_, out, _ := run(t, "quiet")
	for i, o := range out {
		if o.refused > 0 || o.limited {
			t.Fatalf("second %d: %d refused", i, o.refused)
		}
	}
}

// An upstream at seven tenths of its capacity is hardly ever overloaded by chance, behind one limiter or several.
func TestController_DeniesHardlyAnythingBelowTheCapacity(t *testing.T) {
	t.Parallel()
	for _, servers := range []int{4, 16} {
		for _, sigma := range []float64{0.25, 0.5} {
			for _, limiters := range []int{1, 5, 10} {
				if denied := calm(servers, limiters, sigma).denied(3); denied > 0.1 {
					t.Errorf("%d servers, sigma %v, %d limiters: %.2f %% denied", servers, sigma, limiters, denied)
				}
			}
		}
	}
}

// A stall costs the requests of its seconds. Ten seconds after it everything is as before.
func TestController_RecoversFromAStall(t *testing.T) {
	t.Parallel()
	_, out, _ := run(t, "stall of 5 s")
	for i := 90; i < len(out); i++ {
		if out[i].coldFailed > 0 || out[i].latency.Quantile(0.9).Seconds() > 0.25 || out[i].ok < 800 {
			t.Errorf("second %d: %d cold failed, %d answered", i, out[i].coldFailed, out[i].ok)
		}
	}
}

// An upstream that is slow by itself gets the minimum rate within ten seconds and is reported unreachable within
// twenty; both end some time after it has recovered.
func TestController_ReportsAnUnreachableUpstream(t *testing.T) {
	t.Parallel()
	s, out, _ := run(t, "slow by itself")
	if out[50].rate > s.least || !out[60].unreachable {
		t.Errorf("rate %v after 10 s, unreachable %v after 20 s", out[50].rate, out[60].unreachable)
	}
	if last := out[len(out)-1]; last.unreachable || last.rate < 100 {
		t.Errorf("at the end: rate %v, unreachable %v", last.rate, last.unreachable)
	}
}

// Without a controller the cap on requests in flight is enough: at most goalCold of the cold requests fail.
func TestInFlightCap_ProtectsWithoutAController(t *testing.T) {
	t.Parallel()
	if _, _, r := run(t, "controller away while capacity halves"); r.cold > goalCold {
		t.Errorf("%+v", r)
	}
}
