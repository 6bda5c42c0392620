package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin/changes"
	"github.com/hotparam/pipeline/internal/operator/admin/live"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/rules"
)

func TestHotList_HasAllFields(t *testing.T) {
	t.Parallel()
	s, w := loadSchemas(t), newWorld(t, nil)
	w.set(func() {
		w.hot = []hottype.HotKey{hotKey("topic?id=42", "topic", 300, t0), hotKey("topic?id=7", "topic", 250, t0),
			hotKey(hostile, "*", 600, t0)}
	})
	s.answer(t, w.ask(http.MethodGet, "/v1/hot", ""), 200, "HotList")
	w.second(at(0, 0, 0, 0))
	w.second(at(time.Second, 120, 200, 100))
	rec := w.ask(http.MethodGet, "/v1/hot?limit=2", "")
	s.answer(t, rec, 200, "HotList")
	var got struct {
		Totals live.Totals   `json:"totals"`
		Keys   []live.HotKey `json:"keys"`
	}
	decode(t, rec.Body.Bytes(), &got)
	if *got.Totals.Requests != 320 || *got.Totals.Denied != 200 || got.Totals.DeniedBy["hot"] != 200 ||
		got.Totals.HotKeys != 3 || len(got.Keys) != 2 {
		t.Errorf("%s", rec.Body)
	}
	first, second := got.Keys[0], got.Keys[1]
	if *first.Allowed != 100 || first.Limit.Text != "100/s, burst 200" || first.Href != "/v1/key?key=topic%3Fid%3D42" ||
		first.Override != nil {
		t.Errorf("first %+v", first)
	}
	if second.Limit != nil || second.Override.Source != changes.SourceFile || second.Override.ID == "" {
		t.Errorf("second %+v", second)
	}
}

// The link in the list finds a key of any bytes.
func TestKeyHref_FindsKeyOfAnyBytes(t *testing.T) {
	t.Parallel()
	s, w := loadSchemas(t), newWorld(t, nil)
	for _, key := range []hottype.Key{"topic?id=42", hostile, "/", "//a//b/../c?x=1&y=%2F", "/a%2Fb", "/..", "/%",
		"/a?!malformed", "/\x00 +;#?q=%20"} {
		w.set(func() { w.hot = []hottype.HotKey{hotKey(string(key), "*", 600, t0)} })
		rec := w.ask(http.MethodGet, web.KeyHref(key), "")
		if rec.Code != 200 || !strings.Contains(rec.Body.String(), `"hot":true`) {
			t.Errorf("%q by %s: %d %s", key, web.KeyHref(key), rec.Code, rec.Body)
			continue
		}
		s.answer(t, rec, 200, "Key")
	}
}

func TestGetKey_ExplainsItsLimits(t *testing.T) {
	t.Parallel()
	s, w := loadSchemas(t), newWorld(t, nil)
	w.set(func() { w.hot = []hottype.HotKey{hotKey("topic?id=42", "topic", 300, t0)} })
	put := func(key string, a rules.Action, rate float64) {
		_, _ = w.store.Put(context.Background(), rules.Override{ID: rules.OverrideID(key), Key: key, Action: a,
			Rate: rate})
	}
	put("topic?id=1", rules.ActionBlock, 0)
	put("topic?id=2", rules.ActionLimit, 0.5)
	put("topic?id=9*", rules.ActionShadow, 0)
	for key, says := range map[string][]string{
		"topic?id=42": {"rule applies: the key is hot", "ip_fixed applies: every client"},
		"topic?id=5":  {"rule no: the key is not hot: below 200/s over 5s", "ip_fixed applies"},
		"topic?id=7": {"override applies: an override exempts", "rule no: the override stands before it",
			"ip_fixed no: the override"},
		"topic?id=1": {"override applies: an override blocks", "rule no", "ip_fixed no"},
		"topic?id=2": {"override applies: an override sets its own limit, hot or not [0.5/s, burst 1]", "rule no",
			"ip_fixed applies"},
		"topic?id=99": {
			"override applies: an override lets the rule's limit only watch, by the pattern topic?id=9*",
			"rule no: the key is not hot"},
		"/search?q=a&a=b": {"you asked for /search?q=a&a=b", "rule no: the key is not hot: below 500/s"},
		"topic?x=1":       {`does not track the parameter "x"`},
		"topic?id=1&id=2": {`makes a key of one value of "id"`},
		"topic?!malformed": {"override applies: an override blocks the key, because it blocks topic?id=1 and",
			"rule no"},
		"/a?!malformed": {"rule applies: malformed requests are held to the rule's limit, hot or not",
			"ip_fixed applies"},
		"topc?id=1": {`no rule is named "topc"`},
	} {
		rec := w.ask(http.MethodGet, "/v1/keys/"+url.PathEscape(key), "")
		s.answer(t, rec, 200, "Key")
		var got live.Key
		decode(t, rec.Body.Bytes(), &got)
		told := strings.Join(got.Warnings, "\n")
		for _, l := range got.Limits {
			told += "\n" + l.Source + map[bool]string{true: " applies: ", false: " no: "}[l.Applies] + l.Why
			if l.Limit != nil {
				told += " [" + l.Limit.Text + "]"
			}
		}
		for _, part := range says {
			if !strings.Contains(told, part) {
				t.Errorf("%s: no %q in %s", key, part, told)
			}
		}
	}
}

