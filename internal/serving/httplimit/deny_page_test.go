package httplimit

import (
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

const almostOne = 1 - 1.0/(1<<53)

func TestDenialPage_ReloadsAfterShortWait(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		method string
		wait   time.Duration
		random float64
		want   int64
	}{
		{"GET", 1500 * time.Millisecond, 0, 2},
		{"GET", 1500 * time.Millisecond, 0.5, 4},
		{"GET", 0, 0, 1},
		{"GET", 2 * time.Minute, almostOne, 124},
		{"GET", 2*time.Minute + 1, 0, 0},
		{"GET", hottype.Never, 0.5, 0},
		{"POST", time.Second, 0, 0},
		{"HEAD", time.Second, 0, 0},
		{"", time.Second, 0, 0},
	} {
		v := hottype.Verdict{RetryAfter: tc.wait}
		if got := reloadAfter(tc.method, &v, tc.random); got != tc.want {
			t.Errorf("%+v: %d", tc, got)
		}
		if p := string(denialPage(429, tc.method, &v, tc.random)); strings.Contains(p, "refresh") != (tc.want > 0) ||
			strings.Contains(p, "by itself") != (tc.want > 0) || strings.Contains(p, "%!") {
			t.Errorf("%+v: %s", tc, p)
		}
	}
}

func TestFormatSeconds_RoundsUp(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[int64]string{
		1: "1 second", 90: "90 seconds", 91: "2 minutes", 5400: "90 minutes", 5401: "2 hours", 48 * 3600: "48 hours",
		48*3600 + 1: "3 days",
	} {
		if got := formatSeconds(seconds); got != want {
			t.Errorf("%d: %s, want %s", seconds, got, want)
		}
	}
	if got := formatSeconds(math.MaxInt64 / int64(time.Second)); got != "106752 days" {
		t.Error(got)
	}
}

// The page and the text hold no part of the request and no name of a rule.
func TestWriteDenied_QuotesNoRequest(t *testing.T) {
	t.Parallel()
	const evil = `"><script>alert(1)</script>`
	v := hottype.Verdict{
		Reason: hottype.ReasonHot, Rule: "topic", Key: "topic?id=" + evil, Class: evil,
		Limit: 1, Window: time.Second, RetryAfter: 3 * time.Second,
	}
	for _, accept := range []string{"text/html", "text/plain", "application/json"} {
		w := httptest.NewRecorder()
		(&Responder{}).WriteDenied(w, Denied{Method: evil, Accept: []string{accept, evil}}, &v)
		if accept != "application/json" && strings.Contains(w.Body.String(), "alert") || w.Code != 429 {
			t.Errorf("%s: %d %s", accept, w.Code, w.Body)
		}
		if nosniff := w.Header().Get("X-Content-Type-Options"); nosniff != "nosniff" {
			t.Errorf("%s: %q", accept, nosniff)
		}
	}
}

func TestWriteDenied_SetsFieldsAndText(t *testing.T) {
	t.Parallel()
	v := hottype.Verdict{
		Reason: hottype.ReasonHot, Rule: "topic", Key: "topic?id=42", Limit: 200, Window: 2 * time.Second,
		RetryAfter: 2100 * time.Millisecond,
	}
	w := httptest.NewRecorder()
	w.Header().Set("Vary", "Origin")
	w.Header().Set("Access-Control-Expose-Headers", "X-Own")
	a := Responder{Headers: hottype.HeadersBoth, ExposeHeaders: true,
		DenyHeaders: map[string]string{"access-control-allow-origin": "*"}}
	a.WriteDenied(w, Denied{Method: "GET", Accept: []string{"text/plain"}}, &v)
	want := http.Header{
		"Content-Type": {"text/plain; charset=utf-8"}, "Cache-Control": {"no-store"},
		"X-Content-Type-Options": {"nosniff"},
		"Vary":                   {"Origin", "Accept"}, "Access-Control-Allow-Origin": {"*"},
		"Retry-After": {"3"}, "Ratelimit": {`"topic";r=0;t=3`}, "Ratelimit-Policy": {`"topic";q=200;w=2`},
		"X-Ratelimit-Limit": {"200"}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"3"},
		"Access-Control-Expose-Headers": {"X-Own", exposed[hottype.HeadersBoth]},
	}
	if diff := cmp.Diff(want, w.Header()); diff != "" {
		t.Error(diff)
	}
	const text = "429 Too Many Requests\nThere were too many requests for this resource. You can try again in 3 seconds.\n"
	if w.Body.String() != text {
		t.Errorf("%q", w.Body)
	}
	v.Reason, v.RetryAfter = hottype.ReasonBlocked, hottype.Never
	w = httptest.NewRecorder()
	a = Responder{Headers: hottype.HeadersXRateLimit, Status: 403}
	a.WriteDenied(w, Denied{Method: "GET", Accept: []string{"text/html"}}, &v)
	if h := w.Header(); h.Get("RateLimit") != "" || h.Get("X-RateLimit-Reset") != "" || h.Get("Retry-After") != "" ||
		h.Get("X-RateLimit-Limit") != "200" {
		t.Error(h)
	}
	if body := w.Body.String(); !strings.Contains(body, "403 Forbidden") || !strings.Contains(body, "does not help") {
		t.Error(body)
	}
}

// Values of one allocation do not run into each other when a caller appends to one.
func TestFieldValues_AreSeparate(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	(&Responder{}).SetLimits(h, &hottype.Verdict{Rule: "topic", Limit: 1, Window: time.Second})
	h.Add("RateLimit-Policy", "other")
	if h.Get("RateLimit") != `"topic";r=0;t=0` || len(h["Ratelimit-Policy"]) != 2 {
		t.Error(h)
	}
}

func TestResponder_CheckRejectsInvalid(t *testing.T) {
	t.Parallel()
	for _, a := range []Responder{{Status: 200}, {Headers: "x"}} {
		if a.Check() == nil {
			t.Errorf("%+v is right", a)
		}
	}
}
