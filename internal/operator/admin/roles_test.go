package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/serving/auth"
)

// changing holds all routes that change something, with the lowest role that each needs. The test fails if a route is
// missing here, so that its role is chosen.
var changing = map[string]auth.Role{
	"POST /v1/keys/{key}/purge":       auth.Operator,
	"POST /v1/keys/{key}/reset":       auth.Operator,
	"POST /v1/clients/{client}/reset": auth.Operator,
	"POST /v1/clients/{client}/trace": auth.Operator,
	"POST /v1/key/purge":              auth.Operator,
	"POST /v1/key/reset":              auth.Operator,
	"POST /v1/client/reset":           auth.Operator,
	"POST /v1/client/trace":           auth.Operator,
	"PUT /v1/overrides":               auth.Operator,
	"PUT /v1/overrides/{id}":          auth.Operator,
	"DELETE /v1/overrides/{id}":       auth.Operator,
	"POST /v1/overrides/{id}/undo":    auth.Operator,
	"POST /v1/overrides/{id}/enforce": auth.Operator,
	"PUT /v1/rules":                   auth.Admin,
	"POST /v1/rules/enforce":          auth.Admin,
	"DELETE /v1/history":              auth.Admin,
	"POST /v1/notifications/test":     auth.Admin,
}

// callers are tokens of every role, and invalid ones.
type callers struct {
	byRole   map[auth.Role]string
	rejected map[string]string
}

func newCallers(t *testing.T) (callers, []auth.Token) {
	t.Helper()
	c := callers{byRole: map[auth.Role]string{}, rejected: map[string]string{
		"none": "X: none", "wrong": "Authorization: Bearer " + auth.NewToken(),
		"revoked": "Authorization: Bearer " + auth.NewToken(),
	}}
	lines := map[string]string{}
	for role := auth.Viewer; role <= auth.Admin; role++ {
		token := auth.NewToken()
		c.byRole[role], lines["the-"+role.String()] = "Authorization: Bearer "+token,
			auth.FormatToken(role, token, t0.Add(time.Hour))
	}
	expired := auth.NewToken()
	c.rejected["expired"], lines["left"] = "Authorization: Bearer "+expired,
		auth.FormatToken(auth.Admin, expired, t0.Add(-time.Second))
	tokens, err := auth.ParseTokens("admin.tokens", lines)
	if err != nil {
		t.Fatal(err)
	}
	return c, tokens
}

// Every route is requested with every method as every role and without a token.
func TestHandler_ChecksRoleOnEveryRoute(t *testing.T) {
	t.Parallel()
	who, tokens := newCallers(t)
	w := newWorld(t, func(c *Config) { c.Access.Tokens = tokens })
	revoked, err := auth.ParseTokens("x",
		map[string]string{"gone": auth.FormatToken(auth.Admin,
			strings.TrimPrefix(who.rejected["revoked"], "Authorization: Bearer "), time.Time{})})
	if err != nil {
		t.Fatal(err)
	}
	w.ReplaceTokens(append(revoked, tokens...))
	w.ReplaceTokens(tokens)
	seen := map[string]bool{}
	for _, r := range w.allRoutes() {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut,
			http.MethodPatch, http.MethodDelete} {
			pattern := method + " " + r.Path
			needs, change := changing[pattern]
			if seen[pattern] = true; r.Methods[method] != nil && method != http.MethodGet && !change {
				t.Errorf("%s changes something, and no role is set for it", pattern)
			}
			target := strings.NewReplacer("{key...}", "topic%3Fid=1", "{key}", "topic%3Fid=1", "{id}", "x", "{$}", "").
				Replace(r.Path)
			for name, header := range who.rejected {
				if rec := w.try(method, target, header); rec.Code != http.StatusUnauthorized && !r.Open {
					t.Errorf("%s with a token that is %s: %d", pattern, name, rec.Code)
				}
			}
			for role := auth.Viewer; role <= auth.Admin; role++ { // roles without the right come first
				rec := w.try(method, target, who.byRole[role])
				if rejected := rec.Code == http.StatusForbidden; rejected != (role < needs) ||
					rec.Code == http.StatusUnauthorized {
					t.Errorf("%s as %s: %d %s", pattern, role, rec.Code, rec.Body)
				}
				if role < needs && len(w.store.list)+len(w.store.audit) > 0 {
					t.Fatalf("%s as %s was rejected and changed something", pattern, role)
				}
			}
			w.store.list, w.store.audit = nil, nil
		}
	}
	for pattern := range changing {
		if !seen[pattern] {
			t.Errorf("%s is no route", pattern)
		}
	}
}

