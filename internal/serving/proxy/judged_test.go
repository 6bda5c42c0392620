package proxy_test

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/middleware"
	"github.com/hotparam/pipeline/internal/serving/proxy"
)

// request is a request that a gate judged, or that arrived at an upstream.
type request struct {
	method, target, host string
	header               http.Header
}

// recorder is a gate that records the requests that it judges. It leaves requests to the cache.
type recorder struct {
	httplimit.Gate
	mu   sync.Mutex
	seen []request
	policy
}

// policy is the cache policy of all requests; it may be nil.
type policy struct{ *hottype.CachePolicy }

func (g *recorder) Begin(_ context.Context, _ time.Time, r *hottype.Request, _ bool) verdict.Verdict {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = append(g.seen, request{r.Method, r.Target, r.Host, r.Header.(http.Header).Clone()})
	return verdict.Verdict{Verdict: hottype.Verdict{Allowed: true, Reason: hottype.ReasonHot, Rule: "topic"}}
}

func (g *recorder) DecideForCache(ctx context.Context, now time.Time, r *hottype.Request) (
	verdict.Verdict, func(*verdict.Verdict)) {
	v := g.Begin(ctx, now, r, true)
	if g.CachePolicy == nil || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return v, nil
	}
	v.Cache, v.Hot, v.Key = g.CachePolicy, true, "topic?id=1"
	return v, func(*verdict.Verdict) {}
}

func (g *recorder) ChargeKeys(context.Context, time.Time, *hottype.Request) verdict.Verdict {
	return verdict.Verdict{Verdict: hottype.Verdict{Allowed: true, Reason: hottype.ReasonHot, Rule: "topic"}}
}

func (*recorder) UsesProofs() (cookies, grants bool) { return false, false }

func (*recorder) NeedsSlot(time.Time, *hottype.Request) bool { return false }

func (g *recorder) takeRequests() []request {
	g.mu.Lock()
	defer g.mu.Unlock()
	taken := g.seen
	g.seen = nil
	return taken
}

// field is a field of a request as a client sends it.
type field struct{ name, value string }

var (
	genTarget = rapid.Custom(func(t *rapid.T) string {
		form := rapid.SampledFrom([]string{"/", "/", "/", "//", "http://h/", "http://h", "http:////", "*", "h"}).
			Draw(t, "form")
		part := rapid.SampledFrom([]string{"a", "topic", "id=1", "/", "//", ".", "..", "?", "&", "=", ";", "%61", "%2f",
			"%2F", "%", "%zz", "%C3%28", "^", "|", "\"", "<", ">", "{", "}", "`", "\x80", "\xff", "ä", "[", "]", "@",
			":", "://", "+", "*", "!", "'", "(", "\\", "#", "~", "$", ","})
		return form + strings.Join(rapid.SliceOfN(part, 0, 8).Draw(t, "parts"), "")
	})
	genMethod = rapid.SampledFrom([]string{"GET", "GET", "GET", "HEAD", "POST", "PUT", "OPTIONS", "TRACE", "CONNECT",
		"PURGE", "get", "M-SEARCH"})
	genHost = rapid.SampledFrom(
		[]string{"h", "h", "h", "h:80", "H", "", "127.0.0.1", "[::1]:80", "[fe80::1%25e]", "a/b",
			"u@h", "ä.de", "xn--4ca.de", "a\"b", "a b", "%41"},
	)
	genField = rapid.Custom(func(t *rapid.T) field {
		name := rapid.SampledFrom([]string{"Connection", "Connection", "connection", "X-A", "x-a", "X-B", "X_A",
			"Upgrade", "HTTP2-Settings", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "TE", "Trailer",
			"User-Agent",
			"Accept-Language", "Cookie", "Authorization", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto",
			"X-Real-IP", "Forwarded", "Expect", "Content-Type"}).
			Draw(t, "name")
		value := rapid.SampledFrom([]string{"a", "b", "", " a ", "close", "keep-alive", "X-A", "X-A, close", "x-b,X-A",
			"upgrade", "Upgrade, HTTP2-Settings", "websocket", "h2c", "websocket, h2c", "trailers", "1.2.3.4", "\x80",
			"X-Forwarded-For", "TE, Cookie", "a, b"})
		return field{name, value.Draw(t, "value")}
	})
)

