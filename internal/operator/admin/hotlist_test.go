package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
)

// hotAnswer holds the parts of GET /v1/hot that the tests read.
type hotAnswer struct {
	Matched int
	Keys    []struct {
		Key         string
		LimitSource string `json:"limit_source"`
		Threshold   float64
	}
}

func TestHotList_IsSortedFilteredAndPaged(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t, nil), loadSchemas(t)
	for i := range 7 {
		h := hotKey(fmt.Sprintf("topic?id=%d", i), "topic", float64(1000-i), t0.Add(time.Duration(i)*time.Second))
		h.Clients, h.Share = int64(i%3), float64(i)/10
		w.hot = append(w.hot, h)
	}
	w.hot = append(w.hot, hotKey("/Search?q=a", "*", 10, t0))
	reports := func(n uint64) report.Limiter {
		return report.Limiter{Instance: "a", At: w.clock().Add(time.Second),
			Keys: []report.KeyDecisions{{Key: "topic?id=3", Denied: 50 * n},
				{Key: "topic?id=5", Allowed: 70 * n, Denied: 20 * n, Cached: 9 * n}}}
	}
	for n := range uint64(2) {
		w.second(reports(n))
	}
	for query, want := range map[string]string{
		"limit=2":                        "8: topic?id=0 topic?id=1",
		"limit=2&offset=2":               "8: topic?id=2 topic?id=3",
		"offset=8":                       "8:",
		"offset=100":                     "8:",
		"find=SEARCH":                    "1: /Search?q=a",
		"find=topic&limit=1&offset=6":    "7: topic?id=6",
		"find=none":                      "0:",
		"sort=denied&limit=3":            "8: topic?id=3 topic?id=5 topic?id=0",
		"sort=allowed&limit=1":           "8: topic?id=5",
		"sort=served&limit=1":            "8: topic?id=5",
		"sort=share&limit=1":             "8: topic?id=6",
		"sort=clients&limit=2":           "8: topic?id=2 topic?id=5",
		"sort=since&offset=0&limit=2":    "8: topic?id=0 /Search?q=a",
		"sort=key&limit=2":               "8: /Search?q=a topic?id=0",
		"sort=rate&find=topic%3Fid%3D4&": "1: topic?id=4",
	} {
		rec := w.ask(http.MethodGet, "/v1/hot?"+query, "")
		s.answer(t, rec, 200, "HotList")
		var a hotAnswer
		decode(t, rec.Body.Bytes(), &a)
		got := fmt.Sprintf("%d:", a.Matched)
		for _, k := range a.Keys {
			got += " " + k.Key
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", query, got, want)
		}
	}
	if w.hot[0].Key != "topic?id=0" {
		t.Error("the list of the caller was sorted")
	}
	for _, bad := range []string{"sort=name", "offset=-1", "offset=x", "find=" + strings.Repeat("a", 1001)} {
		s.answer(t, w.ask(http.MethodGet, "/v1/hot?"+bad, ""), 400, "Problem")
	}
}

// A hot key has its threshold and the source of its limit, on the first page and in the stream.
func TestHotKey_NamesThresholdAndLimitSource(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.hot = []hottype.HotKey{hotKey("topic?id=42", "topic", 400, t0), hotKey("topic?id=7", "topic", 300, t0),
		hotKey("gone?id=1", "gone", 300, t0)}
	w.ask(http.MethodPut, "/v1/overrides", `{"key": "topic?id=42", "rate": 5}`)
	var a hotAnswer
	decode(t, w.ask(http.MethodGet, "/v1/hot", "").Body.Bytes(), &a)
	got, err := json.Marshal(a.Keys)
	want :=
		`[{"Key":"topic?id=42","limit_source":"override","Threshold":200},{"Key":"topic?id=7","limit_source":"","Threshold":200},` +
			`{"Key":"gone?id=1","limit_source":"rule","Threshold":500}]`
	if err != nil || string(got) != want {
		t.Errorf("got %s, want %s: %v", got, want, err)
	}
}

// At most five of the keys closest to their thresholds are shown, nearest first and without loops.
func TestHotList_ShowsClosestKeysWhileNothingIsHot(t *testing.T) {
	t.Parallel()
	heaviest := []hottype.HotKey{{Key: "/a?q=1", Rate: 300}, {Key: "topic?id=1", Rate: 190},
		{Key: "topic?id=9", Rate: 195}}
	for i := range 9 {
		heaviest = append(heaviest, hottype.HotKey{Key: hottype.Key(fmt.Sprintf("topic?id=1%d", i)),
			Rate: float64(100 - i)})
	}
	w := newWorld(t, func(c *Config) {
		c.Heaviest = func(int) []hottype.HotKey { return heaviest }
		c.Loops = func() []hottype.HotKey { return []hottype.HotKey{hotKey("topic?id=9", "topic", 195, t0)} }
	})
	s := loadSchemas(t)
	told := func() (keys []string) {
		w.second()
		body, err := json.Marshal(w.Init(w.clock()))
		if err != nil {
			t.Fatal(err)
		}
		s.check(t, "Hello", body)
		for _, c := range w.Init(w.clock()).State.Closest {
			keys = append(keys, fmt.Sprintf("%s %v/%v", c.Key, c.Rate, c.Threshold))
		}
		return keys
	}
	want := "topic?id=1 190/200, /a?q=1 300/500, topic?id=10 100/200, topic?id=11 99/200, topic?id=12 98/200"
	if got := strings.Join(told(), ", "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	w.set(func() { w.hot = []hottype.HotKey{hotKey("topic?id=42", "topic", 400, t0)} })
	if got := told(); len(got) != 0 {
		t.Errorf("something is hot: %s", got)
	}
}
