package admin

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

type Pair struct{ IPFixed, Hits uint64 }

type latency struct {
	Bounds [2]time.Duration
	Counts [3]uint64
	Sum    time.Duration
}

// everyKind has a field of each kind that Gather knows, and some that it does
// not.
type everyKind struct {
	Sent          uint64
	DroppedTotal  uint32 `help:"What was lost."`
	Keys          int64
	Ratio         float64
	Up            bool
	Age           time.Duration
	LastSeconds   time.Time
	Cache         Pair
	Pair          // embedded: its fields are its owner's
	Maybe         *int64
	Nothing       *int64
	Open          uint64 `metric:"gauge"`
	Odd           uint64 `metric:"renamed"`
	Hidden        uint64 `metric:"-"`
	Text          string
	List          []uint64
	unexported    uint64
	HTTPRequests2 uint64
	Upstreams     map[string]Pair
	Latency       latency
	NotYet        latency
}

func TestGatherMakesMetricsOfAStruct(t *testing.T) {
	t.Parallel()
	five := int64(5)
	w := newWorld(t, func(c *Config) {
		c.Stats = map[string]func() any{
			"Redis-Store": func() any {
				return everyKind{Sent: 1, DroppedTotal: 2, Keys: -3, Ratio: 0.5, Up: true, Age: 1500 * time.Millisecond, LastSeconds: time.Unix(1700000000, 0),
					Cache: Pair{6, 7}, Pair: Pair{8, 9}, Maybe: &five, Open: 10, Odd: 11, Hidden: 12, Text: "no", List: []uint64{1}, unexported: 13, HTTPRequests2: 14,
					Upstreams: map[string]Pair{"slow": {15, 16}, "": {17, 18}},
					Latency:   latency{[2]time.Duration{time.Millisecond, time.Second}, [3]uint64{1, 2, 3}, time.Minute}}
			},
			"gone": func() any { return (*everyKind)(nil) },
		}
	})
	got := w.ask(http.MethodGet, "/metrics", "").Body.String()
	for _, line := range []string{
		"sent_total 1", "dropped_total 2", "keys -3", "ratio 0.5", "up 1", "age_seconds 1.5", "last_seconds 1.7e+09",
		"cache_ip_fixed_total 6", "cache_hits_total 7", "ip_fixed_total 8", "hits_total 9", "maybe 5", "open 10", "renamed_total 11", "http_requests2_total 14",
		`upstreams_hits_total{name="slow"} 16`, `upstreams_ip_fixed_total{name=""} 17`,
		`latency_seconds_bucket{le="0.001"} 1`, `latency_seconds_bucket{le="1"} 3`, `latency_seconds_bucket{le="+Inf"} 6`, "latency_seconds_sum 60", "latency_seconds_count 6",
	} {
		if !strings.Contains(got, "\nhotparam_redis_store_"+line+"\n") {
			t.Errorf("no %s", line)
		}
	}
	if n := strings.Count(got, "\nhotparam_redis_store_"); n != 24 {
		t.Errorf("%d metrics of the room", n)
	}
	for _, line := range []string{"# TYPE hotparam_redis_store_sent_total counter", "# TYPE hotparam_redis_store_open gauge", "# HELP hotparam_redis_store_dropped_total What was lost.", "hotparam_info{namespace=\"news\",version=\"1.2.3\"} 1", "go_goroutines ", "hotparam_admin_requests_total 1"} {
		if !strings.Contains(got, line) {
			t.Errorf("no %q", line)
		}
	}
}

func TestMetricsOfDecisionsAndHotKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	long := "/" + strings.Repeat("x", 300)
	w.set(func() {
		w.hot = []hottype.Hot{
			hotKey(hostile, "*", 500, t0), hotKey(long+"1", "*", 400, t0), hotKey(long+"2", "*", 390, t0), hotKey(`/a"b\c`, "*", 380, t0),
			hotKey("topic?id=42", "topic", 350, t0), hotKey("topic?id=42", "topic", 350, t0), hotKey("topic?id=42", "other", 350, t0),
		}
		for i := range 200 {
			w.hot = append(w.hot, hotKey(fmt.Sprintf("topic?id=x%03d", i), "topic", 300-float64(i), t0))
		}
	})
	w.second(at(0, 10, 0, 0))
	w.second(at(time.Second, 310, 25, 0))
	rec := w.ask(http.MethodGet, "/metrics", "")
	got := rec.Body.String()
	if rec.Code != http.StatusOK {
		t.Fatalf("%d %s", rec.Code, got)
	}
	for _, line := range []string{
		"hotparam_allowed_total 300", `hotparam_denied_total{reason="hot"} 25`, `hotparam_denied_total{reason="ip_sliding"} 0`, "hotparam_limiters 1", "hotparam_hot_keys 207",
		`hotparam_hot_key_rate{key="/<script>alert(1)</script>/%E2%80%AEgnp.exe%0A%FF",rule="*"} 500`,
		`hotparam_hot_key_rate{key="/a\"b\\c",rule="*"} 380`, `hotparam_hot_key_rate{key="topic?id=42",rule="other"} 350`,
	} {
		if !strings.Contains(got, "\n"+line+"\n") {
			t.Errorf("no %s", line)
		}
	}
	if n := strings.Count(got, "\nhotparam_hot_key_rate{"); n != maxLabelled {
		t.Errorf("%d keys have a metric", n)
	}
	if strings.Contains(got, strings.Repeat("x", maxLabel)) || strings.Count(got, "/xxx") != 2 {
		t.Error("long keys are not cut apart")
	}
}

func TestSnake(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"Sent": "sent", "DroppedLate": "dropped_late", "IPFixed": "ip_fixed", "ParseHTTP": "parse_http", "A": "a", "UDPv6": "ud_pv6", "redis-store": "redis_store", "p99Ms": "p99_ms"} {
		if got := snake(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
