package hotparam_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam"
)

// served answers hot topics from the cache and lets some requests for each through.
const served = `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1}, limit: {rate: 0.001, burst: %d}, cache: {}}
`

// heated returns a running pipeline in which topic 42 is hot and has a burst left.
func heated(t *testing.T, burst int) *hotparam.Pipeline {
	t.Helper()
	p := newPipeline(t, hotparam.Config{}, fmt.Sprintf(served, burst))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for range 100 {
		p.Count(hotparam.Request{Method: http.MethodGet, Target: "/topic?id=42"})
	}
	for end := time.Now().Add(10 * time.Second); len(p.Stats().Hot) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("topic 42 has not become hot")
		}
	}
	return p
}

// counting returns a handler that responds with the number of its calls, and the client.
func counting() http.Handler {
	var n atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=3600")
		fmt.Fprintf(w, "answer %d for %s", n.Add(1), userOf(r))
	})
}

// user is the key of the client's name in the context of a request, because a header field of that name would make the
// request bypass the cache for another reason.
type user struct{}

func userOf(r *http.Request) string { return r.Context().Value(user{}).(string) }

func ask(h http.Handler, method, target, name string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, target, http.NoBody)
	h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), user{}, name)))
	return w
}

// Middleware with and without options share one cache, in which each handler has its own responses. Skip, Cost and Deny
// have the same meaning there as without the cache.
func TestMiddleware_SharesOneCache(t *testing.T) {
	t.Parallel()
	p := heated(t, 2)
	with := p.MiddlewareWith(options{
		Skip: func(x hotparam.Exchange) bool { return x.R.URL.RawQuery == "id=42&skip" },
		Cost: func(x hotparam.Exchange) int64 { return int64(len(x.R.URL.Query()["cost"])) },
		Deny: func(x hotparam.Exchange, v *hotparam.Verdict) error {
			x.W.WriteHeader(http.StatusServiceUnavailable)
			_, err := fmt.Fprint(x.W, "no: ", v.Reason)
			return err
		},
	})
	a, b := with(counting()), p.Middleware(counting())
	for i, c := range []struct {
		to     http.Handler
		target string
		status int
		body   string
		hit    bool
	}{
		{a, "/topic?id=42", 200, "answer 1 for ", false},
		{a, "/topic?id=42", 200, "answer 1 for ", true},
		{b, "/topic?id=42", 200, "answer 1 for ", false}, // a response of its own; the limit is used up
		{b, "/topic?id=42", 200, "answer 1 for ", true},
		{a, "/topic?id=42&x", 503, "no: hot", false},
		{a, "/topic?id=42&skip", 200, "answer 2 for ", false},
		{a, "/topic?id=7&cost&cost&cost", 200, "answer 3 for ", false}, // not limited, because it is cold
	} {
		w := ask(c.to, http.MethodGet, c.target, "")
		if hit := strings.Contains(w.Header().Get("Cache-Status"), "; hit"); w.Code != c.status ||
			w.Body.String() != c.body || hit != c.hit {
			t.Errorf("%d, %s: %d %s, %v", i, c.target, w.Code, w.Body, w.Header())
		}
	}
	st := p.Stats().Cache
	if st.Hits != 2 || st.Fetched != 2 || st.FetchDenied != 1 || st.Entries != 2 || st.Bytes == 0 {
		t.Errorf("%+v", st)
	}
	if n := p.Purge("topic?id=42"); n != 2 || p.Stats().Cache.Entries != 0 {
		t.Errorf("%d purged, %+v", n, p.Stats().Cache)
	}
}

// Responses may depend on the client that Client names: named clients share no cached response with each other, nor
// with clients without a name.
func TestNamedClientsShareNoAnswers(t *testing.T) {
	t.Parallel()
	p := heated(t, 100)
	h := p.MiddlewareWith(options{Client: func(x hotparam.Exchange) (string, error) {
		return userOf(x.R), nil
	}})(counting())
	for i, c := range []struct{ user, body string }{
		{"", "answer 1 for "}, {"anna", "answer 2 for anna"}, {"", "answer 1 for "}, {"bert", "answer 3 for bert"},
		{"anna", "answer 4 for anna"},
	} {
		if w := ask(h, http.MethodGet, "/topic?id=42", c.user); w.Body.String() != c.body {
			t.Errorf("%d: %s, want %s", i, w.Body, c.body)
		}
	}
}

// A fetch has the cost of its request.
func TestFetchCostsWhatItsRequestDoes(t *testing.T) {
	t.Parallel()
	p := heated(t, 10)
	h := p.MiddlewareWith(options{Cost: func(hotparam.Exchange) int64 { return 5 }})(counting())
	for i, want := range []int{200, 200, 429} {
		if w := ask(h, http.MethodGet, fmt.Sprint("/topic?id=42&page=", i), ""); w.Code != want {
			t.Errorf("%d: %d, want %d", i, w.Code, want)
		}
	}
}

func TestCacheMemoryBelowZero(t *testing.T) {
	t.Parallel()
	if _, err := hotparam.New(hotparam.Config{CacheMemory: -1}); err == nil ||
		!strings.Contains(err.Error(), "Config.CacheMemory -1") {
		t.Errorf("%v", err)
	}
}
