package admin

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin/live"
)

// TestAnyRevisionIsUndone: the override stands as before that change, whatever came after.
func TestAnyRevisionIsUndone(t *testing.T) {
	t.Parallel()
	s, w := loadSchemas(t), newWorld(t, nil)
	revision := map[string]int64{}
	for _, action := range []string{"block", "exempt", "shadow"} {
		rec := w.ask(http.MethodPut, "/v1/overrides/x", `{"key": "topic?id=42", "action": "`+action+`"}`)
		var stored struct{ Revision int64 }
		decode(t, rec.Body.Bytes(), &stored)
		revision[action] = stored.Revision
		w.ask(http.MethodPut, "/v1/overrides/other", `{"cidr": "203.0.113.0/24", "action": "`+action+`"}`)
	}
	for _, c := range []struct {
		of, leaves string
		status     int
	}{{"exempt", "block", 200}, {"shadow", "exempt", 200}, {"exempt", "block", 200}, {"block", "", 200}} {
		rec := w.ask(http.MethodPost, fmt.Sprintf("/v1/overrides/x/undo?revision=%d", revision[c.of]), "")
		s.answer(t, rec, c.status, "Undone")
		rec = w.ask(http.MethodGet, "/v1/overrides/x", "")
		if got := rec.Body.String(); c.leaves == "" && rec.Code != 404 ||
			c.leaves != "" && !strings.Contains(got, `"action":"`+c.leaves+`"`) {
			t.Errorf("%s undone leaves %s, want %q", c.of, got, c.leaves)
		}
	}
	for query, status := range map[string]int{"7": 404, "0": 400, "-1": 400, "x": 400} {
		s.answer(t, w.ask(http.MethodPost, "/v1/overrides/x/undo?revision="+query, ""), status, "Problem")
	}
	rec := w.ask(http.MethodGet, "/v1/audit?id=x&limit=3", "")
	s.answer(t, rec, 200, "Audit")
	if n := strings.Count(rec.Body.String(), `"id":"x","before"`); n != 3 ||
		strings.Contains(rec.Body.String(), "other") {
		t.Errorf("%d changes of x: %s", n, rec.Body)
	}
}

// TestLimitersSayWhichOverridesHold: by name and by how much, also when they fall silent.
func TestLimitersSayWhichOverridesHold(t *testing.T) {
	t.Parallel()
	s, w := loadSchemas(t), newWorld(t, nil)
	limiters := func() (list []live.Limiter) {
		t.Helper()
		rec := w.ask(http.MethodGet, "/v1/limiters", "")
		s.answer(t, rec, 200, "Limiters")
		var answer struct{ Limiters []live.Limiter }
		decode(t, rec.Body.Bytes(), &answer)
		return answer.Limiters
	}
	report := func(name string, revision int64) hottype.LimiterReport {
		return hottype.LimiterReport{Instance: name, At: w.clock(), OverridesRevision: revision}
	}
	w.second(report("a", 0), report("b", 0))
	if diff := cmp.Diff([]live.Limiter{{Instance: "a", Current: true}, {Instance: "b", Current: true}},
		limiters()); diff != "" {
		t.Errorf("before the first override: %s", diff)
	}
	w.ask(http.MethodPut, "/v1/overrides/x", `{"class": "crawler", "action": "block"}`)
	first := w.Revision()
	w.second(report("a", first), report("b", 0))
	w.ask(http.MethodPut, "/v1/overrides/y?confirm=true", `{"resource": "topic", "action": "block"}`)
	second := w.Revision()
	w.second(report("a", first), report("b", 0))
	w.second(report("a", second), report("b", 0))
	want := []live.Limiter{{Instance: "b", BehindMS: 3000, Missing: 2}, {Instance: "a", Revision: second, Current: true}}
	ignoreHeard := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".HeardMS" }, cmp.Ignore())
	almost := cmp.Comparer(func(a, b int64) bool { return a-b < 20 && b-a < 20 })
	if diff := cmp.Diff(want, limiters(), ignoreHeard, almost); diff != "" {
		t.Error(diff)
	}
	if lag := w.Init(w.clock()).State.Lagging; len(lag) != 1 || lag[0].Instance != "b" {
		t.Errorf("lagging: %+v", lag)
	}
	for range 6 {
		w.second(report("a", second)) // b is cut off
	}
	if list := limiters(); len(list) != 2 || list[0].Instance != "b" || !list[0].Silent || list[0].BehindMS < 8000 ||
		list[0].HeardMS < 6000 {
		t.Errorf("cut off: %+v", list)
	}
	stopped := report("a", second)
	stopped.Stopped = true
	w.second(stopped)
	if list := limiters(); len(list) != 1 || list[0].Instance != "b" {
		t.Errorf("after a stop: %+v", list)
	}
	w.set(func() { w.now = w.now.Add(time.Minute + time.Second); w.reports = nil })
	if list := limiters(); len(list) != 0 {
		t.Errorf("after a minute: %+v", list)
	}
}
