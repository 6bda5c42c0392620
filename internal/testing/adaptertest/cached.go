package adaptertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hotparam/pipeline/hotparam"
)

const servedRules = `
parse_as: %s
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 200}, limit: {rate: 100}, cache: {ttl: 1h}}
overrides:
  - {key: "topic?id=42", action: cache}
`

// Cached puts a pipeline around a whole framework that is an http.Handler, as docs/go.md describes for the response
// cache. The site answers /topic with a different text each time.
func Cached(t *testing.T, framework string, site http.Handler) {
	t.Helper()
	p := newPipeline(t, fmt.Appendf(nil, servedRules, framework))
	s := httptest.NewServer(p.MiddlewareWith(hotparam.Options[hotparam.Exchange]{HideLimitHeaders: true})(site))
	t.Cleanup(s.Close)
	addr := s.Listener.Addr().String()
	first, second := get(t, addr, "/topic?id=42", nil), get(t, addr, "/topic?id=42", nil)
	other := get(t, addr, "/topic?id=7", nil)
	if first.status != http.StatusOK || first.body == "" || second.body != first.body || other.body == first.body {
		t.Errorf("%+v, %+v, %+v", first, second, other)
	}
	if st := p.Stats().Cache; st.Hits != 1 || st.Fetched != 1 {
		t.Errorf("%+v", st)
	}
}
