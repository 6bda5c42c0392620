package proxy_test

import (
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/serving/proxy"
)

// An upstream is failing when it has answered none of several requests for some time, or each with a status of 500 or
// above, and not any more with its first answer.
func TestProxy_ReportsAFailingUpstream(t *testing.T) {
	t.Parallel()
	var status, now atomic.Int64
	now.Store(time.Now().UnixNano())
	clock := func() time.Time { return time.Unix(0, now.Load()) }
	up := upstream(t, "app", func(w http.ResponseWriter, _ *http.Request) {
		if status.Load() == 0 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(int(status.Load()))
		fmt.Fprint(w, "x")
	})
	p, addr := serve(t, proxy.Config{Upstreams: map[string]*url.URL{"": up}, Now: clock})
	ask := func(code, n int) {
		status.Store(int64(code))
		for range n {
			get(t, addr+"/topic", nil)
		}
	}
	failing := func(want int) {
		t.Helper()
		list, stats := p.Failing(), p.Stats().Upstreams[""].Failing
		if stats != (want > 0) || len(list) != min(want, 1) ||
			want > 0 && (list[0].Name != "default" || list[0].N != uint64(want)) {
			t.Errorf("failing: %+v, %v; want %d failures", list, stats, want)
		}
	}
	failing(0)
	ask(404, 10)
	failing(0)
	ask(0, 3)
	ask(503, 2)
	failing(0) // a moment
	began := clock()
	now.Add(int64(3 * time.Second))
	failing(5)
	ask(0, 1)
	if failing(6); !p.Failing()[0].Since.Equal(began) {
		t.Errorf("since %v, want %v", p.Failing()[0].Since, began)
	}
	ask(200, 1)
	failing(0)
	ask(500, 4)
	now.Add(int64(time.Minute))
	failing(0) // too few to say
	ask(500, 1)
	failing(5)
}
