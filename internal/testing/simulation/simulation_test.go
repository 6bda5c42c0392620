package simulation

import (
	"fmt"
	"net/netip"
	"testing"
)

// seeds is the number of plays of each scenario. The worst result has to satisfy the bounds.
const seeds = 8

// warm is the number of seconds that are not judged, because the onset has a test of its own.
const warm = 3

// bounds are the minimum results of a scenario in its worst play, or 0 for no bound.
type bounds struct{ min, p5, light, use float64 }

func (s scenario) across(limiters int) scenario     { s.limiters = limiters; return s }
func (s scenario) late(seconds float64) scenario    { s.stale = seconds; return s }
func (s scenario) batched(seconds float64) scenario { s.delay = seconds; return s }
func (s scenario) costing(n int64) scenario         { s.cost = n; return s }

// Light clients get their max-min share beside a flood. The bucket alone allows the same clients a tenth of it, or
// nothing.
func TestClientsGetTheirShares(t *testing.T) {
	t.Parallel()
	viral := bucket(100, 100, 60, flood(500, poisson), readers(50, 2, poisson))
	one := flood(500, poisson)
	one.at = []float64{1, 0}
	uneven := bucket(100, 100, 60, one,
		group{n: 25, rate: 2, when: poisson, at: []float64{0.8, 0.2}},
		group{n: 25, rate: 2, when: poisson, shift: 1, at: []float64{0.2, 0.8}})
	rotating := group{n: 1, rate: 500, when: poisson, heavy: true, from: manyHosts}
	for name, c := range map[string]struct {
		scenario
		bounds
	}{
		"even arrivals": {
			bucket(100, 100, 60, flood(500, periodic), readers(50, 2, periodic)),
			bounds{0.95, 0.97, 0.99, 0.99},
		},
		"random arrivals": {viral, bounds{0.82, 0.9, 0.97, 0.99}},
		"half of the limit": {
			bucket(100, 100, 60, flood(500, poisson), readers(25, 2, poisson)),
			bounds{0.99, 0.99, 0.99, 0.99},
		},
		"many who seldom ask": {
			bucket(500, 500, 60, floods(20, 50, poisson), readers(5000, 0.05, poisson)),
			bounds{0.95, 0.99, 0.99, 0.99},
		},
		"two limiters, uneven": {uneven.across(2), bounds{0.8, 0.9, 0.97, 0.985}},
		"four limiters":        {viral.across(4), bounds{0.85, 0.9, 0.97, 0.985}},
		"eight limiters":       {viral.across(8), bounds{0.85, 0.9, 0.97, 0.985}},
		"levels 5 ms late":     {viral.across(2).late(0.005), bounds{0.85, 0.9, 0.97, 0.985}},
		"levels 20 ms late":    {viral.across(2).late(0.020), bounds{0.85, 0.9, 0.97, 0.985}},
		"batches of 5 ms":      {viral.across(2).batched(0.005), bounds{0.85, 0.9, 0.97, 0.985}},
		"a small bucket": {
			bucket(5, 5, 120, flood(25, poisson), readers(5, 0.5, poisson)),
			bounds{0.75, 0.75, 0.85, 0.97},
		},
		"a fast one": {
			bucket(10_000, 10_000, 8, floods(10, 500, poisson), readers(2000, 4, poisson)),
			bounds{0.5, 0.9, 0.97, 0.9},
		},
		"all at the same moment": {
			bucket(100, 100, 60, flood(500, periodic), readers(25, 2, together)),
			bounds{0.9, 0.9, 0.97, 0.985},
		},
		"a flood that comes and goes": {
			bucket(100, 100, 60, flood(500, onOff), readers(50, 2, poisson)),
			bounds{0.8, 0.9, 0.97, 0.98},
		},
		"costs of 3": {
			bucket(300, 300, 60, flood(500, poisson), readers(50, 2, poisson)).costing(3),
			bounds{0.8, 0.85, 0.94, 0.98},
		},
		"10,000 addresses of one /48": {
			bucket(100, 100, 60, rotating, readers(25, 2, poisson)),
			bounds{0.9, 0.95, 0.97, 0.98},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			worst := bounds{9, 9, 9, 9}
			for seed := range uint64(seeds) {
				o := c.play(seed, warm)
				worst.min, worst.p5 = min(worst.min, o.min()), min(worst.p5, o.p5())
				worst.light, worst.use = min(worst.light, o.light), min(worst.use, o.use)
			}
			c.plain = true
			alone := c.play(0, warm)
			t.Logf("| %s | %.2f | %.2f | %.3f (%.3f) | %.3f |", name,
				worst.min, worst.p5, worst.light, alone.light, worst.use)
			if b := c.bounds; worst.min < b.min || worst.p5 < b.p5 || worst.light < b.light || worst.use < b.use {
				t.Errorf("%+v, want at least %+v", worst, b)
			}
			if alone.light > 0.9*worst.light {
				t.Errorf("the bucket alone gives them %.3f: there is nothing to share", alone.light)
			}
		})
	}
}

