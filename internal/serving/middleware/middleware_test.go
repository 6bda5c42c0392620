package middleware_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/middleware"
)

// fixed is a Gate that always answers the same.
type fixed struct {
	httplimit.Gate
	v verdict.Verdict
}

func (fixed) UsesProofs() (cookies, grants bool) { return false, false }

func (g fixed) DecideForCache(context.Context, time.Time, *hottype.Request) (verdict.Verdict, func(*verdict.Verdict)) {
	return g.v, nil
}

var (
	cold = fixed{v: verdict.Verdict{Verdict: hottype.Verdict{
		Allowed: true, Reason: hottype.ReasonCold, Mode: hottype.ModeEnforce,
	}}}
	hot = fixed{v: verdict.Verdict{Verdict: hottype.Verdict{
		Allowed: true, Reason: hottype.ReasonHot, Rule: "topic", Limit: 200, Window: 2 * time.Second, Remaining: 7,
	}}}
	denied = fixed{v: verdict.Verdict{Verdict: hottype.Verdict{
		Reason: hottype.ReasonHot, Rule: "topic", Key: "topic?id=42", Limit: 200, Window: 2 * time.Second,
		RetryAfter: time.Second,
	}}}
)

func TestLayer_EnforcesVerdict(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		gate   fixed
		opt    middleware.Options
		status int
		limit  string
	}{
		"cold":        {cold, middleware.Options{}, 204, ""},
		"hot":         {hot, middleware.Options{}, 204, `"topic";r=7;t=0`},
		"hot, hidden": {hot, middleware.Options{Answers: httplimit.Responder{HideLimits: true}}, 204, ""},
		"denied":      {denied, middleware.Options{}, 429, `"topic";r=0;t=1`},
		"denied by 503": {denied, middleware.Options{Answers: httplimit.Responder{Status: 503, HideLimits: true}}, 503,
			`"topic";r=0;t=1`},
	} {
		l := middleware.New(tc.gate, tc.opt)
		reached := 0
		h := l.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			reached++
			w.WriteHeader(204)
		}))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/topic?id=42", nil))
		if w.Code != tc.status || w.Header().Get("RateLimit") != tc.limit {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
		if (tc.status == 204) != (reached == 1) {
			t.Errorf("%s: reached %d times", name, reached)
		}
	}
}

func TestNew_PanicsOnInvalidOptions(t *testing.T) {
	t.Parallel()
	for name, build := range map[string]func(){
		"no gate": func() { middleware.New(nil, middleware.Options{}) },
		"status":  func() { middleware.New(cold, middleware.Options{Answers: httplimit.Responder{Status: 200}}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			build()
		}()
	}
}

// The handler gets the server's own writer: it can be flushed, hijacked, and
// read into.
func TestLayer_DoesNotWrapWriter(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(middleware.New(hot, middleware.Options{}).Wrap(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, flusher := w.(http.Flusher)
			_, reader := w.(io.ReaderFrom)
			if !flusher || !reader {
				t.Errorf("flusher %t, reader from %t", flusher, reader)
			}
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "HTTP/1.1 299 Mine\r\nConnection: close\r\n\r\n")
		})))
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || line != "HTTP/1.1 299 Mine\r\n" {
		t.Errorf("%q %v", line, err)
	}
}
