package httplimit_test

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

func limitFields(v hottype.Verdict) (policy, limit string) {
	h := http.Header{}
	(&httplimit.Responder{}).SetLimits(h, &v)
	return h.Get("RateLimit-Policy"), h.Get("RateLimit")
}

func TestSetLimits_WritesRateLimitFields(t *testing.T) {
	t.Parallel()
	second := time.Second
	for _, tc := range []struct {
		v             hottype.Verdict
		policy, limit string
	}{
		{hottype.Verdict{}, "", ""},
		{hottype.Verdict{Rule: "topic", Limit: 200, Window: 2 * second, Mode: hottype.ModeShadow}, "", ""},
		{hottype.Verdict{Rule: "topic", Limit: 200, Window: 2 * second, RetryAfter: 10 * time.Millisecond,
			ResetAfter: 2 * second},
			`"topic";q=200;w=2`, `"topic";r=0;t=1`},
		{hottype.Verdict{Rule: "topic", Limit: 200, Window: 2 * second, RetryAfter: hottype.Never},
			`"topic";q=200;w=2`, `"topic";r=0`},
		{hottype.Verdict{Allowed: true, Rule: "ip_fixed", Limit: 50, Window: second / 2, Remaining: 49,
			ResetAfter: 1001 * time.Millisecond},
			`"ip_fixed";q=50;w=1`, `"ip_fixed";r=49;t=2`},
		{hottype.Verdict{Allowed: true, Rule: "a\"b\\c\x00ü", Limit: math.MaxInt64, Window: second, Remaining: -1},
			`"a\"b\\c%00%C3%BC";q=999999999999999;w=1`, `"a\"b\\c%00%C3%BC";r=0;t=0`},
	} {
		policy, limit := limitFields(tc.v)
		if policy != tc.policy || limit != tc.limit {
			t.Errorf("%+v: %s and %s, want %s and %s", tc.v, policy, limit, tc.policy, tc.limit)
		}
	}
}

// The fields that are written by hand equal the fields that a structured-field library writes.
func TestSetLimits_WritesStructuredFields(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := hottype.Verdict{
			Rule:      rapid.StringMatching(`[ -~]{0,20}`).Draw(t, "rule"),
			Allowed:   rapid.Bool().Draw(t, "allowed"),
			Limit:     rapid.Int64Range(0, 1e14).Draw(t, "limit"),
			Remaining: rapid.Int64Range(0, 1e14).Draw(t, "remaining"),
			Window:    time.Second * time.Duration(rapid.Int64Range(1, 1e6).Draw(t, "window")),
		}
		wait := rapid.Int64Range(0, 1e6).Draw(t, "wait")
		v.RetryAfter = time.Second * time.Duration(wait)
		v.ResetAfter = v.RetryAfter
		policy, limit := limitFields(v)
		seconds := int64(v.Window / time.Second)
		if want := structuredField(t, v.Rule, "q", v.Limit, "w", seconds); policy != want {
			t.Fatalf("policy %s, want %s", policy, want)
		}
		if want := structuredField(t, v.Rule, "r", v.Remaining, "t", wait); limit != want {
			t.Fatalf("limit %s, want %s", limit, want)
		}
	})
}

func structuredField(t *rapid.T, rule, p string, pv int64, q string, qv int64) string {
	item := httpsfv.NewItem(rule)
	item.Params.Add(p, pv)
	item.Params.Add(q, qv)
	s, err := httpsfv.Marshal(httpsfv.List{item})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWriteDenied_WritesProblem(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	w.Header().Set("Etag", `"stale"`)
	(&httplimit.Responder{}).WriteDenied(w, httplimit.Denied{Method: http.MethodGet}, &hottype.Verdict{
		Reason: hottype.ReasonHot, Rule: "topic", Key: "/\xff\"?id=42", Limit: 200, Window: 2 * time.Second,
		RetryAfter: 1500*time.Millisecond + 1, ResetAfter: 2 * time.Second,
	})
	want := http.Header{
		"Content-Type": {"application/problem+json"}, "Cache-Control": {"no-store"},
		"X-Content-Type-Options": {"nosniff"},
		"Vary":                   {"Accept"}, "Retry-After": {"2"}, "Ratelimit": {`"topic";r=0;t=2`},
		"Ratelimit-Policy": {`"topic";q=200;w=2`},
	}
	if diff := cmp.Diff(want, w.Header()); w.Code != 429 || diff != "" {
		t.Errorf("%d: %s", w.Code, diff)
	}
	var body map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{
		"type":  "https://iana.org/assignments/http-problem-types#quota-exceeded",
		"title": "Too Many Requests", "status": 429.0, "detail": "There were too many requests for this resource.",
		"rule": "topic", "key": "/\ufffd\"?id=42", "reason": "hot", "retry_after_ms": 1501.0,
	}, body); diff != "" {
		t.Error(diff)
	}
}