// One client that changes its address, in any way, never takes more from readers that return than a bucket alone would
// let it take.
func TestManyAddressesTakeNoMoreThanWithoutFairness(t *testing.T) {
	t.Parallel()
	attack := func(from func(int) netip.Addr, n int, rate float64) scenario {
		one := group{n: 1, rate: 500, when: poisson, heavy: true, from: from}
		return bucket(100, 100, 30, one, readers(n, rate, poisson))
	}
	each := func(n int) func(int) netip.Addr {
		return func(i int) netip.Addr { return anywhere(i / n) }
	}
	for name, c := range map[string]struct {
		scenario
		light float64 // at least
	}{
		"a new /24 each time, 50 readers":    {attack(anywhere, 50, 2), 0.5},
		"a new /24 each time, 25 readers":    {attack(anywhere, 25, 2), 0.75},
		"a new /24 each time, 200 readers":   {attack(anywhere, 200, 2), 0.6},
		"a new /24 each time, slow readers":  {attack(anywhere, 25, 0.2), 0.4},
		"a new /24 each time, four limiters": {attack(anywhere, 50, 2).across(4), 0.5},
		"each address 3 times":               {attack(each(3), 50, 2), 0.35},
		"each address 25 times":              {attack(each(25), 50, 2), 0.3},
		"256 /48 of one /40, 50 readers":     {attack(manyNetworks, 50, 2), 0.55},
		"256 /48 of one /40, 25 readers":     {attack(manyNetworks, 25, 2), 0.8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fair := c.play(1, warm)
			c.plain = true
			alone := c.play(1, warm)
			t.Logf("| %s | %.3f (%.3f) | %.3f |", name, fair.light, alone.light, fair.use)
			if fair.light < max(c.light, alone.light) || fair.use < 0.97 {
				t.Errorf("readers get %.3f, want %.2f; the bucket alone gives %.3f; %.3f of the limit used",
					fair.light, c.light, alone.light, fair.use)
			}
		})
	}
}

// One greedy client beside 100 that ask at random for just their share, or for less, or more, gets no more than 1.5 of
// a share.
func TestOneGreedyClient_GetsItsShare(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{0.9, 1, 2, 5} {
		var got float64
		const plays = 6
		for seed := range uint64(plays) {
			w := newWorld(bucket(100, 100, 60, flood(500, poisson), readers(100, rate, poisson)), seed, warm)
			w.run()
			got += w.got[0] / maxMin(w.offered, 100*(w.seconds-warm))[0] / plays
		}
		t.Logf("beside 100 at %v/s: %.2f of a share", rate, got)
		if got < 0.85 || got > 1.5 {
			t.Errorf("beside 100 at %v/s it gets %.2f of a share", rate, got)
		}
	}
}

// Fairness is bounded: each limiter keeps credits of its own, so a client that asks all of four has up to four times as
// much as a client that asks only one.
func TestClientOfFourLimitersWeighsFour(t *testing.T) {
	t.Parallel()
	one, four := flood(500, poisson), flood(500, poisson)
	one.at, four.shift = []float64{1}, 201
	w := newWorld(bucket(100, 100, 30, one, four).across(4), 1, warm)
	w.run()
	if ratio := w.got[1] / w.got[0]; ratio < 3 || ratio > 5 {
		t.Errorf("%.1f times as much", ratio)
	}
}

// No client is denied while the bucket has enough for all, however bursty they are.
func TestNobodyIsDeniedWithoutContention(t *testing.T) {
	t.Parallel()
	for name, groups := range map[string][]group{
		"half of the rate": {readers(25, 2, poisson)},
		"one alone":        {flood(60, poisson)},
		"all at once":      {readers(30, 2, together)},
	} {
		for seed := range uint64(seeds) {
			if o := bucket(100, 100, 30, groups...).play(seed, 0); o.denied != 0 {
				t.Errorf("%s, seed %d: %d denied", name, seed, o.denied)
			}
		}
	}
}

// When a flood begins on a full bucket, all clients start with the same credit, so light clients lose little in the
// first second and nothing after three.
func TestOnset_LightClientsLoseLittle(t *testing.T) {
	t.Parallel()
	for _, from := range []float64{0, 3} {
		want := map[float64]float64{0: 0.75, 3: 0.97}[from]
		t.Run(fmt.Sprintf("from second %v", from), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(seeds) {
				s := bucket(100, 100, from+1, flood(500, poisson), readers(25, 2, poisson))
				if o := s.play(seed, from); o.light < want {
					t.Errorf("seed %d: light clients get %.2f, want %.2f", seed, o.light, want)
				}
			}
		})
	}
}
