package decisionapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/serving/decisionapi"
)

// echo allows requests that cost less than 10, and returns the described request as the key.
type echo struct{ decisionapi.Gate }

func (echo) Begin(_ context.Context, _ time.Time, r *hottype.Request, _ bool) verdict.Verdict {
	v := verdict.Verdict{Verdict: hottype.Verdict{
		Allowed: r.Cost < 10, Reason: hottype.ReasonHot, Rule: "topic", Limit: 9, Remaining: 3, Window: time.Second,
		ResetAfter: 2*time.Millisecond + 1, Mode: hottype.ModeEnforce, WouldDeny: r.Cost == 5, Hot: r.Cost == 5,
		Pass: &hottype.Pass{Name: "hotparam_0a1b", Value: "pass"},
		Key: hottype.Key(fmt.Sprint(r.Method, " ", r.Host, r.Target, " ", r.Client, " ", r.Header.Get("User-Agent"),
			" ", r.Cost)),
	}}
	if !v.Allowed {
		v.RetryAfter = hottype.Never
	}
	return v
}

func ask(t *testing.T, method string, body io.Reader) (*httptest.ResponseRecorder, decisionapi.Stats) {
	t.Helper()
	d := decisionapi.Decide(echo{})
	w := httptest.NewRecorder()
	d.ServeHTTP(w, httptest.NewRequest(method, "/v1/decide", body))
	return w, d.Stats()
}

const allowedBody = `{"allowed":true,"reason":"hot","rule":"topic","key":"GET / - bot 5","limit":9,"remaining":3,` +
	`"retry_after_ms":0,"reset_after_ms":3,"mode":"shadow","hot":true}`

const deniedBody = `{"allowed":false,"reason":"hot","rule":"topic","key":"PUT x/a 1.2.3.4  10","limit":9,"remaining":3,` +
	`"retry_after_ms":-1,"reset_after_ms":3,"mode":"enforce",` +
	`"set_cookie":"hotparam_0a1b=pass; Path=/; Max-Age=86400; HttpOnly; SameSite=Lax"}`

func TestDecider_AnswersWithVerdicts(t *testing.T) {
	t.Parallel()
	one := `{"uri":"/","cost":5,"headers":{"user-agent":"bot"}}`
	two := `{"method":"PUT","host":"x","uri":"/a","ip":"1.2.3.4:5","cost":10}`
	for _, tc := range []struct {
		body, want string
		stats      decisionapi.Stats
	}{
		{one, allowedBody, decisionapi.Stats{Checks: 1}},
		{" \n" + two + "\n", deniedBody, decisionapi.Stats{Checks: 1, Denied: 1}},
		{"[" + one + " , " + two + "]", "[" + allowedBody + "," + deniedBody + "]",
			decisionapi.Stats{Checks: 2, Denied: 1}},
		{"[ ]", "[]", decisionapi.Stats{}},
	} {
		w, stats := ask(t, http.MethodPost, strings.NewReader(tc.body))
		if w.Code != 200 || w.Body.String() != tc.want+"\n" || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s", tc.body, w.Code, w.Body)
		}
		if diff := cmp.Diff(tc.stats, stats); diff != "" {
			t.Error(diff)
		}
	}
}

// The cookie of a pass is for TLS if the caller states that the client uses TLS.
func TestDecider_HandsOutPassesByScheme(t *testing.T) {
	t.Parallel()
	for proto, want := range map[string]string{`"https"`: "__Host-hotparam_", `"http"`: "hotparam_", `[]`: "hotparam_",
		`["https","http"]`: "hotparam_"} {
		body := `{"uri":"/","cost":10,"headers":{"x-forwarded-proto":` + proto + `}}`
		w, _ := ask(t, http.MethodPost, strings.NewReader(body))
		if !strings.Contains(w.Body.String(), `,"set_cookie":"`+want) {
			t.Errorf("%s: %s", proto, w.Body)
		}
	}
}

func TestDecider_RejectsWrongCalls(t *testing.T) {
	t.Parallel()
	big := `{"uri":"/` + strings.Repeat("a", 1<<20) + `"}`
	for name, tc := range map[string]struct {
		method string
		body   io.Reader
		status int
		detail string
	}{
		"method": {http.MethodGet, strings.NewReader(`{"uri":"/"}`), 405, "POST"},
		"unknown": {http.MethodPost, strings.NewReader(`[{"uri":"/"},{"url":"/"}]`), 400,
			`check 1: byte 20: unknown field "url"`},
		"long": {http.MethodPost, strings.NewReader(big), 413, "1048576"},
		"many": {http.MethodPost, strings.NewReader("[" + strings.Repeat(`{"uri":"/"},`, 1000) + `{"uri":"/"}]`),
			400, "more than 1000"},
		"broken": {http.MethodPost, iotest.ErrReader(io.ErrUnexpectedEOF), 400, "ended early"},
	} {
		w, stats := ask(t, tc.method, tc.body)
		var p struct {
			Status int
			Detail string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if w.Code != tc.status || p.Status != tc.status || !strings.Contains(p.Detail, tc.detail) {
			t.Errorf("%s: %d %+v", name, w.Code, p)
		}
		// Nothing is decided of a batch that holds a mistake.
		if stats.Rejected != 1 || stats.Checks != 0 || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %+v %v", name, stats, w.Header())
		}
	}
}

// A batch stops soon after its caller has left.
func TestDecider_StopsAbandonedBatches(t *testing.T) {
	t.Parallel()
	d := decisionapi.Decide(echo{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	body := "[" + strings.Repeat(`{"uri":"/"},`, 999) + `{"uri":"/"}]`
	d.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/",
		strings.NewReader(body)))
	if n := d.Stats().Checks; n >= 100 {
		t.Errorf("%d checks", n)
	}
}

// yes is the cheapest Gate, so that the benchmark is of this package.
type yes struct{ decisionapi.Gate }

func (yes) Begin(context.Context, time.Time, *hottype.Request, bool) verdict.Verdict {
	return verdict.Verdict{Verdict: hottype.Verdict{
		Allowed: true, Reason: hottype.ReasonCold, Mode: hottype.ModeEnforce,
	}}
}

func BenchmarkBatch100(b *testing.B) {
	item :=
		`{"method":"GET","uri":"/topic?id=42&lang=en&page=3","host":"news.example","ip":"203.0.113.9","headers":{"User-Agent":"Mozilla/5.0"}}`
	body := "[" + strings.Repeat(item+",", 99) + item + "]"
	d := decisionapi.Decide(yes{})
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		d.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/decide", strings.NewReader(body)))
	}
	b.ReportMetric(float64(b.N)*100/b.Elapsed().Seconds(), "checks/s")
}
