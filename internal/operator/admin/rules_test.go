package admin

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/operator/admin/changes"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// centralRules is a central store of rules that accepts text that does not begin with "bad".
type centralRules struct {
	stored  *rules.Stored
	history []rules.Revision
	fails   error
}

func (c *centralRules) State() RulesState {
	return RulesState{Store: "redis:", Running: 1, Rejected: 2, Why: "bad"}
}

func (c *centralRules) Read(context.Context) (*rules.Stored, error) { return c.stored, c.fails }

func (c *centralRules) History(context.Context) ([]rules.Revision, error) { return c.history, c.fails }

func (c *centralRules) Check(_ context.Context, r rules.Revision) (*rules.Set, error) {
	set, err := rules.Parse("version-2.yaml", []byte(r.Text))
	if err != nil {
		err = errors.Join(changes.ErrRejected, err)
	}
	return set, err
}

func (c *centralRules) Change(_ context.Context, before int64, r rules.Revision) (*rules.Stored, error) {
	var version int64
	if c.stored != nil {
		version = c.stored.Version
	}
	switch {
	case c.fails != nil:
		return nil, c.fails
	case before != version && before != rules.AnyVersion:
		return nil, rules.ErrConflict
	case strings.HasPrefix(r.Text, "bad"):
		return nil, changes.ErrRejected
	}
	next, err := c.stored.With(r, 0)
	if err != nil {
		return nil, errors.Join(changes.ErrRejected, err)
	}
	c.stored, c.history = next, append([]rules.Revision{next.Revision}, c.history...)
	return next, nil
}

// The page knows whether rules are central before it asks for them.
func TestGetRunning_ReportsWhetherRulesAreCentral(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Central = &centralRules{} })
	var running struct{ Central bool }
	decode(t, w.ask(http.MethodGet, "/v1/rules/running", "").Body.Bytes(), &running)
	if !running.Central {
		t.Error("they are not")
	}
}

func TestPutRules_NeedsVersionThatWasRead(t *testing.T) {
	t.Parallel()
	central := &centralRules{}
	w := newWorld(t, func(c *Config) {
		c.Central = central
		c.Reports = func(context.Context) ([]report.Limiter, error) {
			return []report.Limiter{{Instance: "one", RulesVersion: 1}, {Instance: "two", RulesVersion: 1, RejectedRulesVersion: 2}}, nil
		}
	})
	s := loadSchemas(t)
	ask := func(method, target, ifMatch, body string, status int, schema string) *httptest.ResponseRecorder {
		t.Helper()
		r := httptest.NewRequest(method, "http://127.0.0.1"+target, strings.NewReader(body))
		if ifMatch != "" {
			r.Header.Set("If-Match", ifMatch)
		}
		rec := httptest.NewRecorder()
		w.Handler().ServeHTTP(rec, r)
		s.answer(t, rec, status, schema)
		return rec
	}
	const path = "/v1/rules"
	etagIs := func(rec *httptest.ResponseRecorder, want string) {
		t.Helper()
		if got := rec.Header().Get("ETag"); got != want {
			t.Errorf("ETag %s, want %s", got, want)
		}
	}
	etagIs(ask(http.MethodGet, path, "", "", 200, "Rules"), `"0"`)
	ask(http.MethodPut, path, "", "a", 428, "Problem")
	for _, bad := range []string{"7", `W/"0"`, `"x"`, `"-1"`, `"0", "1"`, `"00"`} {
		ask(http.MethodPut, path, bad, "a", 400, "Problem")
	}
	ask(http.MethodPut, path, `"7"`, "a", 412, "Problem")
	ask(http.MethodPut, path, `"0"`, " \n", 400, "Problem")
	ask(http.MethodPut, path, `"0"`, "bad", 422, "Problem")
	ask(http.MethodPut, path, `"0"`, strings.Repeat("x", rules.MaxText+1), 413, "Problem")
	ask(http.MethodPut, path+"?reason="+strings.Repeat("x", 2000), `"0"`, "a", 400, "Problem")
	if central.stored != nil {
		t.Fatalf("stored %+v", central.stored)
	}
	etagIs(ask(http.MethodPut, path+"?author=ann&reason=first", `"0"`, "a", 200, "Rules"), `"1"`)
	ask(http.MethodPut, path, `"0"`, "b", 412, "Problem")
	rec := ask(http.MethodPut, path, "*", "b", 200, "Rules")
	etagIs(rec, `"2"`)
	for _, want := range []string{`"current":{"version":2`, `{"instance":"two","running":1,"refused":2}`, `"why":"bad"`} {
		if !strings.Contains(rec.Body.String(), want) {
			t.Errorf("no %s in %s", want, rec.Body)
		}
	}

	if rec := ask(http.MethodGet, path+"/history", "", "", 200, "Revisions"); strings.Contains(rec.Body.String(),
		`"text"`) || strings.Count(rec.Body.String(), `"version"`) != 2 {
		t.Errorf("history: %s", rec.Body)
	}
	if rec := ask(http.MethodGet, path+"/history/1", "", "", 200, "Revision"); !strings.Contains(rec.Body.String(),
		`"reason":"first"`) || !strings.Contains(rec.Body.String(), `"text":"a"`) {
		t.Errorf("version 1: %s", rec.Body)
	}
	ask(http.MethodGet, path+"/history/9", "", "", 404, "Problem")
	if rec := ask(http.MethodGet, "/v1/audit", "", "", 200, "Audit"); !strings.Contains(rec.Body.String(),
		`"author":"ann"`) || strings.Contains(rec.Body.String(), `"text"`) {
		t.Errorf("audit: %s", rec.Body)
	}

	central.fails = errors.New("away")
	if rec := ask(http.MethodGet, path, "", "", 200, "Rules"); !strings.Contains(rec.Body.String(),
		`"store_error":"away"`) || !strings.Contains(rec.Body.String(), `"version":2`) {
		t.Errorf("what was held last: %s", rec.Body)
	}
	ask(http.MethodPut, path, "*", "c", 503, "Problem")
	ask(http.MethodGet, path+"/history", "", "", 503, "Problem")
	if rec := ask(http.MethodGet, "/v1/audit", "", "", 200, "Audit"); !strings.Contains(rec.Body.String(), "away") {
		t.Errorf("audit without the rules: %s", rec.Body)
	}
}

