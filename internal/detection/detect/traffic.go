package detect

import (
	"hash/maphash"
	"sync"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/window"
)

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

// add counts runs.
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