// The proxy sends exactly the request that was judged: target, authority and each field are the same at the gate and at
// the upstream, through the proxy and its cache, for clients with HTTP/1.1 and HTTP/2.
func TestProxy_SendsJudgedRequest(t *testing.T) {
	t.Parallel()
	up, g := newRawUpstream(t), new(recorder)
	p, err := proxy.New(g, proxy.Config{Upstreams: map[string]*url.URL{"": up.URL}, PreserveHost: true})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewUnstartedServer(p)
	front.Config.Protocols = h2c()
	front.Config.Protocols.SetHTTP1(true)
	front.Start()
	t.Cleanup(front.Close)
	at := front.Listener.Addr().String()
	sent := 0
	rapid.Check(t, func(t *rapid.T) {
		g.policy = policy{}
		if rapid.Bool().Draw(t, "cached") {
			g.policy = policy{
				&hottype.CachePolicy{TTL: time.Minute, MaxBody: 1 << 16, Wait: time.Second, Vary: []string{"X-A"}},
			}
		}
		method, target, host := genMethod.Draw(t, "method"), genTarget.Draw(t, "target"), genHost.Draw(t, "host")
		fields := rapid.SliceOfN(genField, 0, 5).Draw(t, "fields")
		if rapid.Bool().Draw(t, "h2") {
			sendHTTP2(t, at, method, target, host, fields)
		} else {
			sendHTTP1(t, at, method, target, host, fields)
		}
		judged, arrived := g.takeRequests(), up.takeRequests(t)
		if len(arrived) > len(judged) || len(arrived) > 1 {
			t.Fatalf("judged %+v, arrived %+v", judged, arrived)
		}
		for i := range arrived {
			sent++
			if arrived[i].header.Get("User-Agent") == "Mozilla/5.0 (compatible; hotparam)" {
				withoutOwnForms(&judged[i], &arrived[i])
			}
			compare(t, &judged[i], &arrived[i])
		}
	})
	t.Logf("%d requests reached the upstream", sent)
	if !t.Failed() && sent == 0 {
		t.Error("nothing reached the upstream")
	}
}

// A host that the transport would send in another form is rejected; spaces around a value are not judged.
func TestProxy_RejectsOddHosts(t *testing.T) {
	t.Parallel()
	up, g := newRawUpstream(t), new(recorder)
	p, err := proxy.New(g, proxy.Config{Upstreams: map[string]*url.URL{"": up.URL}, PreserveHost: true})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewUnstartedServer(p)
	front.Config.Protocols = h2c()
	front.Start()
	t.Cleanup(front.Close)
	at := front.Listener.Addr().String()
	for _, host := range []string{"a/b", "u@h", "ä.de", "[fe80::1%25e]"} {
		if sendHTTP2(t, at, "GET", "/", host, nil); len(g.takeRequests()) > 0 || len(up.takeRequests(t)) > 0 {
			t.Errorf("%s is judged or sent", host)
		}
	}
	fields := []field{{"x-a", " a\t"}, {"user-agent", "a"}, {"user-agent", "b"}}
	sendHTTP2(t, at, "GET", "/", "h", fields)
	want := []request{{"GET", "/", "h", http.Header{"X-A": {"a"}, "User-Agent": {"a"}}}}
	if diff := cmp.Diff(want, g.takeRequests(), cmp.AllowUnexported(request{})); diff != "" {
		t.Error(diff)
	}
}

