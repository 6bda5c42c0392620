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
		want   ThrottleReply
	}{
		{Result{true, 16, 15, 0, 2 * time.Second, 0}, ThrottleReply{false, 16, 15, -1, 2}},
		{Result{false, 1, 0, 1001 * time.Millisecond, 2 * time.Second, 0}, ThrottleReply{true, 1, 0, 2, 2}},
		{Result{false, 1, 0, time.Microsecond, time.Microsecond, 0}, ThrottleReply{true, 1, 0, 1, 1}},
		{Result{false, 5, 5, hottype.Never, 0, 0}, ThrottleReply{true, 5, 5, -1, 0}},
	} {
		if got := c.result.Throttle(); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.result, got, c.want)
		}
	}
}
