package admin

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin/changes"
	"github.com/hotparam/pipeline/internal/operator/admin/live"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// shown returns the overrides that the API lists: the effect of each, by ID.
func (w *world) shown(t *testing.T) map[string]string {
	t.Helper()
	var a struct{ Overrides []changes.View }
	decode(t, w.ask(http.MethodGet, "/v1/overrides", "").Body.Bytes(), &a)
	out := map[string]string{}
	for _, o := range a.Overrides {
		out[o.ID] = strings.TrimSpace(fmt.Sprint(o.Action, " ", o.Rate, " ", o.Mode))
	}
	return out
}

func (w *world) put(t *testing.T, status int, path, body string) (id string) {
	t.Helper()
	rec := w.ask(http.MethodPut, path, body)
	if rec.Code != status {
		t.Fatalf("PUT %s %s: %d %s", path, body, rec.Code, rec.Body)
	}
	var a changes.Response
	decode(t, rec.Body.Bytes(), &a)
	return a.ID
}

// An override in shadow mode exists beside the enforced one, hides it nowhere, and replaces it in one step.
func TestEnforceOverride_ReplacesEnforcedOne(t *testing.T) {
	t.Parallel()
	s, w := loadSchemas(t), newWorld(t, nil)
	const limit, shadow = `{"key": "topic?id=42", "rate": 100}`, `{"key": "topic?id=42", "rate": 50, "mode": "shadow"}`
	one := w.put(t, 201, "/v1/overrides", limit)
	two := w.put(t, 201, "/v1/overrides", shadow)
	if w.put(t, 200, "/v1/overrides", shadow) != two || w.put(t, 200, "/v1/overrides", limit) != one || one == two {
		t.Fatalf("%q and %q do not stand beside each other", one, two)
	}
	s.answer(t, w.ask(http.MethodPut, "/v1/overrides/other", shadow), 409, "Problem")
	w.set(func() { w.hot = []hottype.HotKey{hotKey("topic?id=42", "topic", 300, t0)} })
	for n := uint64(1); n <= 2; n++ {
		hits := []report.OverrideHits{{ID: one, N: 100 * n}, {ID: two, N: 100 * n, WouldDeny: 60 * n}}
		w.second(report.Limiter{Instance: "a", At: t0.Add(time.Duration(n) * time.Second), Allowed: 100 * n,
			OverrideHits: hits})
	}
	rec := w.ask(http.MethodGet, "/v1/overrides/"+two, "")
	s.answer(t, rec, 200, "Override")
	var o changes.View
	decode(t, rec.Body.Bytes(), &o)
	if *o.Hits != 200 || *o.WouldDeny != 120 || *o.WouldDenyPerSecond != 60 || !o.InShadow() {
		t.Errorf("%s", rec.Body)
	}
	rec = w.ask(http.MethodGet, "/v1/keys/topic%3Fid=42", "")
	s.answer(t, rec, 200, "Key")
	var k live.Key
	decode(t, rec.Body.Bytes(), &k)
	if k.Override.ID != one || k.Tried.ID != two || *k.Tried.WouldDeny != 120 || k.Tried.Source != changes.SourceLive {
		t.Errorf("%s", rec.Body)
	}
	if text := w.ask(http.MethodGet, "/v1/hot", "").Body.String(); !strings.Contains(text, `"text":"100/s, burst 100"`) {
		t.Error(text)
	}

	rec = w.ask(http.MethodPost, "/v1/overrides/"+two+"/enforce?author=ann", "")
	s.answer(t, rec, 200, "Stored")
	if got := w.shown(t); got[one] != "limit 50" || got[two] != "" {
		t.Errorf("enforced: %v", got)
	}
	s.answer(t, w.ask(http.MethodGet, "/v1/audit", ""), 200, "Audit")
	if audit := w.store.audit; audit[0].Action != rules.ChangeDelete || audit[1].Author != "ann" ||
		audit[1].Before.Rate != 100 {
		t.Errorf("%+v", w.store.audit[:2])
	}
	w.ask(http.MethodPost, "/v1/overrides/"+one+"/undo", "")
	if got := w.shown(t); got[one] != "limit 100" {
		t.Errorf("undone: %v", got)
	}
}

// If no enforced override has its target it keeps its ID: one change, which undo reverts. The next one in shadow mode
// has another ID.
func TestEnforceOverride_KeepsID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const shadow = `{"key": "topic?id=42", "rate": 50, "mode": "shadow", "for": "1h"}`
	id := w.put(t, 201, "/v1/overrides", shadow)
	enforce := func() {
		if rec := w.ask(http.MethodPost, "/v1/overrides/"+id+"/enforce", ""); rec.Code != 200 {
			t.Fatal(rec.Body)
		}
	}
	enforce()
	if len(w.store.audit) != 2 || w.store.list[0].Until.IsZero() {
		t.Errorf("%+v", w.store.audit)
	}
	w.ask(http.MethodPost, "/v1/overrides/"+id+"/undo", "")
	if got := w.shown(t); got[id] != "limit 50 shadow" {
		t.Errorf("undone: %v", got)
	}
	enforce()
	if next := w.put(t, 201, "/v1/overrides", shadow); next == id {
		t.Error("what is tried takes the place of what is enforced")
	}
	if rec := w.ask(http.MethodPut, "/v1/overrides/"+id, strings.Replace(shadow, "42", "43", 1)); !strings.Contains(
		rec.Body.String(), "it was enforced until now") {
		t.Errorf("no warning in %s", rec.Body)
	}
}

func TestEnforceOverride_RejectsOverridesNotInShadow(t *testing.T) {
	t.Parallel()
	s, w := loadSchemas(t), newWorld(t, nil)
	id := w.put(t, 201, "/v1/overrides", `{"key": "topic?id=42", "rate": 100}`)
	file := rules.OverrideID("topic?id=7")
	for id, status := range map[string]int{id: 409, file: 409, "none": 404} {
		s.answer(t, w.ask(http.MethodPost, "/v1/overrides/"+id+"/enforce", ""), status, "Problem")
	}
	w.put(t, 201, "/v1/overrides", `{"key": "topic?id=7", "action": "block", "mode": "shadow"}`)
	if got := w.shown(t); got[file] != "exempt 0" {
		t.Errorf("the override of the file is hidden: %v", got)
	}
	w.put(t, 201, "/v1/overrides/short", `{"key": "topic?id=1", "action": "block", "mode": "shadow", "for": "1m"}`)
	w.set(func() { w.now = w.now.Add(time.Minute) })
	s.answer(t, w.ask(http.MethodPost, "/v1/overrides/short/enforce", ""), 409, "Problem")
	w.store.fail(errBroken)
	if rec := w.ask(http.MethodPost, "/v1/overrides/"+id+"/enforce", ""); rec.Code < 500 {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}
