package decisionapi

import (
	"sync"
	"time"

	"github.com/hotparam/pipeline/internal/deciding/costs"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
)

const (
	// maxHeldWorks bounds the requests that are measured at a time. Others count the mean at once.
	maxHeldWorks = 1 << 16
	// holdWork is the time for which a request without a lease is measured. A caller that does not release it by then
	// has failed.
	holdWork = 30 * time.Second
	// progressEvery is the interval at which the cost of a request that goes on is counted.
	progressEvery = time.Second
)

// heldWorks measures requests between their decisions and their releases. The zero value is ready; any number of
// goroutines may use it.
type heldWorks struct {
	mu sync.Mutex
	by map[uint64]*heldWork // by number of their tokens
}

// heldWork is the work of the upstream on one request.
type heldWork struct {
	*costs.Work
	until time.Time
	timer *time.Timer
}

// hold begins to measure a request, until its lease is over.
func (h *heldWorks) hold(number uint64, w *costs.Work, lease *verdict.Lease) {
	now, lasts := time.Now(), time.Duration(holdWork)
	if lease != nil {
		for _, slot := range lease.Slots {
			lasts = min(lasts, slot.TTL)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.by) >= maxHeldWorks {
		w.End(now, -1, false)
		return
	}
	if h.by == nil {
		h.by = map[uint64]*heldWork{}
	}
	w.Begin(now)
	one := &heldWork{Work: w, until: now.Add(lasts)}
	one.timer = time.AfterFunc(progressEvery, func() { h.countProgress(number, one) })
	h.by[number] = one
}

// countProgress counts the cost of a request so far, or the mean if its caller has not released it in time.
func (h *heldWorks) countProgress(number uint64, one *heldWork) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.by[number] != one {
		return
	}
	now := time.Now()
	if now.Before(one.until) {
		one.Progress(now, 0)
		one.timer.Reset(progressEvery)
		return
	}
	delete(h.by, number)
	one.End(now, -1, true)
}

// end ends the measurement of a request, if it is measured here, with the costs that its caller knows.
func (h *heldWorks) end(number uint64, given costs.Given) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.by[number]
	if one == nil {
		return
	}
	delete(h.by, number)
	one.timer.Stop()
	one.Give(given)
	one.End(time.Now(), -1, false)
}