// try asks and does not wait for the end of a stream.
func (w *world) try(method, target, header string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://ops.example.com"+target,
		strings.NewReader(`{"key": "topic?id=1", "rate": 5}`))
	ctx, cancel := context.WithCancel(r.Context())
	name, value, _ := strings.Cut(header, ": ")
	r.Header.Set(name, value)
	r.RemoteAddr = fmt.Sprintf("10.%d.%d.1:1", len(target), w.Stats().Requests%256) // no client is slowed
	if target == "/v1/events" {
		cancel()
	}
	defer cancel()
	rec := httptest.NewRecorder()
	w.Handler().ServeHTTP(rec, r.WithContext(ctx))
	return rec
}

// A change is recorded under the name of the token's holder, and not under the name in the request.
func TestAudit_AuthorIsHolderOfToken(t *testing.T) {
	t.Parallel()
	s := loadSchemas(t)
	who, tokens := newCallers(t)
	w := newWorld(t, func(c *Config) { c.Access = auth.Credentials{Token: "s3cret-of-the-test", Tokens: tokens} })
	operator, shared := who.byRole[auth.Operator], "Authorization: Bearer s3cret-of-the-test"
	for header, want := range map[string]string{operator: `"author":"the-operator"`, shared: `"author":"mallory"`} {
		rec := w.ask(http.MethodPut, "/v1/overrides", `{"key": "topic?id=1", "rate": 5, "author": "mallory"}`, header)
		if !strings.Contains(rec.Body.String(), want) {
			t.Errorf("no %s in %d %s", want, rec.Code, rec.Body)
		}
	}
	rec := w.ask(http.MethodGet, "/v1/caller", "", operator)
	s.answer(t, rec, http.StatusOK, "Caller")
	if want := `{"name":"the-operator","role":"operator","until":"2026-03-14T13:00:00Z"}`; strings.TrimSpace(
		rec.Body.String()) != want {
		t.Errorf("%s, want %s", rec.Body, want)
	}
	s.answer(t, w.ask(http.MethodGet, "/v1/caller", "", shared), http.StatusOK, "Caller")
}

// A stream ends with the right to it: when its token is taken away, and when it expires.
func TestEvents_EndWithTheirToken(t *testing.T) {
	t.Parallel()
	token := auth.NewToken()
	tokens := func(until time.Time) []auth.Token {
		list, err := auth.ParseTokens("x", map[string]string{"ann": auth.FormatToken(auth.Viewer, token, until)})
		if err != nil {
			t.Error(err)
		}
		return list
	}
	stream := func(w *world) <-chan struct{} {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.ask(http.MethodGet, "/v1/events", "", "Authorization: Bearer "+token)
		}()
		return ended
	}
	within := func(what string, ended <-chan struct{}) {
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			t.Errorf("the stream goes on after its token %s", what)
		}
	}
	w := newWorld(t, func(c *Config) { c.Access.Tokens = tokens(time.Time{}) })
	w.OpenStreams()
	ended := stream(w)
	for w.Stats().Streams == 0 && t.Context().Err() == nil {
		select {
		case <-ended:
			t.Fatal("the stream does not begin")
		default:
		}
	}
	w.ReplaceTokens(slices.Concat(tokens(time.Time{}))) // the same ones end nothing
	if w.Stats().Streams != 1 {
		t.Error("a reload that changes no token ends streams")
	}
	w.ReplaceTokens(tokens(t0.Add(time.Hour)))
	within("was replaced", ended)
	w = newWorld(t, func(c *Config) { c.Access.Tokens = tokens(t0.Add(50 * time.Millisecond)) })
	w.OpenStreams()
	within("has expired", stream(w))
}

func TestHandler_OtherSitesChangeNothingWithToken(t *testing.T) {
	t.Parallel()
	who, tokens := newCallers(t)
	w := newWorld(t, func(c *Config) { c.Access.Tokens = tokens })
	for _, kind := range []string{"application/json", "application/x-www-form-urlencoded", "text/plain",
		"multipart/form-data; boundary=x"} {
		for pattern := range changing {
			method, path, _ := strings.Cut(pattern, " ")
			target := strings.NewReplacer("{key}", "topic%3Fid=1", "{id}", "x").Replace(path)
			for _, site := range [][]string{{"Sec-Fetch-Site: cross-site", "Origin: https://evil.example"},
				{"Origin: https://evil.example"}, {"Origin: null"}} {
				rec := w.ask(method, target, `{"key": "topic?id=1", "rate": 5}`,
					append(site, "Content-Type: "+kind, who.byRole[auth.Admin])...)
				if rec.Code != http.StatusForbidden {
					t.Errorf("%s from %q: %d", pattern, site, rec.Code)
				}
			}
		}
	}
	if len(w.store.list)+len(w.store.audit) > 0 {
		t.Errorf("changed: %+v", w.store.audit)
	}
}
