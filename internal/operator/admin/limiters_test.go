package admin

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/internal/operator/admin/live"
	"github.com/hotparam/pipeline/internal/report"
)

// An undo of a change is rejected once another change was made since, by its revision or by the version of the override
// that it made.
func TestUndo_RevertsOnlyLastChange(t *testing.T) {
	t.Parallel()
	s, w := loadSchemas(t), newWorld(t, nil)
	put := func(action, author string) (stored struct {
		Revision, Change, Version int64
	}) {
		rec := w.ask(http.MethodPut, "/v1/overrides/x?author="+author,
			`{"key": "topic?id=42", "action": "`+action+`", "author": "`+author+`"}`)
		decode(t, rec.Body.Bytes(), &stored)
		if want := fmt.Sprintf(`"%d"`, stored.Version); rec.Header().Get("ETag") != want || stored.Change == 0 {
			t.Errorf("%s: ETag %s, want %s; change %d", action, rec.Header().Get("ETag"), want, stored.Change)
		}
		w.ask(http.MethodPut, "/v1/overrides/other", `{"cidr": "203.0.113.0/24", "action": "`+action+`"}`)
		return stored
	}
	first, second := put("exempt", "ann"), put("block", "bob")
	for _, of := range []struct{ query, header string }{
		{fmt.Sprint("?author=ann&revision=", first.Change), "A: b"},
		{"?author=ann", fmt.Sprintf(`If-Match: "%d"`, first.Version)},
		{"?author=ann", `If-Match: "0"`},
	} {
		rec := w.ask(http.MethodPost, "/v1/overrides/x/undo"+of.query, "", of.header)
		if s.answer(t, rec, 412, "Problem"); !strings.Contains(rec.Body.String(), `set to block by \"bob\"`) {
			t.Errorf("%v: %s", of, rec.Body)
		}
	}
	if rec := w.ask(http.MethodGet, "/v1/overrides/x", ""); !strings.Contains(rec.Body.String(), `"action":"block"`) {
		t.Fatalf("the block of a colleague is gone: %s", rec.Body)
	}
	for _, c := range []struct{ query, header, leaves string }{
		{fmt.Sprint("?revision=", second.Change), "A: b", "exempt"},
		{"", "If-Match: *", "block"},
	} {
		s.answer(t, w.ask(http.MethodPost, "/v1/overrides/x/undo"+c.query, "", c.header), 200, "Undone")
		rec := w.ask(http.MethodGet, "/v1/overrides/x", "")
		if got := rec.Body.String(); !strings.Contains(got, `"action":"`+c.leaves+`"`) ||
			strings.Contains(got, `"author"`) {
			t.Errorf("%s leaves %s, want %q of nobody", c.query, got, c.leaves)
		}
	}
	rec := w.ask(http.MethodDelete, "/v1/overrides/x?author=ann", "")
	s.answer(t, w.ask(http.MethodPost, "/v1/overrides/x/undo?revision="+rec.Header().Get("Hotparam-Revision"), ""), 200,
		"Undone")
	for query, status := range map[string]int{"7": 404, "0": 400, "-1": 400, "x": 400} {
		s.answer(t, w.ask(http.MethodPost, "/v1/overrides/x/undo?revision="+query, ""), status, "Problem")
	}
	rec = w.ask(http.MethodGet, "/v1/audit?id=x&limit=3", "")
	s.answer(t, rec, 200, "Audit")
	if n := strings.Count(rec.Body.String(), `"id":"x","before"`); n != 2 ||
		strings.Contains(rec.Body.String(), "other") {
		t.Errorf("%d changes of x: %s", n, rec.Body)
	}
}

// An override is not changed on top of a version that the author of the change has not seen.
func TestOverride_IfMatchPreventsLostChange(t *testing.T) {
	t.Parallel()
	s, w := loadSchemas(t), newWorld(t, nil)
	const body = `{"key": "topic?id=42", "rate": 5, "mode": "shadow"}`
	seen := w.ask(http.MethodPut, "/v1/overrides/x", body).Header().Get("ETag")
	w.ask(http.MethodPut, "/v1/overrides/x", `{"key": "topic?id=42", "rate": 6, "mode": "shadow", "author": "bob"}`)
	now := w.ask(http.MethodGet, "/v1/overrides/x", "").Header().Get("ETag")
	for _, c := range []struct{ method, path string }{
		{http.MethodPut, "/v1/overrides/x"}, {http.MethodPost, "/v1/overrides/x/enforce"},
		{http.MethodDelete, "/v1/overrides/x"},
	} {
		for etag, status := range map[string]int{seen: 412, `"0"`: 412, "x": 400, `7`: 400} {
			rec := w.ask(c.method, c.path, body, "If-Match: "+etag)
			if s.answer(t, rec, status, "Problem"); status == 412 && !strings.Contains(rec.Body.String(), "bob") {
				t.Errorf("%s: %s", c, rec.Body)
			}
		}
		if got := w.ask(http.MethodGet, "/v1/overrides/x", "").Header().Get("ETag"); got != now {
			t.Errorf("%s changed it from %s to %s", c, now, got)
		}
	}
	for _, c := range []struct{ method, path string }{
		{http.MethodPut, "/v1/overrides/x"}, {http.MethodPost, "/v1/overrides/x/enforce"},
		{http.MethodDelete, "/v1/overrides/x"},
	} {
		rec := w.ask(c.method, c.path, body, "If-Match: "+now)
		if rec.Code > 204 {
			t.Errorf("%s: %d %s", c, rec.Code, rec.Body)
		}
		now = rec.Header().Get("ETag")
	}
	if rec := w.ask(http.MethodPut, "/v1/overrides/x", body, `If-Match: "0"`); rec.Code != 201 {
		t.Errorf("where there is none: %d %s", rec.Code, rec.Body)
	}
}

// A limiter that lacks changes of overrides is named with the number of changes and the time, also when it falls
// silent.
func TestLimiters_ReportMissingOverrides(t *testing.T) {
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
	report := func(name string, revision int64) report.Limiter {
		return report.Limiter{Instance: name, At: w.clock(), OverridesRevision: revision}
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
