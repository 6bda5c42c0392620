package admin

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/operator/admin/changes"
	"github.com/hotparam/pipeline/internal/operator/admin/live"
)

// TestOverrideList_IsFoundAndPaged asks for parts of the list: without limit it is whole, the newest override first.
func TestOverrideList_IsFoundAndPaged(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t, nil), loadSchemas(t)
	for i := range 5 {
		w.tick()
		w.put(t, 201, fmt.Sprintf("/v1/overrides/o%d", i),
			fmt.Sprintf(`{"key": "topic?id=%d", "rate": 5, "reason": "Launch %d", "author": "ann"}`, i, i%2))
	}
	w.tick()
	w.put(t, 201, "/v1/overrides/net", `{"cidr": "203.0.113.0/24", "action": "block", "author": "Bob"}`)
	var all struct{ Overrides []changes.View }
	decode(t, w.ask(http.MethodGet, "/v1/overrides", "").Body.Bytes(), &all)
	if len(all.Overrides) < 6 {
		t.Fatalf("without limit: %d", len(all.Overrides))
	}
	for query, want := range map[string]string{
		"find=LAUNCH&limit=2":               "5: o4 o3",
		"find=launch&limit=2&offset=2":      "5: o2 o1",
		"find=launch&offset=5":              "5:",
		"find=launch+1":                     "2: o3 o1",
		"find=topic%3Fid%3D4&offset=0":      "1: o4",
		"find=203.0.113":                    "1: net",
		"find=bob":                          "1: net",
		"find=nEt":                          "1: net",
		"find=none":                         "0:",
		"limit=1":                           fmt.Sprint(len(all.Overrides), ": net"),
		"find=launch&limit=100000&offset=4": "5: o0",
	} {
		rec := w.ask(http.MethodGet, "/v1/overrides?"+query, "")
		s.answer(t, rec, 200, "OverrideList")
		var a struct {
			Matched   int
			Overrides []changes.View
		}
		decode(t, rec.Body.Bytes(), &a)
		got := fmt.Sprintf("%d:", a.Matched)
		for _, o := range a.Overrides {
			got += " " + o.ID
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", query, got, want)
		}
	}
	for _, bad := range []string{"limit=0", "limit=x", "offset=-1", "find=" + strings.Repeat("a", 1001)} {
		s.answer(t, w.ask(http.MethodGet, "/v1/overrides?"+bad, ""), 400, "Problem")
	}
}

// TestStream_HasTheFirstOverrides sets more overrides than an event has. Each change of any of them is an event, and
// the totals count all.
func TestStream_HasTheFirstOverrides(t *testing.T) {
	t.Parallel()
	const n = 120
	w := newWorld(t, nil)
	for i := range n {
		w.tick()
		w.put(t, 201, fmt.Sprintf("/v1/overrides/o%d", i), fmt.Sprintf(`{"key": "topic?id=%d", "rate": 5}`, i))
	}
	w.OpenStreams()
	w.second(at(0, 0, 0, 0))
	srv := httptest.NewServer(w.Handler())
	t.Cleanup(srv.Close) // after the stream has ended
	events := listen(t, srv.URL)
	var hello live.Init
	decode(t, events.next("hello"), &hello)
	if len(hello.Overrides) != 100 || hello.Overrides[0].ID != "o119" || hello.State.Totals.Overrides < n {
		t.Fatalf("%d overrides of %d, first %q", len(hello.Overrides), hello.State.Totals.Overrides,
			hello.Overrides[0].ID)
	}
	w.ask(http.MethodDelete, "/v1/overrides/o0", "")
	var list []changes.View
	decode(t, events.next("overrides"), &list)
	if len(list) != 100 {
		t.Errorf("%d overrides after one that the event does not have was removed", len(list))
	}
}
