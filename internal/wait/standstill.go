package wait

import (
	"context"
	"sync"
	"time"
)

const (
	// beatEvery is the interval at which a Standstill reads the time.
	beatEvery = 100 * time.Millisecond
	// noticedFrom is the shortest gap between two beats that is a standstill. A busy machine causes shorter gaps.
	noticedFrom = 500 * time.Millisecond
	// settle is the time after a standstill in which data that is read may have waited through it: in the buffers of
	// this host, and in the buffers of senders, which continue when there is room here.
	settle = time.Second
)

// Standstill notices that this process did not run, because it was stopped, its container throttled or its machine
// moved. Data that is read soon afterwards may have arrived at any time since.
//
// The zero value and nil notice nothing; Run makes a Standstill work. It is safe for concurrent use.
type Standstill struct {
	mu    sync.Mutex // guards the rest
	last  time.Time  // time of the last beat; zero unless Run runs
	until time.Time  // end of the time to settle after the last standstill
}

// Run beats until ctx ends, and returns nil. Afterwards s notices no standstill.
func (s *Standstill) Run(ctx context.Context) error {
	s.Beat()
	Every(ctx, beatEvery, s.Beat)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.until = time.Time{}, time.Time{}
	return nil
}

// Beat records that this process runs. Run calls it.
func (s *Standstill) Beat() {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detectGap(now)
	s.last = now
}

func (s *Standstill) detectGap(now time.Time) {
	if !s.last.IsZero() && now.Sub(s.last) > noticedFrom {
		s.until = now.Add(settle)
	}
}

// Recent reports whether data that is read now may have waited while this process stood still. It also notices a
// standstill whose end Run has not noticed yet.
func (s *Standstill) Recent() bool {
	if s == nil {
		return false
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detectGap(now)
	return now.Before(s.until)
}
