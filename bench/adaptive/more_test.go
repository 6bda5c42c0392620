package main

import (
	"math"
	"slices"
	"testing"
)

// Each of two upstreams that are named apart is steered as one alone; under one name the smaller one
// keeps the larger from most of what it could answer.
func TestTwoUpstreams(t *testing.T) {
	t.Parallel()
	sum := map[string]float64{}
	for _, name := range []string{"two upstreams", "two upstreams, merged"} {
		s, _, _ := run(t, name)
		for _, p := range s.parts() {
			r := p.score(p.simulate(math.Inf(1), true, 2))
			sum[name] += r.goodput
			if r.back > goalBack || r.within < goalWithin || r.swing > goalSwing || r.cold > goalCold {
				t.Errorf("%s, %d servers: %+v", name, p.servers, r)
			}
		}
	}
	apart, merged := sum["two upstreams"], sum["two upstreams, merged"]
	if apart < goalGoodput*1200 || merged > apart/2 {
		t.Errorf("%.0f answered a second apart, %.0f merged", apart, merged)
	}
}

// Cold requests above the capacity leave a queue that takes 12 s to go; the rate is at its least
// meanwhile, and all is well some seconds later.
func TestColdAboveCapacity(t *testing.T) {
	t.Parallel()
	s, out, _ := run(t, "cold above capacity")
	if !slices.ContainsFunc(out[60:80], func(o second) bool { return o.rate == s.least && o.unreachable }) {
		t.Error("the least rate was not reached, or nobody said that it does not help")
	}
	s.onset = s.over
	if r := s.score(out); r.back > 12+goalBack || r.within < goalWithin {
		t.Errorf("%+v", r)
	}
}

// What the random scenarios reach, and never a rate outside its range: docs/adaptive/RESULTS.md says which
// do not reach more, and why.
func TestRandomScenarios(t *testing.T) {
	t.Parallel()
	back, steady, within := 0, 0, []float64{}
	for i := range randoms {
		s := random(i)
		out := s.simulate(math.Inf(1), true, 1)
		r := s.score(out)
		if within = append(within, r.within); r.back <= 10 {
			back++
		}
		if r.within >= goalWithin {
			steady++
		}
		for k, o := range out {
			if o.rate < s.least || o.rate > s.most {
				t.Errorf("%s, second %d: rate %v is not within %v and %v", s.name, k, o.rate, s.least, s.most)
			}
		}
	}
	slices.Sort(within)
	if back < 29 || steady < 24 {
		t.Errorf("%d of %d are back within 10 s; within the target, sorted: %.2f", back, randoms, within)
	}
}
