package fleet

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/rules"
)

// Settings reach the poller, its counts the aggregator, its health the page.
func TestPollGraphite_FollowsSchedule(t *testing.T) {
	t.Parallel()
	asked := make(chan *http.Request, 100)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r
		w.Header().Set("Content-Type", "application/json")
		now := time.Now().Unix()
		fmt.Fprintf(w, `[{"target":"stats_counts.news./x.hot_param.","datapoints":[[1,%d]]},
			{"target":"stats_counts.news.Z2Fx.hot_param.id=1","datapoints":[[3,%d],[4,%d]]}]`, now, now-1, now)
	}))
	t.Cleanup(srv.Close)
	counted := make(chan int64, 100)
	cfg := config.Graphite{URL: srv.URL, Flush: time.Second, Username: "u", Password: "p",
		Header: map[string]string{"x-a": "b"}, Targets: map[string]config.Targets{"*": {"a", "b"}}}
	p, err := NewPoller(cfg, config.Names{Prefix: "news", Style: "hp1"}, rules.Default(), func(counts []hottype.Count) {
		for _, c := range counts {
			if c.Key == "/x?id=1" {
				counted <- c.N
			}
		}
	}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if st := graphiteStatus(p); st.OK || st.Value != "not asked yet" {
		t.Errorf("before the first poll: %+v", st)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- pollGraphite(ctx, p, "* * * * * *", quiet) }()
	if n := <-counted + <-counted; n != 7 {
		t.Errorf("%d requests counted, want 7", n)
	}
	r := <-asked
	user, password, _ := r.BasicAuth()
	if fmt.Sprint(r.URL.Query()["target"]) != "[a b stats.sets.news.alive.count stats.gauges.news.alive]" ||
		user != "u" || password != "p" || r.Header.Get("X-A") != "b" {
		t.Errorf("asked %s with %v", r.URL, r.Header)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if st := graphiteStatus(p); !st.OK {
		t.Errorf("after a poll: %+v, %+v", st, p.Stats())
	}
}

func TestNewPoller_RejectsWrongSettings(t *testing.T) {
	t.Parallel()
	good := config.Graphite{URL: "http://g", Flush: time.Second}
	names := config.Names{Prefix: "news", Style: "hp1"}
	p, err := NewPoller(good, names, rules.Default(), func([]hottype.Count) {}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if err := pollGraphite(t.Context(), p, "sometimes", quiet); err == nil ||
		!strings.Contains(err.Error(), "--graphite.schedule") {
		t.Errorf("a bad schedule: %v", err)
	}
	bad := good
	bad.URL = "g:80"
	if _, err := NewPoller(bad, names, rules.Default(), func([]hottype.Count) {}, quiet); err == nil ||
		!strings.Contains(err.Error(), "graphite.*") {
		t.Errorf("a bad URL: %v", err)
	}
	if _, err := NewPoller(good, config.Names{Prefix: "News"}, rules.Default(), func([]hottype.Count) {},
		quiet); err == nil || !strings.Contains(err.Error(), "--names.prefix") {
		t.Errorf("a bad prefix: %v", err)
	}
}
