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
	// baselineHalfLife is after how many seconds a request counts half in the past.
	baselineHalfLife = 600
	// baselineMin is how many seconds of past a surge is measured against at
	// least: before, everything would be one.
	baselineMin = 60
	// baselineUnit is what one request is, so that little is lost when it fades.
	baselineUnit = 1024
	// baselineStep is after how many seconds the past fades.
	baselineStep = 10
	// baselineSteps is after how many steps without requests nothing changes any more.
	baselineSteps = 100 * baselineHalfLife / baselineStep
)

// baselineFade is what a step leaves of the past.
var baselineFade = math.Exp2(-float64(baselineStep) / baselineHalfLife)

// baseline is what keys used to have before the current window: an average over all
// that was, in which older seconds weigh less and less. It is kept for keys
// that matter only: a key that had less than ignored in a second, of the rate
// that it must reach anyway, would not need more because of that.
type baseline struct {
	sums    *heavyhitters.Summary
	ignored int64   // counts of a second up to this are left out
	weight  float64 // seconds that were in the sums when they faded last
	passed  int64   // and that have passed since then
}

func newBaseline(t *compiledRule, counters int) *baseline {
	return &baseline{sums: heavyhitters.New(counters), ignored: int64(t.rule.Hot.MinRate / t.rule.Hot.Surge / 4)}
}

// advance lets seconds go by. It makes no difference whether they come one by one:
// a key without requests is not visited, and its past fades all the same.
func (p *baseline) advance(seconds int64) {
	p.passed += seconds
	for range min(p.passed/baselineStep, baselineSteps) {
		p.weight = (p.weight + baselineStep) * baselineFade
		p.sums.Decay(baselineFade)
	}
	p.passed %= baselineStep
}

// seconds is how many seconds are in the sums, by their weight.
func (p *baseline) seconds() float64 { return p.weight + float64(p.passed) }

// add counts what a key had in one second. A key that is in a surge counts as
// its past says, or the surge would become what it is measured against.
func (p *baseline) add(hash uint64, key string, n int64, surging bool) {
	if n <= p.ignored {
		return
	}
	units := n * baselineUnit
	if surging {
		if p.seconds() <= 0 {
			return
		}
		_, upper := p.sums.Bounds(hash, key)
		units = min(units, int64(float64(upper)/p.seconds()))
	}
	if units > 0 {
		p.sums.Add(hash, key, units)
	}
}

// of is what a key used to have in so many seconds, at most; -1 as long as there
// is not past enough.
func (p *baseline) of(hash uint64, key string, seconds int64) float64 {
	if p == nil || p.seconds() < baselineMin {
		return -1
	}
	_, upper := p.sums.Bounds(hash, key)
	return (float64(upper)/baselineUnit/p.seconds() + float64(p.ignored)) * float64(seconds)
}

// ForgetBaselines drops what keys used to have, because keys have come whose past
// is unknown here: each of them would look like a surge. Rules with surge say
// nothing by it until there is past enough again; what is hot by it only cools.
func (d *Detector) ForgetBaselines() {
	defer d.hold()()
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

// traffic counts all requests of a rule over its window, whatever their key, so
// that a key's share is known. The catch-all has many resources and counts each
// of them. Safe for concurrent use.
type traffic struct {
	seed maphash.Seed
	cfg  window.Config

	mu     sync.Mutex
	totals *window.Counter // by resource; one key, "", for a named rule
	second int64
	many   bool
}

func newTraffic(t *compiledRule, o Options, seed maphash.Seed, second int64) *traffic {
	tr := &traffic{seed: seed, many: t.rule.IsCatchAll(), second: second, cfg: window.Config{
		Window: t.window, Lateness: seconds(o.Lateness), Future: seconds(o.Future), Counters: o.Counters,
	}}
	tr.totals = window.New(tr.cfg, second)
	return tr
}

// requestRun is some requests of one resource in one second.
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

// total is how many requests a resource has in the window, at most.
func (tr *traffic) total(now int64, resource string) int64 {
	if !tr.many {
		resource = ""
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.advance(now)
	_, upper := tr.totals.Sum(tr.hash(resource), resource)
	return upper
}

// totalBefore is total of the window that ended when second now began.
func (tr *traffic) totalBefore(now int64, resource string) int64 {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.advance(now)
	return tr.totals.SumBefore(tr.hash(resource), resource) + tr.totals.Error()
}

// advance lets time pass as a shard does.
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

// resource is under which name requests of a key are counted.
func (tr *traffic) resource(key hottype.Key) string {
	if !tr.many {
		return ""
	}
	return string(resourceOf(key))
}

func (tr *traffic) bytes() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.totals.Stats().Bytes
}
