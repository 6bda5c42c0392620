package gate

import (
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// A denial waits longer by at most the jitter, and never shorter.
func TestWithJitter(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		wait, jitter time.Duration
		random       float64
		want         time.Duration
	}{
		{time.Second, 0, 0.9, time.Second},
		{time.Second, 10 * time.Second, 0, time.Second},
		{time.Second, 10 * time.Second, 0.25, 3500 * time.Millisecond},
		{0, 10 * time.Second, 0.5, 5 * time.Second},
		{hottype.Never, 10 * time.Second, 0.5, hottype.Never},
	} {
		if got := withJitter(tc.wait, tc.jitter, tc.random); got != tc.want {
			t.Errorf("%+v: %v", tc, got)
		}
	}
	if got := withJitter(time.Second, 10*time.Second, 1-1.0/(1<<53)); got > 11*time.Second {
		t.Errorf("%v is beyond the bound", got)
	}
}