// The same holds for a ReverseProxy behind the middleware, if that knows that it forwards. It cleans queries, which the
// test leaves out, and writes X-Forwarded-For.
func TestMiddleware_ForwardsJudgedRequest(t *testing.T) {
	t.Parallel()
	up, g := newRawUpstream(t), new(recorder)
	tr := &http.Transport{DisableCompression: true} // which sets Accept-Encoding
	t.Cleanup(tr.CloseIdleConnections)
	back := &httputil.ReverseProxy{Transport: tr, ErrorLog: log.New(io.Discard, "", 0),
		//nolint:staticcheck // Rewrite would remove the fields that proxies write
		Director: func(r *http.Request) { r.URL.Scheme, r.URL.Host = "http", up.Host }}
	front := httptest.NewServer(middleware.New(g, middleware.Options{Forwards: true}).Wrap(back))
	t.Cleanup(front.Close)
	rapid.Check(t, func(t *rapid.T) {
		method := rapid.SampledFrom([]string{"GET", "POST"}).Draw(t, "method")
		target := strings.ReplaceAll(genTarget.Draw(t, "target"), "?", "")
		fields := rapid.SliceOfN(genField, 0, 5).Draw(t, "fields")
		sendHTTP1(t, front.Listener.Addr().String(), method, target, "h", fields)
		judged, arrived := g.takeRequests(), up.takeRequests(t)
		for i := range arrived {
			for _, name := range forwardedFields {
				delete(judged[i].header, name)
			}
			if judged[i].host == "" {
				judged[i].host = up.Host // the forwarder's own
			}
			compare(t, &judged[i], &arrived[i])
		}
	})
}

// withoutOwnForms removes the fields that a fetch of the cache drops or has in a form of its own. The fields of the
// client that it carries, such as addresses and the name of the origin, are the judged ones.
func withoutOwnForms(judged, arrived *request) {
	for _, name := range []string{"User-Agent", "Accept-Encoding", "Accept-Language", "X-A"} {
		delete(judged.header, name)
		delete(arrived.header, name)
	}
	for name := range judged.header {
		if arrived.header[name] == nil {
			delete(judged.header, name)
		}
	}
}

// forwardedFields are the fields that proxies write.
var forwardedFields = []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// compare compares the judged request with the one that arrived.
func compare(t *rapid.T, judged, arrived *request) {
	path, _ := (&hottype.Request{Target: judged.target}).SplitTarget()
	want := path
	if i := strings.IndexByte(judged.target, '?'); i >= 0 {
		want += judged.target[i:]
	}
	if arrived.target != want {
		t.Fatalf("judged target %q, sent %q", judged.target, arrived.target)
	}
	if arrived.host != judged.host {
		t.Fatalf("judged host %q, sent %q", judged.host, arrived.host)
	}
	if arrived.method != judged.method && (judged.method != "HEAD" || arrived.method != "GET") {
		t.Fatalf("judged %s, sent %s", judged.method, arrived.method)
	}
	for _, name := range forwardedFields {
		if judged.header[name] != nil {
			t.Fatalf("%s of a stranger was judged: %q", name, judged.header[name])
		}
		delete(arrived.header, name) // the proxy's own
	}
	for name, values := range judged.header {
		got := arrived.header[name]
		if name == "User-Agent" && strings.Join(values, "") == "" || name == "Content-Length" {
			continue // an empty field counts as absent; the length is of the message
		}
		if !slices.Equal(values, got) {
			t.Fatalf("judged %s: %q, sent %q", name, values, got)
		}
	}
	for name, values := range arrived.header {
		if judged.header[name] == nil && name != "Transfer-Encoding" && name != "Content-Length" {
			t.Fatalf("sent %s: %q, which was not judged", name, values)
		}
		upgrade := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}[name]
		if (name == "Connection" || name == "Upgrade" || name == "Http2-Settings") && !slices.Equal(values, upgrade) {
			t.Fatalf("sent %s: %q", name, values)
		}
	}
}
