package limit

import (
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
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
		{Result{false, 5, 5, hottype.Never, 0}, [5]int64{1, 5, 5, -1, 0}},
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
		{Algorithm: GCRA, Limit: 24, Window: 24 * time.Hour}:  time.Hour,
		{Algorithm: GCRA, Limit: 6, Window: time.Hour}:        10 * time.Minute,
		{Algorithm: GCRA, Limit: 6, Window: time.Minute}:      10 * time.Second,
		{Algorithm: GCRA, Limit: 6, Window: 2 * time.Minute}:  20 * time.Second,
		{Algorithm: GCRA, Limit: 5, Window: time.Second}:      200 * time.Millisecond,
		{Algorithm: GCRA, Limit: 1, Window: 10 * time.Second}: 10 * time.Second,
	} {
		compiled, err := spec.Compile()
		if got := time.Duration(compiled.Unit/compiled.Fill) * time.Microsecond; err != nil || got != want {
			t.Errorf("%+v: a call every %v, want %v; %v", spec, got, want, err)
		}
	}
}
