package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/proxy"
)

// cachingGate lets everything pass, with a limit, and leaves all but requests below /direct to the cache.
type cachingGate struct{ gate }

func (cachingGate) DecideForCache(ctx context.Context, now time.Time, r *hottype.Request) (
	verdict.Verdict, func(*verdict.Verdict)) {
	v := gate{}.Begin(ctx, now, r, true)
	if !strings.HasPrefix(r.Target, "/direct") {
		v.Key, v.Cache = "topic?id=1", &hottype.CachePolicy{TTL: time.Minute, MaxBody: 1 << 16, Wait: time.Minute}
	}
	return v, func(*verdict.Verdict) {}
}

func (cachingGate) ChargeKeys(ctx context.Context, now time.Time, r *hottype.Request) verdict.Verdict {
	return gate{}.Begin(ctx, now, r, true)
}

// startVerbatim starts an upstream that answers each request with the same bytes.
func startVerbatim(t *testing.T, answer string) *url.URL {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				r, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(conn, answer)
			}()
		}
	}()
	return &url.URL{Scheme: "http", Host: ln.Addr().String()}
}

// exchange returns all bytes that a client of the proxy gets for a request.
func exchange(t *testing.T, at, request string) string {
	t.Helper()
	conn := dial(t, strings.TrimPrefix(at, "http://"))
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(conn)
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	return string(all)
}

// startProxy starts a proxy with a cache before an upstream, and returns its URL.
func startProxy(t *testing.T, to *url.URL) string {
	t.Helper()
	p, err := proxy.New(cachingGate{}, proxy.Config{
		Upstreams: map[string]*url.URL{"": to}, Answers: httplimit.Responder{ExposeHeaders: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(p)
	t.Cleanup(srv.Close)
	return srv.URL
}

// A client gets the upstream's response, whether the request bypasses the cache, the cache fetches the response, or it
// has it. Only the fields about limits and the cache are added, nothing is lost, and each request gets a response.
func TestAnswers_ArePassedOnAsTheyAre(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, answer string
		want, never  []string // parts of the answer, in lower case
	}{
		{"no type", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nX-Content-Type-Options: nosniff\r\n\r\n<html>",
			[]string{"http/1.1 200 ok\r\n", "\r\nx-content-type-options: nosniff\r\n", "\r\n\r\n<html>"},
			[]string{"content-type:"}},
		{"a type", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nContent-Type: text/x\r\n\r\n<html>",
			[]string{"\r\ncontent-type: text/x\r\n"}, []string{"text/html"}},
		{"204 with a length", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\nX-A: b\r\n\r\n",
			[]string{"http/1.1 204 no content\r\n", "\r\nx-a: b\r\n"}, []string{"content-length", "content-type"}},
		{"304 that was not asked for", "HTTP/1.1 304 Not Modified\r\nETag: \"v\"\r\nContent-Length: 5\r\n\r\n",
			[]string{"http/1.1 304 not modified\r\n", "\r\netag: \"v\"\r\n"}, []string{"content-type"}},
		{"100 Continue", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
			[]string{"http/1.1 200 ok\r\n"}, []string{"100 continue"}},
		{"103 Early Hints", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
			[]string{"http/1.1 200 ok\r\n", "\r\nratelimit-policy: \"topic\";q=1;w=1\r\n"}, nil},
		{"fields of limits", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nRateLimit: \"app\";r=5\r\n" +
			"Access-Control-Expose-Headers: X-Total\r\nX-Total: 7\r\n\r\nok",
			[]string{"\r\nratelimit: \"topic\";r=0;t=0\r\nratelimit: \"app\";r=5\r\n", "\r\nx-total: 7\r\n",
				"\r\naccess-control-expose-headers: ratelimit, ratelimit-policy, retry-after\r\n" +
					"access-control-expose-headers: x-total\r\n"}, nil},
		{"a trailer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\n" +
			"X-Sum: 42\r\n\r\n",
			[]string{"\r\ntrailer: x-sum\r\n", "\r\nx-sum: 42\r\n"}, []string{"content-type"}},
		{"no status", "HTTP/1.1 099 X\r\nContent-Length: 0\r\n\r\n", []string{"http/1.1 502 bad gateway\r\n"}, nil},
	} {
		at := startProxy(t, startVerbatim(t, c.answer))
		for i, path := range []string{"/direct", "/topic?id=1", "/topic?id=1"} {
			got := strings.ToLower(exchange(t, at, "GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
			for _, part := range c.want {
				if !strings.Contains(got, part) {
					t.Errorf("%s, request %d: no %q in %q", c.name, i, part, got)
				}
			}
			for _, part := range c.never {
				if strings.Contains(got, part) {
					t.Errorf("%s, request %d: %q in %q", c.name, i, part, got)
				}
			}
			if hints := "http/1.1 103 early hints\r\nlink: </a>\r\n\r\n"; c.name == "103 Early Hints" && i == 0 &&
				!strings.HasPrefix(got, hints) {
				t.Errorf("%s: %q", c.name, got)
			}
		}
	}
}

// A client that waits for 100 Continue gets exactly one, whether or not the upstream sends one.
func TestAnswers_HaveOneContinue(t *testing.T) {
	t.Parallel()
	for _, interim := range []string{"", "HTTP/1.1 100 Continue\r\n\r\n"} {
		at := startProxy(t, startVerbatim(t, interim+"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
		got := exchange(t, at, "POST /topic?id=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n"+
			"Connection: close\r\n\r\nbody")
		if n := strings.Count(got, "HTTP/1.1 100 Continue\r\n\r\n"); n != 1 || !strings.HasSuffix(got, "\r\n\r\nok") {
			t.Errorf("the upstream sends %q, the client gets %q", interim, got)
		}
	}
}

// A part of an answer reaches the client while the upstream makes the rest, whether its length is known or not.
func TestAnswers_ReachTheirClientAtOnce(t *testing.T) {
	t.Parallel()
	for _, length := range []string{"", "10"} {
		for _, path := range []string{"/direct", "/topic?id=1"} {
			seen := make(chan struct{})
			at := startProxy(t, upstream(t, "", func(w http.ResponseWriter, r *http.Request) {
				if length != "" {
					w.Header().Set("Content-Length", length)
				}
				fmt.Fprint(w, "first")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-seen:
					fmt.Fprint(w, "other")
				case <-r.Context().Done():
				}
			}))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, at+path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			res, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Fatalf("%s, length %q: %v", path, length, err)
			}
			for _, want := range []string{"first", "other"} {
				got := make([]byte, 5)
				if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != want {
					t.Fatalf("%s, length %q: %q, %v", path, length, got, err)
				}
				if want == "first" {
					close(seen)
				}
			}
			_ = res.Body.Close()
			cancel()
		}
	}
}
