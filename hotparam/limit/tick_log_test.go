package limit

import (
	"context"
	"testing"
	"time"
)

// Two charges of one request for the same log count together, once.
func TestLogTwiceInARequest(t *testing.T) {
	t.Parallel()
	m, results := NewMemory(MemoryConfig{}), make([]Result, 2)
	log := Charge{Subject: Subject{Space: "s"}, Spec: Spec{Algorithm: SlidingLog, Limit: 5, Window: time.Second},
		Cost: 1}
	for i, want := range []int64{3, 1, 1} {
		if _, err := m.Take(context.Background(), time.UnixMilli(int64(i)), []Charge{log, log}, results); err != nil ||
			results[1].Remaining != want {
			t.Errorf("call %d: %+v, want %d left; %v", i, results, want, err)
		}
	}
}
