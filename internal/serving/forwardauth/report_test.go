package forwardauth

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// reported decides about checks with a promise, of which it believes one word.
type reported struct {
	*gate
	promises []string
}

func (r *reported) Decide(ctx context.Context, now time.Time, req *hottype.Request,
	promise string) (hottype.Verdict, uint64) {
	r.promises = append(r.promises, promise)
	return r.DecideForGateway(ctx, now, req), uint64(len(r.promises))
}

// A gateway that promises to report the end of a request gets a number for the report, and the same one if it repeats
// the check.
func TestHandler_NumbersReportedRequests(t *testing.T) {
	t.Parallel()
	r := &reported{gate: new(gate)}
	h, _ := newHandler(t, Config{Dialect: Nginx, RequestID: "X-Request-ID", Reported: r})
	for _, c := range []struct{ id, promise, want string }{
		{"a", "word", "1"}, {"a", "word", "1"}, {"b", "word", "2"}, {"c", "", ""},
	} {
		check := checkOf("GET", "/check", "X-Original-URI: /topic?id=1", "X-Original-Method: GET",
			"X-Original-Host: h", "X-Real-IP: 192.0.2.7", "X-Request-Id: "+c.id)
		if c.promise != "" {
			check.Header.Set("X-Hotparam-Reports", c.promise)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, check)
		if got := w.Header().Get("X-Hotparam-Report"); w.Code != 200 || got != c.want {
			t.Errorf("check %s: %d, number %q, want %q", c.id, w.Code, got, c.want)
		}
	}
	if len(r.promises) != 2 {
		t.Errorf("promises: %q", r.promises)
	}
}
