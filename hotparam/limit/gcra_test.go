package limit

import (
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam"
)

func TestThrottleReply(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		result Result
		want   [5]int64
	}{
		{Result{true, 16, 15, 0, 2 * time.Second}, [5]int64{0, 16, 15, -1, 2}},
		{Result{false, 1, 0, 1001 * time.Millisecond, 2 * time.Second}, [5]int64{1, 1, 0, 2, 2}},
		{Result{false, 1, 0, time.Microsecond, time.Microsecond}, [5]int64{1, 1, 0, 1, 1}},
		{Result{false, 5, 5, hotparam.Never, 0}, [5]int64{1, 5, 5, -1, 0}},
	} {
		if got := c.result.Throttle().Numbers(); got != c.want {
			t.Errorf("%+v: %v, want %v", c.result, got, c.want)
		}
	}
}

// What the constructors of rates of throttled promise, said as specs.
func TestEmissionIntervals(t *testing.T) {
	t.Parallel()
	for spec, want := range map[Spec]time.Duration{
		{GCRA, 24, 24 * time.Hour, 0, 0}:  time.Hour,
		{GCRA, 6, time.Hour, 0, 0}:        10 * time.Minute,
		{GCRA, 6, time.Minute, 0, 0}:      10 * time.Second,
		{GCRA, 6, 2 * time.Minute, 0, 0}:  20 * time.Second,
		{GCRA, 5, time.Second, 0, 0}:      200 * time.Millisecond,
		{GCRA, 1, 10 * time.Second, 0, 0}: 10 * time.Second,
	} {
		terms, err := spec.Terms()
		if got := time.Duration(terms.Unit/terms.Fill) * time.Microsecond; err != nil || got != want {
			t.Errorf("%+v: a call every %v, want %v; %v", spec, got, want, err)
		}
	}
}
