package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/admin"
	"github.com/hotparam/pipeline/hotparam/shared"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

const token = "a-token-of-the-test"

func TestThereIsNoHandlerForEverybody(t *testing.T) {
	t.Parallel()
	p, err := hotparam.New(hotparam.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]admin.Config{
		"needs Token or Access": {},
		"Config.Token: the token has 5 characters, it must have at least 16": {Token: "short"},
	} {
		if _, err := admin.New(p, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v is not: %s", err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.New(p, admin.Config{Token: token}); err == nil || !strings.Contains(err.Error(), "before Run") {
		t.Errorf("after Run: %v", err)
	}
}

// askFunc sends a request to a mounted handler; each header is "Name: value".
type askFunc func(method, path, body string, header ...string) *httptest.ResponseRecorder

// mounted is a handler below a prefix, used by a user whose role the header Test-Role names.
func mounted(t *testing.T, p *hotparam.Pipeline, prefix string) askFunc {
	t.Helper()
	page, err := admin.New(p, admin.Config{Token: token, Access: func(r *http.Request) (string, admin.Role) {
		roles := []string{"", "viewer", "operator", "admin", "more"}
		return "anna", admin.Role(max(slices.Index(roles, r.Header.Get("Test-Role")), 0))
	}})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(prefix+"/", http.StripPrefix(prefix, page))
	return func(method, path, body string, header ...string) *httptest.ResponseRecorder {
		r, w := httptest.NewRequest(method, prefix+path, strings.NewReader(body)), httptest.NewRecorder()
		for _, h := range header {
			name, value, _ := strings.Cut(h, ": ")
			r.Header.Set(name, value)
		}
		mux.ServeHTTP(w, r)
		return w
	}
}

func TestRolesBelowAPrefix(t *testing.T) {
	t.Parallel()
	p, err := hotparam.New(hotparam.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ask := mounted(t, p, "/ops/hotparam")
	const block = `{"key": "/topic?id=42", "action": "block"}`
	for _, c := range []struct {
		method, path, body string
		header             []string
		want               int
	}{
		{"GET", "/v1/hot", "", nil, 401},
		{"GET", "/", "", nil, 401},
		{"GET", "/livez", "", nil, 200},
		{"GET", "/readyz", "", nil, 200},
		{"GET", "/metrics", "", []string{"Test-Role: admin"}, 404},
		{"GET", "/v1/hot", "", []string{"Authorization: Bearer " + token}, 200},
		{"GET", "/v1/hot", "", []string{"Authorization: Bearer " + token[1:]}, 401},
		{"GET", "/v1/hot", "", []string{"Test-Role: viewer"}, 200},
		{"GET", "/assets/app.js", "", []string{"Test-Role: viewer"}, 200},
		{"PUT", "/v1/overrides", block, []string{"Test-Role: viewer"}, 403},
		{"PUT", "/v1/overrides", block, []string{"Test-Role: operator", "Sec-Fetch-Site: cross-site"}, 403},
		{"PUT", "/v1/overrides", block, []string{"Test-Role: operator"}, 201},
		{"PUT", "/v1/rules", "rules: []", []string{"Test-Role: operator"}, 403},
		{"PUT", "/v1/rules", "rules: []", []string{"Test-Role: more"}, 404}, // an admin; there are no rules
	} {
		if w := ask(c.method, c.path, c.body, c.header...); w.Code != c.want {
			t.Errorf("%s %s %v: %d, want %d: %s", c.method, c.path, c.header, w.Code, c.want, w.Body)
		}
	}
	list, err := p.Overrides(t.Context())
	if err != nil || len(list) != 1 || list[0].Author != "anna" {
		t.Errorf("%+v, %v", list, err)
	}
	if v, err := p.Decide(t.Context(), hotparam.Request{Target: "/topic?id=42"}); err != nil || v.Allowed {
		t.Errorf("%+v, %v", v, err)
	}
}

// Links of the page are relative to its address, so that they work below any prefix.
func TestPage_LinksAreRelative(t *testing.T) {
	t.Parallel()
	p, err := hotparam.New(hotparam.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ask := mounted(t, p, "/ops")
	tags := map[string]bool{}
	for path, root := range map[string]string{
		"/": "./", "/history": "./", "/key/topic%3Fid=42": "../", "/key/deep/a%2Fb": "../../", "/client/192.0.2.1": "../",
	} {
		w := ask("GET", path, "", "Test-Role: viewer")
		text := w.Body.String()
		if !strings.Contains(text, `src="`+root+`assets/app.js"`) || strings.Contains(text, `="/`) {
			t.Errorf("%s: %d, no link to %sassets/app.js, or an absolute one", path, w.Code, root)
		}
		tags[w.Header().Get("ETag")] = true
		again := ask("GET", path, "", "Test-Role: viewer", "If-None-Match: "+w.Header().Get("ETag"))
		if again.Code != http.StatusNotModified {
			t.Errorf("%s with its ETag: %d", path, again.Code)
		}
	}
	if len(tags) != 3 {
		t.Errorf("pages with other links share a tag, or not: %v", tags)
	}
}

// hot is the response of GET /v1/hot.
type hot struct {
	Keys   []struct{ Key string }
	Totals struct{ Limiters int }
}

func hotNow(t *testing.T, w *httptest.ResponseRecorder) (a hot) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	return a
}

func TestThePageShowsOneProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rules, err := hotparam.ParseRules("rules.yaml", []byte(
			"rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 20, window: 1s}}]"))
		if err != nil {
			t.Fatal(err)
		}
		p, err := hotparam.New(hotparam.Config{Rules: rules})
		if err != nil {
			t.Fatal(err)
		}
		ask := mounted(t, p, "/ops")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		for i := range 200 {
			_, err := p.Decide(ctx, hotparam.Request{Method: "GET", Target: "/topic?id=42",
				Client: hotparam.Client{Name: fmt.Sprint("c", i%50)}})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond)
		}
		a := hotNow(t, ask("GET", "/v1/hot", "", "Test-Role: viewer"))
		if len(a.Keys) != 1 || a.Keys[0].Key != "topic?id=42" || a.Totals.Limiters != 1 {
			t.Errorf("%+v", a)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// noSink drops counts.
type noSink struct{}

func (noSink) Send(context.Context, []hotparam.Count) error { return nil }

// The page of each process shows all processes, and a change on it applies to the others.
func TestPagesOfSeveralProcesses(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr()})
	t.Cleanup(func() { _ = rdb.Close() }) // the pipelines have ended
	var asks [2]askFunc
	var pipelines [2]*hotparam.Pipeline
	for i := range asks {
		p, err := hotparam.New(hotparam.Config{Instance: fmt.Sprint("limiter-", i),
			Shared: shared.Config{Redis: rdb, Sink: noSink{}}})
		if err != nil {
			t.Fatal(err)
		}
		pipelines[i], asks[i] = p, mounted(t, p, "/ops")
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	redistest.Eventually(t, "both limiters", func() bool {
		return hotNow(t, asks[0]("GET", "/v1/hot", "", "Test-Role: viewer")).Totals.Limiters == 2
	})
	w := asks[0]("PUT", "/v1/overrides", `{"key": "/topic?id=42", "action": "block"}`, "Test-Role: operator")
	if w.Code != http.StatusCreated {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	redistest.Eventually(t, "the block in the other process", func() bool {
		v, err := pipelines[1].Decide(t.Context(), hotparam.Request{Target: "/topic?id=42"})
		return err == nil && !v.Allowed
	})
}