// A limit in shadow mode that would deny a large part of all requests is enforced only with a second word.
func TestEnforceRule_AsksAboutItsDenials(t *testing.T) {
	t.Parallel()
	const text = "rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 9}, limit: {rate: 3, mode: shadow}}]"
	central := &centralRules{stored: &rules.Stored{Revision: rules.Revision{Version: 4, Text: text}}}
	w, s := newWorld(t, func(c *Config) { c.Central = central }), loadSchemas(t)
	for n := uint64(1); n <= 2; n++ {
		w.second(report.Limiter{Instance: "one", At: w.now, Allowed: 200 * n, WouldDeny: 66 * n,
			Keys: []report.KeyDecisions{{Key: "topic?id=1", Allowed: 100 * n, WouldDeny: 66 * n}}})
	}
	const path = "/v1/rules/enforce?rule=topic"
	ask := func(target, version string, status int) string {
		t.Helper()
		rec := w.ask(http.MethodPost, target, "", "If-Match: "+version)
		schema := "Problem"
		if status == http.StatusOK {
			schema = "Rules"
		}
		s.answer(t, rec, status, schema)
		return rec.Body.String()
	}
	got := ask(path, `"4"`, 428)
	if !strings.Contains(got, "denies 66 requests a second, 66 % of those for its keys and 33 % of all") ||
		!strings.Contains(got, `"percent":33`) {
		t.Errorf("%s", got)
	}
	ask("/v1/rules/enforce", `"4"`, 400)
	ask("/v1/rules/enforce?rule=other", `"4"`, 409)
	ask(path+"&confirm=true", `"3"`, 412)
	ask(path+"&confirm=true&reason=held+a+week", `"4"`, 200)
	if c := central.stored; c.Text != strings.Replace(text, "shadow", "enforce", 1) || c.Reason != "held a week" {
		t.Errorf("%+v", c)
	}
	ask(path+"&confirm=true", `"5"`, 409)
}

func TestRules_FromFileAreNotServed(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t, nil), loadSchemas(t)
	for _, c := range [][2]string{{"GET", "/v1/rules"}, {"PUT", "/v1/rules"},
		{"GET", "/v1/rules/history"}, {"GET", "/v1/rules/history/1"}} {
		s.answer(t, w.ask(c[0], c[1], ""), 404, "Problem")
	}
}
