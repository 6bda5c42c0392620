package proxy

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
)

// An upstream is failing if at least failingAfter requests in a row failed and the first of them failed failingFor ago
// or earlier. A response with 500 or above is a failure too.
const (
	failingAfter = 5
	failingFor   = 3 * time.Second
)

// health records how many requests in a row an upstream has failed, and since when. Any number of goroutines may use
// it.
type health struct {
	failed atomic.Uint64 // consecutive failed requests
	since  atomic.Int64  // the time of the first of them, in unix ns
}

func (h *health) record(now time.Time, answered bool) {
	switch {
	case !answered:
		if h.failed.Add(1) == 1 {
			h.since.Store(now.UnixNano())
		}
	case h.failed.Load() > 0:
		h.failed.Store(0)
	}
}

// isFailing reports whether the upstream fails every request, since when, and how many it has failed.
func (h *health) isFailing(now time.Time) (since time.Time, n uint64, failing bool) {
	n, since = h.failed.Load(), time.Unix(0, h.since.Load())
	return since, n, n >= failingAfter && now.Sub(since) >= failingFor
}

// Failing returns the upstreams that fail every request, by name.
func (p *Proxy) Failing() (list []report.FailingUpstream) {
	for _, name := range slices.Sorted(maps.Keys(p.upstreams)) {
		if since, n, failing := p.upstreams[name].health.isFailing(p.cfg.now()); failing {
			name = cmp.Or(name, hottype.DefaultUpstream)
			list = append(list, report.FailingUpstream{Name: name, Since: since, N: n})
		}
	}
	return list
}

// now returns the time of Config.Now.
func (c *Config) now() time.Time {
	if c.Now == nil {
		return time.Now()
	}
	return c.Now()
}
