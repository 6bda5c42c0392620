package httplimit

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/internal/deciding/verdict"
)

// holder records the calls for a lease.
type holder struct {
	Gate
	mu                sync.Mutex
	renewed, released int
}

func (h *holder) Renew(time.Time, *verdict.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.renewed++
}

func (h *holder) Release(time.Time, *verdict.Lease) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.released++
	return true
}

// A response that takes longer than the lease renews it, and no more once it has ended.
func TestKeepLease_RenewsUntilRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &holder{}
		g := NewHTTPGate(HTTPGateConfig{Gate: h})
		release := g.KeepLease(&verdict.Lease{Slots: []verdict.Slot{{TTL: time.Minute}, {TTL: 30 * time.Second}}})
		time.Sleep(95 * time.Second)
		synctest.Wait()
		release()
		release()
		time.Sleep(time.Hour)
		if h.renewed != 9 || h.released != 1 {
			t.Errorf("renewed %d times in 95 s, want 9; released %d times", h.renewed, h.released)
		}
	})
}
