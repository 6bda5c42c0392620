package detect

import (
	"hash/maphash"
	"math"
	"sync"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/heavyhitters"
	"github.com/hotparam/pipeline/internal/detection/window"
)

const (
	// baselineHalfLife is the number of seconds after which a request counts half in the baseline.
	baselineHalfLife = 600
	// baselineMin is the minimum number of seconds in a baseline against which a surge is measured. With less, every
	// key would surge.
	baselineMin = 60
	// baselineUnit is the value that one request adds to the sums, so that rounding loses little when they decay.
	baselineUnit = 1024
	// baselineStep is the interval, in seconds, at which the baseline decays.
	baselineStep = 10
	// baselineSteps is the number of steps after which a baseline without requests changes no more.
	baselineSteps = 100 * baselineHalfLife / baselineStep
)

// baselineFade is the factor by which one step reduces the baseline.
var baselineFade = math.Exp2(-float64(baselineStep) / baselineHalfLife)

// baseline holds the average count of keys before the current window, in which older seconds weigh less and less. It
// holds only keys that matter: a count of at most ignored in a second is skipped, because it is a fraction of the rate
// that the key must reach anyway and would not raise the key's threshold.
type baseline struct {
	sums    *heavyhitters.Summary
	ignored int64   // counts of a second up to this are skipped
	weight  float64 // weighted seconds in the sums at the last decay
	passed  int64   // seconds since the last decay
}

func newBaseline(t *compiledRule, counters int) *baseline {
	least := t.rule.Hot.MinRate * float64(t.rule.Cost.Unit())
	return &baseline{sums: heavyhitters.New(counters), ignored: int64(least / t.rule.Hot.Surge / 4)}
}

// advance moves the baseline forward by some seconds. One call for several seconds has the result of one call for each,
// because the sums of keys without requests decay too.
func (p *baseline) advance(seconds int64) {
	p.passed += seconds
	for range min(p.passed/baselineStep, baselineSteps) {
		p.weight = (p.weight + baselineStep) * baselineFade
		p.sums.Decay(baselineFade)
	}
	p.passed %= baselineStep
}

// weightedSeconds returns the weighted number of seconds in the sums.
func (p *baseline) weightedSeconds() float64 { return p.weight + float64(p.passed) }

// add records the count of a key in one second. A key in a surge counts at most as its average, because otherwise the
// surge would enter the baseline against which it is measured.
func (p *baseline) add(hash uint64, key string, n int64, surging bool) {
	if n <= p.ignored {
		return
	}
	units := n * baselineUnit
	if surging {
		if p.weightedSeconds() <= 0 {
			return
		}
		_, upper := p.sums.Bounds(hash, key)
		units = min(units, int64(float64(upper)/p.weightedSeconds()))
	}
	if units > 0 {
		p.sums.Add(hash, key, units)
	}
}

// expectedCount returns an upper bound of the count that a key has in a number of seconds by its baseline. It returns
// -1 while the baseline has too few seconds, or if p is nil.
func (p *baseline) expectedCount(hash uint64, key string, seconds int64) float64 {
	if p == nil || p.weightedSeconds() < baselineMin {
		return -1
	}
	_, upper := p.sums.Bounds(hash, key)
	return (float64(upper)/baselineUnit/p.weightedSeconds() + float64(p.ignored)) * float64(seconds)
}

// ForgetBaselines drops the baselines of all keys. Call it when keys have come whose past is unknown here, because each
// of them would look like a surge. Until a baseline has enough seconds again, no key becomes hot by surge, and keys
// that are hot by it cool.
func (d *Detector) ForgetBaselines() {
	defer d.lockState()()
	for _, l := range d.shards {
		l.mu.Lock()
		for _, h := range l.states {
			if h.baseline != nil {
				h.baseline = newBaseline(h.compiled, h.opts.perShard())
			}
		}
		l.mu.Unlock()
	}
}

// traffic counts all requests of a rule over its window, for all keys, so that the share of a key is known. The
// catch-all has many resources and counts each of them. Safe for concurrent use.
type traffic struct {
	seed maphash.Seed
	cfg  window.Config

	mu     sync.Mutex
	totals *window.Counter // by resource; a named rule has the single key ""
	second int64
	many   bool
}

func newTraffic(t *compiledRule, o Options, seed maphash.Seed, second int64) *traffic {
	tr := &traffic{seed: seed, many: t.rule.IsCatchAll(), second: second, cfg: window.Config{
		Window: t.window, Lateness: wholeSeconds(o.Lateness), Future: wholeSeconds(o.Future), Counters: o.Counters,
	}}
	tr.totals = window.New(tr.cfg, second)
	return tr
}

// requestRun is a number of requests for one resource in one second.
type requestRun struct {
	resource  string
	second, n int64
}

func (tr *traffic) add(now int64, runs []requestRun) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.advance(now)
	for i := range runs {
		tr.totals.Add(tr.hash(runs[i].resource), runs[i].resource, runs[i].second, runs[i].n)
	}
}

func (tr *traffic) hash(resource string) uint64 { return maphash.String(tr.seed, resource) }

// upperTotal returns an upper bound of the requests for a resource in the window.
func (tr *traffic) upperTotal(now int64, resource string) int64 {
	if !tr.many {
		resource = ""
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.advance(now)
	_, upper := tr.totals.Sum(tr.hash(resource), resource)
	return upper
}

// upperTotalBefore returns the upper bound for the window that ended when second now began.
func (tr *traffic) upperTotalBefore(now int64, resource string) int64 {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.advance(now)
	return tr.totals.SumBefore(tr.hash(resource), resource) + tr.totals.Error()
}

// advance moves the window forward to a second. Like a shard, it begins again if the clock stepped far back.
func (tr *traffic) advance(second int64) {
	if tr.second-second > tr.cfg.Window+tr.cfg.Future {
		tr.totals = window.New(tr.cfg, second)
		tr.second = second
	}
	if second > tr.second {
		tr.totals.Advance(second, nil)
		tr.second = second
	}
}

// countedResource returns the name under which requests for a key are counted.
func (tr *traffic) countedResource(key hottype.Key) string {
	if !tr.many {
		return ""
	}
	return string(resourceOf(key))
}

func (tr *traffic) memoryBytes() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.totals.Stats().Bytes
}
