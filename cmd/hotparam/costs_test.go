package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The commands name the unit of a rate that is not of requests; JSON is the answer of the listener, unchanged.
func TestHot_NamesUnitsOfCosts(t *testing.T) {
	t.Parallel()
	const answer = `{"at":"2026-03-14T12:00:00Z","matched":4,"keys":[` +
		`{"key":"topic?id=1","rule":"topic","rate":812.4,"since":"2026-03-14T11:59:00Z"},` +
		`{"key":"slow?id=1","rule":"slow","cost":"time","rate":0.04,"since":"2026-03-14T11:59:00Z"},` +
		`{"key":"file?id=1","rule":"file","cost":"bytes","rate":6400000,"since":"2026-03-14T11:59:00Z"},` +
		`{"key":"find?q=a","rule":"find","cost":"response.x-cost","rate":30,"since":"2026-03-14T11:59:00Z"}],` +
		`"loops":[{"key":"slow?id=9","rule":"slow","cost":"time","rate":1.5,"since":"2026-03-14T11:59:00Z"}]}`
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := answer
		if r.URL.Path == "/v1/events" {
			text = ""
			for _, change := range []string{`"rate":812.4`, `"cost":"time","rate":0.04`} {
				text += `event: change` + "\n" + `data: {"at":"2026-03-14T12:00:00Z","kind":"became_hot","key":"k",` + change + "}\n\n"
			}
		} else if got := r.URL.Query().Get("sort"); got != "threshold" {
			t.Errorf("sorted by %q", got)
		}
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(srv.Close)
	run := func(args ...string) string {
		cmd := exec.Command(os.Args[0], append(args, "--admin", srv.URL)...)
		cmd.Env = append(os.Environ(), "HOTPARAM_TEST_MAIN=1")
		out, _ := cmd.Output() // hot watch fails at the end of the stream
		return string(out)
	}
	table := run("hot", "ls", "--sort", "threshold")
	for _, want := range []string{"hot    812 ", "hot    40 ms/s ", "hot    6.4 MB/s ", "hot    30 X-Cost/s ",
		"loop   1.5 s/s "} {
		if !strings.Contains(table, want) {
			t.Errorf("%q is missing:\n%s", want, table)
		}
	}
	var got, want any
	if err := json.Unmarshal([]byte(run("hot", "ls", "--sort", "threshold", "-o", "json")), &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(answer), &want); err != nil {
		t.Fatal(err)
	}
	if a, b := mustJSON(t, got), mustJSON(t, want); a != b {
		t.Errorf("%s\n%s", a, b)
	}
	lines := run("hot", "watch")
	if !strings.Contains(lines, "k  812/s\n") || !strings.Contains(lines, "k  40 ms/s\n") {
		t.Error(lines)
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
