package httplimit

import (
	"context"
	"net/http"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Enforce does to a request what its verdict says. Denied: it answers with status
// (0: 429) and gives false. Allowed: it sets the RateLimit fields, unless hidden,
// holds the request back where it has to wait, and gives true when it is to go on;
// false where its client has left by then.
func Enforce(w http.ResponseWriter, r *http.Request, v *hottype.Verdict, status int, hideLimits bool) bool {
	if !v.Allowed {
		WriteDenied(w, v, status)
		return false
	}
	if !hideLimits {
		SetRateLimit(w.Header(), v)
	}
	return Wait(r.Context(), v)
}

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