func TestWriteDenied_ForEverHasNoRetryAfter(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	(&httplimit.Responder{Status: 403}).WriteDenied(w, httplimit.Denied{Method: http.MethodGet},
		&hottype.Verdict{Reason: hottype.ReasonBlocked, RetryAfter: hottype.Never})
	if w.Code != 403 || w.Header().Get("Retry-After") != "" ||
		!strings.Contains(w.Body.String(), `"retry_after_ms":-1`) {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

// Fields and bodies belong to one response, so a middleware that changes them affects no other response.
func TestWriteDenied_SharesNothing(t *testing.T) {
	t.Parallel()
	v := hottype.Verdict{Rule: "topic", Key: "topic?id=42", Limit: 10, Window: time.Second, RetryAfter: time.Second}
	refuse := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		(&httplimit.Responder{}).WriteDenied(w, httplimit.Denied{Method: http.MethodGet}, &v)
		return w
	}
	first, want := refuse(), refuse()
	for name, values := range first.Header() {
		values[0] = "changed"
		first.Header()[name] = append(values, "more")
	}
	for name, values := range first.Header() {
		if !slices.Equal(values, []string{"changed", "more"}) {
			t.Errorf("%s is %q", name, values)
		}
	}
	if got := refuse(); !cmp.Equal(got.Header(), want.Header()) || got.Body.String() != want.Body.String() {
		t.Errorf("another refusal has\n%v %s, want\n%v %s", got.Header(), got.Body, want.Header(), want.Body)
	}
}

// Problem documents hold the texts of reasons without escapes.
func TestReasons_NeedNoEscapes(t *testing.T) {
	t.Parallel()
	for r := range hottype.Reasons() {
		for _, text := range []string{r.String(), r.Info().Detail} {
			if got := string(httplimit.AppendJSONString(nil, text)); got != `"`+text+`"` {
				t.Errorf("%s needs escapes", got)
			}
		}
	}
}

func FuzzJSONString(f *testing.F) {
	for _, s := range []string{"", "a\"b\\c", "\x00\x1f\u2028", "\xff\xc3ü\xe4\xb8", "中文"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var back string
		if err := json.Unmarshal(httplimit.AppendJSONString(nil, s), &back); err != nil {
			t.Fatal(err)
		}
		if want := strings.ToValidUTF8(s, ""); strings.ReplaceAll(back, "\ufffd", "") != strings.ReplaceAll(want,
			"\ufffd", "") {
			t.Errorf("%q came back as %q", s, back)
		}
	})
}

// gateFunc is a Gate that decides by a function, and counts panics.
type gateFunc struct {
	httplimit.Gate
	decide func(*hottype.Request) hottype.Verdict
	panics *int
}

func (f gateFunc) Begin(_ context.Context, _ time.Time, req *hottype.Request, _ bool) verdict.Verdict {
	return verdict.Verdict{Verdict: f.decide(req)}
}

func (f gateFunc) DecideForCache(_ context.Context, _ time.Time, req *hottype.Request) (
	verdict.Verdict, func(*verdict.Verdict)) {
	return verdict.Verdict{Verdict: f.decide(req)}, nil
}

func (f gateFunc) ChargeKeys(_ context.Context, _ time.Time, req *hottype.Request) verdict.Verdict {
	return verdict.Verdict{Verdict: f.decide(req)}
}

func (gateFunc) UsesProofs() (cookies, grants bool) { return false, false }

func (f gateFunc) NeedsSlot(time.Time, *hottype.Request) bool { panic("broken") }

func (f gateFunc) Panicked(any) verdict.Verdict {
	*f.panics++
	return verdict.Verdict{Verdict: hottype.Verdict{Allowed: true, Reason: hottype.ReasonStore}}
}

func TestHTTPGate_DescribesTheRequestAsReceived(t *testing.T) {
	t.Parallel()
	var got hottype.Request
	g := httplimit.NewHTTPGate(httplimit.HTTPGateConfig{
		Gate: gateFunc{decide: func(req *hottype.Request) hottype.Verdict {
			got = *req
			return hottype.Verdict{Allowed: true}
		}},
		Cost: func(*http.Request) int64 { return 3 },
	})
	r := httptest.NewRequest(http.MethodPut, "http://example.com/a%2Fb//?x=%zz;y", nil)
	g.Decide(r, hottype.Client{}, 0)
	if got.Method != "PUT" || got.Host != "example.com" || got.Target != r.RequestURI || got.Cost != 3 ||
		got.Client.String() != "192.0.2.1" {
		t.Errorf("%+v", got)
	}
	r.RequestURI = "" // made by a program, not by a server
	if g.Decide(r, hottype.Client{}, 0); got.Target != "/a%2Fb//?x=%zz;y" {
		t.Errorf("target %q", got.Target)
	}
}

// A request passes if a function that describes it panics.
func TestHTTPGate_RecoversFromPanicsOfDescribing(t *testing.T) {
	t.Parallel()
	panics := 0
	g := httplimit.NewHTTPGate(httplimit.HTTPGateConfig{
		Gate: gateFunc{panics: &panics, decide: func(*hottype.Request) hottype.Verdict { return hottype.Verdict{} }},
		Cost: func(*http.Request) int64 { panic("broken") },
	})
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("a"))
	decided := g.Decide(r, hottype.Client{}, 0)
	left, count := g.DecideForCache(r)
	charged := g.ChargeKeys(r, nil)
	for _, v := range []verdict.Verdict{decided, left, charged} {
		if !v.Allowed || v.Reason != hottype.ReasonStore {
			t.Errorf("%+v", v)
		}
	}
	if panics != 3 || count != nil {
		t.Errorf("%d panics", panics)
	}
	if same, _, ok := g.AwaitBody(httptest.NewRecorder(), r); same != r || !ok {
		t.Errorf("the gate's panic is not the body's: %v", ok)
	}
}
