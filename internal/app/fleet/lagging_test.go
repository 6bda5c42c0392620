package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/operator/admin/live"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/storage/rediscontrol"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// limiterAnswer is the response to GET /v1/limiters.
type limiterAnswer struct {
	Revision int64
	Limiters []struct {
		Instance string
		Current  bool
		Silent   bool
		BehindMS int64 `json:"behind_ms"`
	}
}

// lacking returns the names of the limiters that lack a change, with the time for which they have lacked it.
func (a limiterAnswer) lacking() map[string]time.Duration {
	list := map[string]time.Duration{}
	for _, l := range a.Limiters {
		if !l.Current {
			list[l.Instance] = time.Duration(l.BehindMS) * time.Millisecond
		}
	}
	return list
}

func openFeed(t testing.TB, addr string) *rediscontrol.Feed {
	t.Helper()
	c, err := redisclient.Open(redisclient.Config{Addrs: []string{addr}, Namespace: "news",
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return rediscontrol.New(c)
}

// limiter follows the overrides and reports, as a limiter does. held is the number of overrides that it enforces.
func limiter(t *testing.T, addr, name string) (held *atomic.Int64) {
	t.Helper()
	held = new(atomic.Int64)
	feed := openFeed(t, addr)
	redistest.Running(t, func(ctx context.Context) error {
		return feed.Overrides().Follow(ctx, func(live rules.LiveOverrides) { held.Store(int64(live.Len())) })
	})
	redistest.Running(t, feed.Reporter(func(at time.Time) report.Limiter {
		return report.Limiter{Instance: name, At: at}
	}).Run)
	return held
}

// An override reaches 36 limiters. The 37th is cut off, and the API reports it with its name and the length of its lag.
func TestAggregator_NamesLimiterThatLags(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	front := redistest.StartFaultProxy(t, redis.Addr())
	held := map[string]*atomic.Int64{"cut-off": limiter(t, front.Addr(), "cut-off")}
	for i := range 36 {
		name := fmt.Sprintf("limiter-%d", i)
		held[name] = limiter(t, redis.Addr(), name)
	}
	feed := openFeed(t, redis.Addr())
	set, err := rules.Parse("rules.yaml",
		[]byte("rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 10}}]"))
	if err != nil {
		t.Fatal(err)
	}
	server, err := admin.New(admin.Config{Config: live.Config{
		Namespace: "news", Hot: func() []hottype.HotKey { return nil }, Rules: func() *rules.Set { return set },
		Reports: feed.ReadReports, Overrides: feed.Overrides(), Log: slog.New(slog.DiscardHandler),
	}})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method, path, body string) []byte {
		req := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
		rec := httptest.NewRecorder()
		server.Handler().ServeHTTP(rec, req)
		if rec.Code/100 != 2 {
			t.Errorf("%s %s: %d %s", method, path, rec.Code, rec.Body)
		}
		return rec.Body.Bytes()
	}
	look := func() (a limiterAnswer) {
		if err := json.Unmarshal(ask(http.MethodGet, "/v1/limiters", ""), &a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	ask(http.MethodPut, "/v1/overrides", `{"cidr": "203.0.113.0/24", "action": "block"}`)
	redistest.Eventually(t, "all 37 to have the first override", func() bool {
		a := look()
		return len(a.Limiters) == 37 && len(a.lacking()) == 0
	})

	front.Set(func(context.Context, io.Writer, func() ([]byte, error)) error { return io.EOF })
	began := time.Now()
	ask(http.MethodPut, "/v1/overrides?confirm=true", `{"resource": "topic", "action": "block"}`)
	redistest.Eventually(t, "36 to have the second one", func() bool { return len(look().lacking()) == 1 })
	t.Logf("36 limiters have an override, and the API knows, %v after it was asked for",
		time.Since(began).Round(time.Millisecond))
	for name, n := range held {
		if want := n.Load() == 2; want != (name != "cut-off") {
			t.Errorf("%s enforces %d overrides", name, n.Load())
		}
	}
	if lag, ok := look().lacking()["cut-off"]; !ok || lag <= 0 || lag > time.Since(began)+time.Second {
		t.Errorf("%v, lag %v", look().lacking(), lag)
	}
	redistest.Eventually(t, "the one that is cut off to be silent", func() bool {
		a := look()
		return len(a.Limiters) == 37 && a.Limiters[0].Instance == "cut-off" && a.Limiters[0].Silent &&
			a.lacking()["cut-off"] > 4*time.Second
	})
	front.Set(nil)
	redistest.Eventually(t, "all 37 to have both",
		func() bool { return len(look().lacking()) == 0 && held["cut-off"].Load() == 2 })
}
