package httplimit

import (
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Hold keeps the lease of a verdict, which must have one, until release is called:
// responses may take longer than it lives. release does nothing the second time.
func (g *SafeGate) Hold(l *hottype.Lease) (release func()) {
	h := &holding{gate: g, lease: l, every: time.Hour}
	for i := range l.Places {
		h.every = min(h.every, l.Places[i].Life/3)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = time.AfterFunc(h.every, h.renew)
	return h.release
}

// holding is a lease under renewal.
type holding struct {
	gate  *SafeGate
	lease *hottype.Lease
	every time.Duration

	mu    sync.Mutex // also held over a renewal, which must not come after the release
	timer *time.Timer
	over  bool
}

func (h *holding) renew() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.gate.holder.Renew(h.gate.cfg.Now(), h.lease)
		h.timer.Reset(h.every)
	}
}

func (h *holding) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.over = true
		h.timer.Stop()
		h.gate.holder.Release(h.gate.cfg.Now(), h.lease)
	}
}

// Release gives back what another process was told to release.
func (g *SafeGate) Release(l *hottype.Lease) (held bool) {
	return g.holder != nil && g.holder.Release(g.cfg.Now(), l)
}
