package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

func TestWait_HoldsRequestBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !httplimit.Wait(t.Context(), &hottype.Verdict{}) || time.Since(began) != 0 {
			t.Errorf("held back for %v for nothing", time.Since(began))
		}
		if !httplimit.Wait(t.Context(), &hottype.Verdict{Wait: 300 * time.Millisecond}) ||
			time.Since(began) != 300*time.Millisecond {
			t.Errorf("held back for %v, want 300 ms", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if began = time.Now(); httplimit.Wait(ctx, &hottype.Verdict{Wait: time.Minute}) ||
			time.Since(began) != time.Second {
			t.Errorf("the client left after a second, Wait returned after %v", time.Since(began))
		}
	})
}

// Enforce turns a verdict into a response, fields of a response, or a wait.
func TestEnforce_AppliesVerdict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v      hottype.Verdict
		hide   bool
		status int
		pass   bool
		fields string
	}{
		{hottype.Verdict{Allowed: true}, false, 0, true, ""},
		{hottype.Verdict{Allowed: true, Rule: "topic", Limit: 5, Window: time.Second}, false, 0, true,
			`"topic";q=5;w=1`},
		{hottype.Verdict{Allowed: true, Rule: "topic", Limit: 5, Window: time.Second}, true, 0, true, ""},
		{hottype.Verdict{Rule: "topic", Limit: 5, Window: time.Second, RetryAfter: time.Second}, true, 0, false,
			`"topic";q=5;w=1`},
		{hottype.Verdict{Rule: "topic", RetryAfter: time.Second}, false, 503, false, ""},
	} {
		w := httptest.NewRecorder()
		answers := httplimit.Responder{Status: c.status, HideLimits: c.hide}
		pass := answers.Enforce(w, httptest.NewRequest(http.MethodGet, "/", nil), &c.v)
		want := c.status
		if want == 0 && !c.v.Allowed {
			want = http.StatusTooManyRequests
		}
		if pass != c.pass || !pass && w.Code != want || w.Header().Get("RateLimit-Policy") != c.fields {
			t.Errorf("%+v: pass %v, %d, %q", c.v, pass, w.Code, w.Header().Get("RateLimit-Policy"))
		}
	}
}
