package httplimit

import (
	"context"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Wait holds an allowed request back for as long as its verdict says, which is
// nothing for most, and reports whether it is still wanted then: false when ctx
// ended first, because the client left. The place it had is not given to others.
func Wait(ctx context.Context, v *hottype.Verdict) bool {
	if v.Wait <= 0 {
		return true
	}
	t := time.NewTimer(v.Wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
