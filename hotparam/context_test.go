package hotparam_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hotparam/pipeline/hotparam"
)

// judged is a handler that responds with the client and the reason in its context.
func judged(w http.ResponseWriter, r *http.Request) {
	j, ok := hotparam.FromContext(r.Context())
	w.Header().Set("Cache-Control", "max-age=3600")
	fmt.Fprint(w, j.Client, " ", j.Verdict.Reason, " ", ok)
}

func TestFromContext_FindsVerdictAndClient(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, hotparam.Config{}, elsewhere+"ip: {trusted_proxies: [192.0.2.1]}")
	user := func(x hotparam.Exchange) (string, error) { return x.R.Header.Get("X-User"), nil }
	for name, c := range map[string]struct {
		handler http.Handler
		user    string
		want    string
	}{
		"address":       {p.MiddlewareWith(options{InContext: true})(http.HandlerFunc(judged)), "", "198.51.100.7 no_rule true"},
		"user":          {p.MiddlewareWith(options{InContext: true, Client: user})(http.HandlerFunc(judged)), "anna", "anna no_rule true"},
		"no user":       {p.MiddlewareWith(options{InContext: true, Client: user})(http.HandlerFunc(judged)), "", "198.51.100.7 no_rule true"},
		"not asked for": {p.MiddlewareWith(options{Client: user})(http.HandlerFunc(judged)), "anna", "-  false"},
		"no options":    {p.Middleware(http.HandlerFunc(judged)), "", "-  false"},
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-Forwarded-For", "203.0.113.9, 198.51.100.7")
		r.Header.Set("X-User", c.user)
		if c.handler.ServeHTTP(w, r); w.Body.String() != c.want {
			t.Errorf("%s: %s, want %s", name, w.Body, c.want)
		}
	}
	if j, ok := hotparam.FromContext(context.Background()); ok {
		t.Errorf("without a request: %+v", j)
	}
}

// A fetch of the response cache is for all clients, so its handler finds no client, not even the client of a middleware
// around the cache. A request that bypasses the cache is for its own client.
func TestFromContext_FindsNoClientInAFetch(t *testing.T) {
	t.Parallel()
	p := heated(t, 100)
	cached := p.MiddlewareWith(options{InContext: true})(http.HandlerFunc(judged))
	around := p.MiddlewareWith(options{InContext: true, Client: func(hotparam.Exchange) (string, error) {
		return "anna", nil
	}})(p.Middleware(http.HandlerFunc(judged)))
	for i, c := range []struct {
		handler       http.Handler
		target, login string
		want          string
	}{
		{cached, "/topic?id=42", "", "-  false"},
		{cached, "/topic?id=42", "", "-  false"}, // from memory
		{cached, "/topic?id=42", "Basic x", "192.0.2.1 hot true"},
		{cached, "/topic?id=7", "", "192.0.2.1 cold true"},
		{around, "/topic?id=42", "", "-  false"},
		{around, "/topic?id=7", "", "anna cold true"},
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, c.target, nil)
		if c.login != "" {
			r.Header.Set("Authorization", c.login)
		}
		if c.handler.ServeHTTP(w, r); w.Body.String() != c.want {
			t.Errorf("%d: %s, want %s, %v", i, w.Body, c.want, w.Header())
		}
	}
}
