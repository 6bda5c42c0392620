package fleet

import (
	"sync"
	"time"
)

// freezer holds up a server.
type freezer struct {
	mu    sync.Mutex
	until chan struct{} // nil: it runs
}

// Freeze is SIGSTOP for a while: what is asked meanwhile is done afterwards.
func (f *freezer) Freeze(d time.Duration) {
	until := make(chan struct{})
	f.mu.Lock()
	f.until = until
	f.mu.Unlock()
	time.AfterFunc(d, func() {
		f.mu.Lock()
		if f.until == until {
			f.until = nil
		}
		f.mu.Unlock()
		close(until)
	})
}

func (f *freezer) awaitThaw() {
	for {
		f.mu.Lock()
		until := f.until
		f.mu.Unlock()
		if until == nil {
			return
		}
		<-until
	}
}
