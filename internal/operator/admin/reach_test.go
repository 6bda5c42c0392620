package admin

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/operator/admin/changes"
	"github.com/hotparam/pipeline/internal/report"
)

// reachAnswer holds the parts of an override that the tests read.
type reachAnswer struct {
	ID            string
	Hits          *uint64
	HitsPerSecond *float64 `json:"hits_per_second"`
	Warnings      []string
	Reach         *changes.Reach
}

func TestPutOverride_DryRunReportsReach(t *testing.T) {
	t.Parallel()
	schemas := loadSchemas(t)
	w := newWorld(t, nil)
	for i := range 4 {
		w.hot = append(w.hot, hotKey(fmt.Sprintf("topic?id=%d", i), "topic", float64(400-100*i), t0))
	}
	w.hot = append(w.hot, hotKey("/search?q=a", "*", 1000, t0))
	for body, want := range map[string]string{
		`{"key": "topic?id=0", "rate": 1}`:                                                  "1 of 5: 400 []",
		`{"key": "topic?id=*", "action": "block"}`:                                          "4 of 5: 1000 [it reaches every key of topic, and it reaches 50 % of the requests of the last minute]",
		`{"key": "*", "rate": 5}`:                                                           "5 of 5: 2000 [it reaches every key, and it reaches 100 % of the requests of the last minute]",
		`{"key": "*", "rate": 5, "mode": "shadow"}`:                                         "5 of 5: 2000 [it matches 5 keys, 100 % of the requests for the 5 keys that are asked for most now]",
		`{"resource": "topic", "rate": 5}`:                                                  "4 of 5: 1000 [it reaches every key of topic, and it reaches 50 % of the requests of the last minute]",
		`{"key": "topic?id=99", "rate": 1}`:                                                 "0 of 5: 0 [it matches none of the 5 keys that are asked for most now]",
		`{"key": "topic?id=0", "rate": 1, "schedule": {"from": "0 20 * * *", "for": "2h"}}`: "1 of 5: 400 []",
	} {
		rec := w.ask(http.MethodPut, "/v1/overrides?dry_run=true", body)
		schemas.answer(t, rec, 200, "Stored")
		var a reachAnswer
		decode(t, rec.Body.Bytes(), &a)
		if got := fmt.Sprintf("%d of %d: %v %v", a.Reach.Keys, a.Reach.LookedAt, a.Reach.PerSecond,
			a.Warnings); got != want {
			t.Errorf("%s: got %s, want %s", body, got, want)
		}
	}
	rec := w.ask(http.MethodPut, "/v1/overrides?dry_run=true", `{"cidr": "203.0.113.0/24", "action": "block"}`)
	if schemas.answer(t, rec, 200, "Stored"); strings.Contains(rec.Body.String(), "reach") {
		t.Errorf("who is in a network is not known: %s", rec.Body)
	}
	schemas.answer(t, w.ask(http.MethodPut, "/v1/overrides?dry_run=maybe", `{"key": "topic?id=0", "rate": 1}`), 400,
		"Problem")
	if len(w.store.list)+len(w.store.audit) > 0 {
		t.Errorf("a dry run changed something: %+v", w.store.list)
	}
}

func TestOverrides_ShowTheirHits(t *testing.T) {
	t.Parallel()
	schemas := loadSchemas(t)
	w := newWorld(t, nil)
	for id, body := range map[string]string{
		"unmet": `{"key": "topic?id=1", "rate": 5}`, "much": `{"resource": "topic", "rate": 5}`,
		"one": `{"key": "topic?id=2", "rate": 5}`,
	} {
		schemas.answer(t, w.ask(http.MethodPut, "/v1/overrides/"+id+"?confirm=true", body), 201, "Stored")
	}
	list := func() map[string]reachAnswer {
		rec := w.ask(http.MethodGet, "/v1/overrides", "")
		schemas.answer(t, rec, 200, "OverrideList")
		var a struct{ Overrides []reachAnswer }
		decode(t, rec.Body.Bytes(), &a)
		byID := map[string]reachAnswer{}
		for _, o := range a.Overrides {
			byID[o.ID] = o
		}
		return byID
	}
	if o := list()["one"]; o.Hits != nil {
		t.Errorf("hits without a report: %+v", o)
	}
	w.set(func() { w.now = w.now.Add(2 * time.Minute) })
	for n := uint64(1); n <= 2; n++ {
		w.second(
			report.Limiter{Instance: "a", At: t0.Add(time.Duration(n) * time.Second), Allowed: 100 * n,
				OverrideHits: []report.OverrideHits{{ID: "much", N: 70 * n}, {ID: "one", N: 80 * n}}},
			report.Limiter{Instance: "b", At: t0.Add(time.Duration(n) * time.Second), Allowed: 10 * n,
				OverrideHits: []report.OverrideHits{{ID: "one", N: 5}}})
	}
	got := list()
	for id, want := range map[string]string{
		"unmet": "0 0 [no request has met it yet]", "much": "140 70 [64 % of all requests meet it]", "one": "165 80 []",
	} {
		o := got[id]
		if text := fmt.Sprintf("%d %v %v", *o.Hits, *o.HitsPerSecond, o.Warnings); text != want {
			t.Errorf("%s: got %s, want %s", id, text, want)
		}
	}
	schemas.answer(t, w.ask(http.MethodGet, "/v1/overrides/one", ""), 200, "Override")
}
