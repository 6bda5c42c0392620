package admin

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
)

// schemas knows the schemas of openapi.json by name. Whether an answer keeps its
// schema is judged in test/admin, which runs these tests with answersEnv set.
type schemas struct {
	document map[string]any
}

// answersEnv names a directory for all answers that the tests check.
const answersEnv = "HOTPARAM_ADMIN_ANSWERS"

func loadSchemas(t *testing.T) *schemas {
	t.Helper()
	s := &schemas{}
	decode(t, openAPI, &s.document)
	return s
}

// check fails for a body that is no JSON or a schema that does not exist, and
// keeps the rest to be judged.
func (s *schemas) check(t *testing.T, name string, body []byte) {
	t.Helper()
	all := s.document["components"].(map[string]any)["schemas"].(map[string]any)
	if all[name] == nil || !json.Valid(body) {
		t.Fatalf("no schema %q, or no JSON: %s", name, body)
	}
	dir := os.Getenv(answersEnv)
	if dir == "" {
		return
	}
	answer, err := json.Marshal(map[string]any{"test": t.Name(), "schema": name, "body": json.RawMessage(body)})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.CreateTemp(dir, "*.json")
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(answer)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// answer checks a whole response: its status, and its body by the schema that the document has for it.
func (s *schemas) answer(t *testing.T, rec *httptest.ResponseRecorder, status int, schema string) {
	t.Helper()
	kind := "application/json"
	if schema == "Problem" {
		kind = "application/problem+json"
	}
	if rec.Code != status || rec.Header().Get("Content-Type") != kind {
		t.Fatalf("got %d %s, want %d %s: %s", rec.Code, rec.Header().Get("Content-Type"), status, kind, rec.Body)
	}
	s.check(t, schema, rec.Body.Bytes())
}

// Every route is documented, and every documented route is served.
func TestOpenAPI_DocumentsEveryRoute(t *testing.T) {
	t.Parallel()
	s := loadSchemas(t)
	var documented, served []string
	for path, item := range s.document["paths"].(map[string]any) {
		for method := range item.(map[string]any) {
			if method != "parameters" {
				documented = append(documented, strings.ToUpper(method)+" "+path)
			}
		}
	}
	for _, r := range newWorld(t, nil).allRoutes() {
		path := strings.NewReplacer("...}", "}", "{$}", "").Replace(r.Path)
		if strings.HasPrefix(path, "/assets/") {
			path = "/assets/{file}"
		}
		for method := range r.Methods {
			served = append(served, method+" "+path)
		}
	}
	slices.Sort(documented)
	slices.Sort(served)
	if served = slices.Compact(served); !slices.Equal(documented, served) {
		t.Errorf("documented %q\nserved     %q", documented, served)
	}
}

func TestHandler_RejectsWrongMethodsAndPaths(t *testing.T) {
	t.Parallel()
	s, w := loadSchemas(t), newWorld(t, nil)
	for _, c := range []struct {
		method, target string
		status         int
		allow          string
	}{
		{http.MethodPost, "/v1/hot", 405, "GET, HEAD"},
		{http.MethodDelete, "/v1/overrides", 405, "GET, HEAD, PUT"},
		{http.MethodGet, "/v1/overrides/x/undo", 405, "POST"},
		{http.MethodPatch, "/v1/overrides/x", 405, "DELETE, GET, HEAD, PUT"},
		{http.MethodPut, "/", 405, "GET, HEAD"},
		{http.MethodGet, "/v2/hot", 404, ""},
		{http.MethodGet, "/assets/none.js", 404, ""},
		{http.MethodGet, "/v1/hot?limit=0", 400, ""},
		{http.MethodGet, "/v1/hot?limit=many", 400, ""},
		{http.MethodGet, "/v1/audit?limit=1001", 400, ""},
	} {
		rec := w.ask(c.method, c.target, "")
		s.answer(t, rec, c.status, "Problem")
		if got := rec.Header().Get("Allow"); got != c.allow {
			t.Errorf("%s %s: Allow is %q", c.method, c.target, got)
		}
		if !strings.Contains(rec.Body.String(), `"remedy":"`) {
			t.Errorf("%s %s: no remedy in %s", c.method, c.target, rec.Body)
		}
	}
}

// docs/admin.md names every route.
func TestRoutes_AreInAdminDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/admin.md")
	if err != nil {
		t.Fatal(err)
	}
	page, w := string(text), newWorld(t, nil)
	for _, r := range w.allRoutes() {
		path := strings.NewReplacer("...}", "}", "{$}", "").Replace(r.Path)
		for method := range r.Methods {
			if !strings.HasPrefix(path, "/assets/") && !strings.Contains(page, "`"+method+" "+path+"`") {
				t.Errorf("no %s %s", method, path)
			}
		}
	}
}