// A key to which no limit applies has an empty list of limits. The suite "schemathesis" found null, in its case
// "GET /v1/keys/{key}: ST108".
func TestGetKey_ListsNoLimits(t *testing.T) {
	t.Parallel()
	set, err := rules.Parse("rules.yaml", []byte("rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 9}}]"))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *Config) { c.Rules = func() *rules.Set { return set } })
	rec := w.ask(http.MethodGet, "/v1/keys/unknown", "")
	if !strings.Contains(rec.Body.String(), `"limits":[]`) {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

func TestGetKey_RejectsUnencodedKeyWithRemedy(t *testing.T) {
	t.Parallel()
	s, w := loadSchemas(t), newWorld(t, nil)
	rec := w.ask(http.MethodGet, "/v1/keys/topic?id=42", "")
	s.answer(t, rec, 400, "Problem")
	if !strings.Contains(rec.Body.String(), "/v1/key?key=topic%3Fid%3D42") {
		t.Errorf("no remedy: %s", rec.Body)
	}
	s.answer(t, w.ask(http.MethodGet, "/v1/keys/", ""), 400, "Problem")
	s.answer(t, w.ask(http.MethodGet, "/v1/keys/%3Fid=42", ""), 400, "Problem")
}

func TestOverrides_AreStoredAndDeleted(t *testing.T) {
	t.Parallel()
	s, w := loadSchemas(t), newWorld(t, nil)
	id := rules.OverrideID("topic?id=42")
	rec := w.ask(http.MethodPut, "/v1/overrides",
		`{"key": "topic?id=42", "rate": 500, "burst": 1000, "for": "10m", "reason": "launch", "author": "ann"}`)
	s.answer(t, rec, 201, "Stored")
	if rec.Header().Get("Location") != "/v1/overrides/"+id ||
		!strings.Contains(rec.Body.String(), `"until":"2026-03-14T12:10:00Z"`) {
		t.Errorf("%v %s", rec.Header(), rec.Body)
	}
	s.answer(t, w.ask(http.MethodPut, "/v1/overrides", `{"key": "topic?id=42", "action": "block"}`), 200, "Stored")
	s.answer(t, w.ask(http.MethodPut, "/v1/overrides/mine", `{"key": "topic?id=42", "action": "block"}`), 409,
		"Problem")
	s.answer(t, w.ask(http.MethodPut, "/v1/overrides/mine", `{"key": "topic?id=*", "action": "shadow"}`), 201, "Stored")
	s.answer(t, w.ask(http.MethodPut, "/v1/overrides/No%20Good", `{"key": "topic?id=8", "action": "shadow"}`), 400,
		"Problem")
	s.answer(t, w.ask(http.MethodGet, "/v1/overrides/"+id, ""), 200, "Override")

	rec = w.ask(http.MethodGet, "/v1/overrides", "")
	s.answer(t, rec, 200, "OverrideList")
	var got struct{ Overrides []changes.View }
	decode(t, rec.Body.Bytes(), &got)
	if len(got.Overrides) != 3 || got.Overrides[0].ID != "mine" || got.Overrides[1].ID != id ||
		got.Overrides[2].Source != changes.SourceFile {
		t.Errorf("%s", rec.Body)
	}
	if rec := w.ask(http.MethodDelete, "/v1/overrides/mine?author=bob", ""); rec.Code != 204 || rec.Body.Len() != 0 {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	s.answer(t, w.ask(http.MethodDelete, "/v1/overrides/mine", ""), 404, "Problem")
	s.answer(t, w.ask(http.MethodGet, "/v1/overrides/mine", ""), 404, "Problem")
	rec = w.ask(http.MethodDelete, "/v1/overrides/"+got.Overrides[2].ID, "")
	s.answer(t, rec, 409, "Problem")
	rec = w.ask(http.MethodGet, "/v1/audit?limit=2", "")
	s.answer(t, rec, 200, "Audit")
	if body := rec.Body.String(); strings.Count(body, `"at"`) != 2 ||
		!strings.Contains(body, `"author":"bob","action":"delete","id":"mine"`) {
		t.Error(body)
	}
	w.set(func() { w.now = w.now.Add(time.Hour) })
	if _, err := w.store.Put(context.Background(),
		rules.Override{ID: "old", Key: "topic?id=3", Action: rules.ActionBlock, Until: t0}); err != nil {
		t.Fatal(err)
	}
	s.answer(t, w.ask(http.MethodGet, "/v1/overrides/old", ""), 404, "Problem")
}

func TestUndo_RevertsLastChange(t *testing.T) {
	t.Parallel()
	s, w := loadSchemas(t), newWorld(t, nil)
	now := func() string {
		rec := w.ask(http.MethodGet, "/v1/overrides/x", "")
		var o changes.View
		decode(t, rec.Body.Bytes(), &o)
		return string(o.Action)
	}
	undo := func() {
		t.Helper()
		s.answer(t, w.ask(http.MethodPost, "/v1/overrides/x/undo?author=bob", ""), 200, "Undone")
	}
	s.answer(t, w.ask(http.MethodPost, "/v1/overrides/x/undo", ""), 404, "Problem")
	w.ask(http.MethodPut, "/v1/overrides/x", `{"key": "topic?id=42", "action": "block"}`)
	w.ask(http.MethodPut, "/v1/overrides/x",
		`{"key": "topic?id=42", "action": "exempt", "until": "2026-03-14T13:00:00Z"}`)
	for i, want := range []string{"exempt", "block", "exempt"} { // undone and undone again
		if got := now(); got != want {
			t.Fatalf("step %d: %q, want %q", i, got, want)
		}
		undo()
	}
	undo() // exempt
	w.ask(http.MethodDelete, "/v1/overrides/x", "")
	undo()
	if got := now(); got != "exempt" {
		t.Errorf("a deleted one comes back as %q", got)
	}
	w.ask(http.MethodPut, "/v1/overrides/x", `{"key": "topic?id=42", "action": "block"}`)
	w.set(func() { w.now = w.now.Add(2 * time.Hour) })
	rec := w.ask(http.MethodPost, "/v1/overrides/x/undo", "")
	s.answer(t, rec, 409, "Problem")
	if !strings.Contains(rec.Body.String(), "ended at 2026-03-14 13:00:00Z") {
		t.Errorf("%s", rec.Body)
	}
	w.ask(http.MethodPut, "/v1/overrides/y", `{"key": "topic?id=43", "action": "block"}`)
	rec = w.ask(http.MethodPost, "/v1/overrides/y/undo", "")
	s.answer(t, rec, 200, "Undone")
	if !strings.Contains(rec.Body.String(), `"override":null`) {
		t.Errorf("the first put undone leaves %s", rec.Body)
	}
}

func TestOverrides_ReportStoreFailures(t *testing.T) {
	t.Parallel()
	s, w := loadSchemas(t), newWorld(t, nil)
	w.ask(http.MethodPut, "/v1/overrides/x", `{"key": "topic?id=42", "action": "block"}`)
	w.store.fail(errBroken)
	for _, c := range []struct{ method, target string }{
		{"PUT", "/v1/overrides/x"}, {"DELETE", "/v1/overrides/x"}, {"POST", "/v1/overrides/x/undo"},
	} {
		rec := w.ask(c.method, c.target, `{"key": "topic?id=42", "action": "block"}`)
		s.answer(t, rec, 503, "Problem")
		if !strings.Contains(rec.Body.String(), "connection refused") {
			t.Errorf("%s %s: %s", c.method, c.target, rec.Body)
		}
	}
	fresh := newWorld(t, nil) // has read nothing
	fresh.store.fail(errBroken)
	for _, target := range []string{"/v1/overrides", "/v1/overrides/x", "/v1/audit", "/v1/keys/topic%3Fid=42"} {
		s.answer(t, fresh.ask(http.MethodGet, target, ""), 503, "Problem")
	}
}

func TestOverrides_CannotBeChangedWithoutStore(t *testing.T) {
	t.Parallel()
	s, w := loadSchemas(t), newWorld(t, func(c *Config) { c.Overrides = nil; c.Reports = nil })
	w.second()
	s.answer(t, w.ask("PUT", "/v1/overrides", `{"key": "topic?id=42", "action": "block"}`), 409, "Problem")
	s.answer(t, w.ask("DELETE", "/v1/overrides/x", ""), 409, "Problem")
	s.answer(t, w.ask("POST", "/v1/overrides/x/undo", ""), 409, "Problem")
	s.answer(t, w.ask("GET", "/v1/overrides", ""), 200, "OverrideList")
	s.answer(t, w.ask("GET", "/v1/audit", ""), 200, "Audit")
	s.answer(t, w.ask("GET", "/v1/hot", ""), 200, "HotList")
}

func TestReady_NamesEachCheck(t *testing.T) {
	t.Parallel()
	s := loadSchemas(t)
	failing, status := false, []Status{}
	w := newWorld(t, func(c *Config) {
		c.Access.Token, c.Status = "s3cret-of-the-test", func() []Status { return status }
		c.Ready = map[string]func(context.Context) error{
			"redis": func(context.Context) error {
				if failing {
					return errors.New("dial 10.1.2.3:6379: rejected")
				}
				return nil
			},
			"mirror": func(context.Context) error { return nil },
		}
	})
	s.answer(t, w.ask("GET", "/livez", ""), 200, "Live")
	s.answer(t, w.ask("GET", "/readyz", ""), 200, "Ready")
	failing = true
	open, known := w.ask("GET", "/readyz", ""), w.ask("GET", "/readyz", "", "Authorization: Bearer s3cret-of-the-test")
	s.answer(t, open, 503, "Ready")
	s.answer(t, known, 503, "Ready")
	if strings.Contains(open.Body.String(), "10.1.2.3") || !strings.Contains(known.Body.String(), "10.1.2.3") ||
		!strings.Contains(open.Body.String(), `"mirror":{"ok":true`) {
		t.Errorf("open %s, with the token %s", open.Body, known.Body)
	}
	// Parts on which readiness does not depend are shown too, but without their values to strangers.
	status = []Status{{Name: "hot set", Value: "silent: 10.1.2.3"}}
	open, known = w.ask("GET", "/readyz?verbose", ""),
		w.ask("GET", "/readyz?verbose", "", "Authorization: Bearer s3cret-of-the-test")
	s.answer(t, open, 503, "Ready")
	s.answer(t, known, 503, "Ready")
	if strings.Contains(open.Body.String(), "10.1.2.3") ||
		!strings.Contains(open.Body.String(), `{"name":"hot set","value":"","ok":false}`) ||
		!strings.Contains(known.Body.String(), "silent: 10.1.2.3") {
		t.Errorf("open %s, with the token %s", open.Body, known.Body)
	}
}

func decode(t *testing.T, body []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(body, into); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
}
