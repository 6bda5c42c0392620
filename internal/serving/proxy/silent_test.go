package proxy_test

import (
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/serving/proxy"
	"github.com/hotparam/pipeline/internal/serving/respcache"
)

// The cache counts by the upstream that answered.
func TestProxy_CacheNamesUpstream(t *testing.T) {
	t.Parallel()
	g := &recorder{policy: policy{&hottype.CachePolicy{TTL: time.Minute, MaxBody: 1 << 16, Wait: time.Second}}}
	p, err := proxy.New(g, proxy.Config{
		Upstreams: map[string]*url.URL{"": upstream(t, "usual", nil), "slow": upstream(t, "slow", nil)},
		Route:     func(string) string { return "slow" },
	})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(p)
	t.Cleanup(front.Close)
	if code, body := get(t, front.URL+"/a", nil); code != 200 || body != "slow /a" {
		t.Errorf("%d %s", code, body)
	}
	// The client has the answer before the fetch is counted.
	want := []respcache.SilentStats{{Rule: "topic", Upstream: "slow", Stored: 1}}
	deadline := time.Now().Add(20 * time.Second)
	for ; !slices.Equal(p.Cache().Silent(), want); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%+v, want %+v", p.Cache().Silent(), want)
		}
	}
}
