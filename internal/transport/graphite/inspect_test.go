package graphite_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/transport/graphite"
)

// web is a graphite-web of version 1.1 that knows limit, and maximumAbove only
// if it may.
func web(t *testing.T, above bool) *graphite.Poller {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/version") {
			fmt.Fprint(w, "1.1.8\n")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		now := time.Now().Unix()
		switch target := r.FormValue("target"); {
		case strings.HasPrefix(target, "maximumAbove(") && !above:
			w.WriteHeader(http.StatusBadRequest)
		case strings.HasPrefix(target, "limit(stats_counts.news.topic.hot_param.*"):
			fmt.Fprintf(w,
				`[{"target":"a","datapoints":[[1,%d],[null,%d]]},{"target":"b","datapoints":[[1,%d],[2,%d]]}]`, now-12,
				now-2, now-14, now-4)
		default:
			fmt.Fprint(w, "[]")
		}
	}))
	t.Cleanup(srv.Close)
	p, err := graphite.New(graphite.Config{URL: srv.URL, Names: canon.Names{Prefix: "news"}, Rules: parse(t, ruleText),
		Handle: drop, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func TestInspect_ReportsVersionStepAndClock(t *testing.T) {
	t.Parallel()
	in := web(t, true).Inspect(t.Context())
	if in.Err != "" || in.PollErr != "" || in.Version != "1.1.8" || in.Series != 2 || in.Step != 10*time.Second ||
		in.Flush != time.Second {
		t.Errorf("inspection %+v", in)
	}
	if in.Age < 2*time.Second || in.Age > 10*time.Second || !in.ClockKnown || in.ClockAhead.Abs() > 2*time.Second {
		t.Errorf("age %v, clock ahead by %v (known %v)", in.Age, in.ClockAhead, in.ClockKnown)
	}
}

func TestInspect_ReportsRefusedPolls(t *testing.T) {
	t.Parallel()
	if in := web(t, false).Inspect(t.Context()); in.Err != "" || !strings.Contains(in.PollErr, "answered 400") {
		t.Errorf("inspection %+v", in)
	}
	gone, err := graphite.New(graphite.Config{URL: "http://127.0.0.1:1", Names: canon.Names{Prefix: "news"},
		Rules: parse(t, ruleText), Handle: drop})
	if err != nil {
		t.Fatal(err)
	}
	if in := gone.Inspect(t.Context()); !strings.Contains(in.Err, "127.0.0.1:1") {
		t.Errorf("inspection %+v", in)
	}
}
