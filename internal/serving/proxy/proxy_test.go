package proxy_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/proxy"
)

// gate denies /no and knows crawlers.
type gate struct{ httplimit.Gate }

func (g gate) DecideForCache(ctx context.Context, now time.Time, r *hottype.Request) (
	verdict.Verdict, func(*verdict.Verdict)) {
	return g.Begin(ctx, now, r, true), nil
}

func (gate) UsesProofs() (cookies, grants bool) { return false, false }

func (gate) NeedsSlot(time.Time, *hottype.Request) bool { return false }

func (gate) Begin(_ context.Context, _ time.Time, r *hottype.Request, _ bool) verdict.Verdict {
	v := verdict.Verdict{Verdict: hottype.Verdict{
		Allowed: r.Target != "/no", Reason: hottype.ReasonHot, Rule: "topic", Limit: 1, Window: time.Second,
	}}
	if strings.Contains(r.Header.Get("User-Agent"), "bot") {
		v.Class = r.Header.Get("User-Agent")
	}
	return v
}

// upstream starts a server that returns the requests that it received, and returns its URL.
func upstream(t *testing.T, name string, h http.HandlerFunc) *url.URL {
	t.Helper()
	if h == nil {
		h = func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, name, " ", r.RequestURI) }
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func serve(t *testing.T, cfg proxy.Config) (*proxy.Proxy, string) {
	t.Helper()
	p, err := proxy.New(gate{}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(p)
	t.Cleanup(srv.Close)
	return p, srv.URL
}

// get sends a request and returns the status and the body of the response.
func get(t *testing.T, target string, header http.Header) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func TestProxy_RoutesByClass(t *testing.T) {
	t.Parallel()
	p, at := serve(t, proxy.Config{
		Upstreams: map[string]*url.URL{"": upstream(t, "usual", nil), "slow": upstream(t, "slow", nil)},
		Route: func(class string) string {
			return map[string]string{"goodbot": "slow", "lostbot": "nowhere"}[class]
		},
	})
	for agent, want := range map[string]string{"": "usual /a", "goodbot": "slow /a", "lostbot": "usual /a"} {
		if code, body := get(t, at+"/a", http.Header{"User-Agent": {agent}}); code != 200 || body != want {
			t.Errorf("%q: %d %s", agent, code, body)
		}
	}
	if code, _ := get(t, at+"/no", nil); code != 429 {
		t.Errorf("denied: %d", code)
	}
	want := proxy.Stats{Denied: 1, Unrouted: 1, Upstreams: map[string]proxy.UpstreamStats{"": {Requests: 2},
		"slow": {Requests: 1}}}
	if diff := cmp.Diff(want, p.Stats()); diff != "" {
		t.Error(diff)
	}
}

// The upstream gets the judged target, even if net/url would normalize it.
func TestProxy_ForwardsTargetAsReceived(t *testing.T) {
	t.Parallel()
	_, at := serve(t, proxy.Config{Upstreams: map[string]*url.URL{"": upstream(t, "up", nil)}})
	for _, target := range []string{"/", "/a%2Fb/../c", "//x//y", "/q?a=1;b=2&%zz=%&c", "/q?", "/%E4%B8%AD?%e4"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(at, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", target)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		if string(body) != "up "+target {
			t.Errorf("%s arrived as %s", target, body)
		}
		conn.Close()
	}
}

func TestProxy_SetsForwardedFields(t *testing.T) {
	t.Parallel()
	tell := func(w http.ResponseWriter, r *http.Request) {
		h := r.Header
		fmt.Fprintf(w, "%s|%s|%s|%s|%s", strings.Join(h["X-Forwarded-For"], "+"), h.Get("X-Forwarded-Host"),
			h.Get("X-Forwarded-Proto"), h.Get("X-Real-Ip"), r.Host)
	}
	sent := http.Header{
		"X-Forwarded-For": {"6.6.6.6"}, "X-Forwarded-Host": {"front"}, "X-Forwarded-Proto": {"https"},
		"X-Real-Ip": {"6.6.6.6"}, "Forwarded": {"for=6.6.6.6"},
	}
	up := map[string]*url.URL{"": upstream(t, "", tell)}
	for _, tc := range []struct {
		trusted  string
		preserve bool
		want     string
	}{
		{"10.0.0.0/8", false, "127.0.0.1|{proxy}|http||{upstream}"},
		{"127.0.0.0/8", true, "6.6.6.6, 127.0.0.1|front|https|6.6.6.6|{proxy}"},
	} {
		_, at := serve(t, proxy.Config{
			Upstreams: up, PreserveHost: tc.preserve,
			Clients: httplimit.NewClients([]netip.Prefix{netip.MustParsePrefix(tc.trusted)}, ""),
		})
		want := strings.NewReplacer("{proxy}", strings.TrimPrefix(at, "http://"), "{upstream}", up[""].Host).
			Replace(tc.want)
		if _, body := get(t, at, sent); body != want {
			t.Errorf("trusting %s: %s, want %s", tc.trusted, body, want)
		}
	}
}

func TestProxy_AnswersForFailedUpstream(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	frozen := upstream(t, "", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	rude := upstream(t, "", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	nobody := &url.URL{Scheme: "http", Host: "127.0.0.1:1"} // of a freed port another test may take hold
	for name, tc := range map[string]struct {
		url    *url.URL
		status int
		why    string
	}{
		"refused": {nobody, 502, "connection refused"},
		"closed":  {rude, 502, "connection closed before the answer"},
		"frozen":  {frozen, 504, "no answer in time"},
		"no tls":  {&url.URL{Scheme: "https", Host: rude.Host}, 502, "TLS handshake failed"},
		"no host": {&url.URL{Scheme: "http", Host: "nobody.invalid:1"}, 502, "host not found"},
	} {
		p, at := serve(t, proxy.Config{Upstreams: map[string]*url.URL{"": tc.url},
			HeaderTimeout: 100 * time.Millisecond})
		code, body := get(t, at+"/secret?x=1", nil)
		var problem struct{ Detail string }
		if err := json.Unmarshal([]byte(body), &problem); err != nil {
			t.Fatalf("%s: %v in %q", name, err, body)
		}
		if want := "The upstream gave no answer: " + tc.why + "."; code != tc.status || problem.Detail != want ||
			strings.Contains(body, tc.url.Host) {
			t.Errorf("%s: %d %s, want %s, without %s", name, code, body, want, tc.url.Host)
		}
		if s := p.Stats().Upstreams[""]; s.Failures != 1 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// A client that leaves is no failure of the upstream.
func TestProxy_CountsAbandonedRequests(t *testing.T) {
	t.Parallel()
	reached := make(chan struct{})
	up := upstream(t, "", func(_ http.ResponseWriter, r *http.Request) {
		close(reached)
		<-r.Context().Done()
	})
	p, err := proxy.New(gate{}, proxy.Config{Upstreams: map[string]*url.URL{"": up}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-reached; cancel() }()
	p.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
	if s := p.Stats().Upstreams[""]; s.Abandoned != 1 || s.Failures != 0 {
		t.Errorf("%+v", s)
	}
}

func TestNew_RejectsInvalidConfig(t *testing.T) {
	t.Parallel()
	good, bad := &url.URL{Scheme: "http", Host: "a:1"}, &url.URL{Scheme: "ftp", Host: "a:1"}
	for want, cfg := range map[string]proxy.Config{
		"no usual upstream":            {Upstreams: map[string]*url.URL{"slow": good}},
		`upstream "slow": "ftp://a:1"`: {Upstreams: map[string]*url.URL{"": good, "slow": bad}},
		"must have no query": {Upstreams: map[string]*url.URL{
			"": {Scheme: "http", Host: "a:1", RawQuery: "x"}}},
		"status 200 of denials must be": {Upstreams: map[string]*url.URL{"": good},
			Answers: httplimit.Responder{Status: 200}},
		`upstream "none": <nil> is not a URL`: {Upstreams: map[string]*url.URL{"": good, "none": nil}},
	} {
		if _, err := proxy.New(gate{}, cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
