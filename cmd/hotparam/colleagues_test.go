package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

// fakeAdmin is an admin listener that answers each path with a text and records its requests.
type fakeAdmin struct {
	answers map[string]string
	mu      sync.Mutex
	asked   []string
}

func (l *fakeAdmin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	l.mu.Lock()
	l.asked = append(l.asked, fmt.Sprint(r.Method, " ", r.URL.RequestURI(), " ", r.Header.Get("If-Match"), " ",
		string(body)))
	l.mu.Unlock()
	w.Header().Set("ETag", `"9"`)
	text, ok := l.answers[r.Method+" "+r.URL.Path]
	if !ok {
		w.WriteHeader(http.StatusPreconditionFailed)
		text = `{"detail":"it was changed meanwhile"}`
	}
	_, _ = io.WriteString(w, text)
}

// changes returns the requests that would change something.
func (l *fakeAdmin) changes() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []string
	for _, text := range l.asked {
		if !strings.HasPrefix(text, http.MethodGet) {
			list = append(list, text)
		}
	}
	l.asked = nil
	return strings.Join(list, "\n")
}

func listen(t *testing.T, answers map[string]string) (*fakeAdmin, adminFlags) {
	t.Helper()
	l := &fakeAdmin{answers: answers}
	srv := httptest.NewServer(l)
	t.Cleanup(srv.Close)
	return l, adminFlags{Admin: srv.URL, Timeout: time.Minute}
}

// TestRulesPush_KeepsRulesOfOthers states that rules from get is pushed only over the version that it names, that
// its first line is not part of the rules, and that errors name lines of the file.
func TestRulesPush_KeepsRulesOfOthers(t *testing.T) {
	t.Parallel()
	stored := func(version int) string {
		return fmt.Sprintf(`{"store":"redis:","version":9,"current":{"version":%d,"author":"bob","text":"rules: []\n"}}`, version)
	}
	l, flags := listen(t, map[string]string{"GET /v1/rules": stored(5), "PUT /v1/rules": stored(10)})
	var got bytes.Buffer
	if err := (&rulesGetCmd{adminFlags: flags}).Run(t.Context(), &kong.Kong{Stdout: &got}); err != nil ||
		!strings.HasPrefix(got.String(), "# hotparam rules version 5;") ||
		!strings.HasSuffix(got.String(), "\nrules: []\n") {
		t.Fatalf("%v: %q", err, &got)
	}
	edited := got.String() + "# edited\n"
	push := func(c rulesPushCmd, text string) error {
		c.adminFlags, c.File = flags, write(t, text)
		return c.Run(t.Context(), &kong.Kong{Stdout: io.Discard, Stderr: io.Discard})
	}
	for _, text := range []string{edited, strings.Replace(edited, "\n", "\r\n", 1), "rules: []\n# edited\n"} {
		if err := push(rulesPushCmd{}, text); err != nil {
			t.Error(err)
		}
		if sent := l.changes(); !strings.HasSuffix(sent, " \"9\" rules: []\n# edited\n") {
			t.Errorf("pushed %q", sent)
		}
	}
	l.answers["GET /v1/rules"] = stored(7)
	err := push(rulesPushCmd{}, edited)
	if err == nil || !strings.Contains(err.Error(), "version 7 by bob is in the store") ||
		!strings.Contains(err.Error(), "--force") || l.changes() != "" {
		t.Errorf("over what bob has pushed: %v", err)
	}
	if err := push(rulesPushCmd{Force: true}, edited); err != nil || !strings.Contains(l.changes(), "# edited") {
		t.Errorf("by force: %v", err)
	}
	c := rulesPushCmd{File: "rules.yaml"}
	if err := c.nameFile(fmt.Errorf("version-7.yaml:2: no; version-7.yaml: none"), 1); err.Error() !=
		"rules.yaml:3: no; rules.yaml: none" {
		t.Error(err)
	}
}

// TestOverrideApply_GoesOn states that an entry of a file that has ended, or that another person has changed, does not
// prevent the others from being set, and that the command reports it.
func TestOverrideApply_GoesOn(t *testing.T) {
	t.Parallel()
	l, flags := listen(t, map[string]string{
		"GET /v1/overrides": `{"overrides":[{"id":"b","key":"topic?id=2","action":"block","version":7,"source":"live"}]}`,
		"GET /v1/limiters":  `{"limiters":[]}`,
		"PUT /v1/overrides": `{"id":"c","key":"topic?id=3","action":"block"}`, "PUT /v1/overrides/b": `{"id":"b"}`,
	})
	file := write(t, `overrides:
  - {key: "topic?id=1", action: block, until: 2020-01-01T00:00:00Z}
  - {id: b, key: "topic?id=2", rate: 5, action: limit, version: 6}
  - {key: "topic?id=3", action: block, version: 4}
`)
	apply := func(force bool) (warned string, err error) {
		c := overrideApplyCmd{Force: force}
		c.adminFlags, c.File = flags, file
		var warn bytes.Buffer
		err = c.Run(t.Context(), &kong.Kong{Stdout: io.Discard, Stderr: &warn})
		return warn.String(), err
	}
	warned, err := apply(false)
	if !strings.Contains(warned, "topic?id=1 was left out: it ended at 2020") {
		t.Errorf("warned of %q", warned)
	}
	if err == nil || !strings.Contains(err.Error(), "topic?id=2: it was changed since") ||
		!strings.Contains(err.Error(), "1 of 3 changes were made") {
		t.Error(err)
	}
	if sent := l.changes(); strings.Count(sent, "\n") != 0 || !strings.Contains(sent, `PUT /v1/overrides "0" `) {
		t.Errorf("sent %s", sent)
	}
	if _, err := apply(true); err != nil {
		t.Error(err)
	}
	if sent := l.changes(); !strings.Contains(sent, `PUT /v1/overrides/b "7" `) {
		t.Errorf("by force %s", sent)
	}
}
