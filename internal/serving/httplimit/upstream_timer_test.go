package httplimit

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/internal/deciding/verdict"
)

// observer records the calls for upstreams.
type observer struct {
	Gate
	told []string
}

func (o *observer) UpstreamBegins(_ time.Time, upstream string) {
	o.told = append(o.told, upstream+" begins")
}

func (o *observer) UpstreamEnds(_ time.Time, upstream string, took time.Duration, status int) {
	o.told = append(o.told, upstream+" "+http.StatusText(status)+" after "+took.String())
}

func (o *observer) ResponseStarted(time.Time, *verdict.Lease) {
	o.told = append(o.told, "place is free")
}

// slowly is a body that takes a second to come.
type slowly struct{ io.Reader }

func (s slowly) Read(p []byte) (int, error) {
	time.Sleep(time.Second)
	return s.Reader.Read(p)
}

// allowedHandler is a handler of requests that the verdict allows.
func allowedHandler(g *HTTPGate, v *verdict.Verdict, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.ServeAllowed(w, r, v, next, nil) })
}

func TestServeAllowed_MeasuresTheUpstream(t *testing.T) {
	t.Parallel()
	leave := func() *http.Request {
		ctx, cancel := context.WithCancel(context.Background()) // made in the bubble
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
		time.AfterFunc(30*time.Millisecond, cancel)
		return r
	}
	get := func() *http.Request { return httptest.NewRequest(http.MethodGet, "/", nil) }
	for _, c := range []struct {
		name    string
		request func() *http.Request
		handler http.HandlerFunc
		want    []string
	}{
		{"the first byte counts, not the last one", get, func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(30 * time.Millisecond)
			_, _ = w.Write([]byte("a"))
			time.Sleep(time.Minute) // the client reads slowly
			_, _ = w.Write([]byte("b"))
		}, []string{"db begins", "place is free", "db OK after 30ms"}},
		{"a handler that writes nothing", get, func(http.ResponseWriter, *http.Request) {
			time.Sleep(time.Millisecond)
		},
			[]string{"db begins", "place is free", "db OK after 1ms"}},
		{"a failure", get, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusBadGateway)
		}, []string{"db begins", "place is free", "db Bad Gateway after 0s"}},
		{"a panic", get, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			[]string{"db begins", "place is free", "db Internal Server Error after 0s"}},
		{"a client that leaves, whatever is written then", leave, func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(40 * time.Millisecond)
			w.WriteHeader(http.StatusBadGateway)
		}, []string{"db begins", "place is free", "db  after 40ms"}},
		{"a body that comes slowly", func() *http.Request {
			return httptest.NewRequest(http.MethodPost, "/", slowly{strings.NewReader("body")})
		}, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			time.Sleep(30 * time.Millisecond)
			_ = http.NewResponseController(w).Flush()
		}, []string{"db begins", "place is free", "db OK after 30ms"}},
		{"an answer before the body was read says nothing of the latency", func() *http.Request {
			return httptest.NewRequest(http.MethodPost, "/", slowly{strings.NewReader("body")})
		}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) },
			[]string{"place is free"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := &observer{}
			g := NewHTTPGate(HTTPGateConfig{Gate: o})
			h := allowedHandler(g, &verdict.Verdict{Upstream: "db", Lease: &verdict.Lease{}}, c.handler)
			func() {
				defer func() { _ = recover() }()
				h.ServeHTTP(httptest.NewRecorder(), c.request())
			}()
			if diff := cmp.Diff(c.want, o.told); diff != "" {
				t.Errorf("%s: %s", c.name, diff)
			}
			synctest.Wait()
		})
	}
}

// Handlers that upgrade a connection ask the ResponseWriter itself.
func TestServeAllowed_LetsConnectionsBeHijacked(t *testing.T) {
	t.Parallel()
	o := &observer{}
	g := NewHTTPGate(HTTPGateConfig{Gate: o})
	srv := httptest.NewServer(allowedHandler(g, &verdict.Verdict{Upstream: "db"},
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nraw")
			_ = conn.Close()
		})))
	res, err := srv.Client().Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	srv.Close()
	if err != nil || string(body) != "raw" || len(o.told) != 2 {
		t.Errorf("%q %v %q", body, err, o.told)
	}
}

// A file goes the server's own way.
func TestServeAllowed_SendsFiles(t *testing.T) {
	t.Parallel()
	o := &observer{}
	g := NewHTTPGate(HTTPGateConfig{Gate: o})
	w := httptest.NewRecorder()
	allowedHandler(g, &verdict.Verdict{Upstream: "db"}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.Copy(w, strings.NewReader("file"))
	})).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Body.String() != "file" || len(o.told) != 2 {
		t.Errorf("%s %q", w.Body, o.told)
	}
}

// Where no limit follows the upstream, handlers get the server's own ResponseWriter.
func TestServeAllowed_WrapsNothingInVain(t *testing.T) {
	t.Parallel()
	g := NewHTTPGate(HTTPGateConfig{Gate: &observer{}})
	w := httptest.NewRecorder()
	allowedHandler(g, &verdict.Verdict{}, http.HandlerFunc(func(got http.ResponseWriter, _ *http.Request) {
		if got != http.ResponseWriter(w) {
			t.Errorf("%T", got)
		}
	})).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
}
