package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/hotparam/pipeline/internal/app/config"
)

// unprinted are the commands without -o json: they run until they are stopped, or print nothing.
var unprinted = map[string]string{
	"serve": "runs", "collector": "runs", "aggregator": "runs", "limiter-sidecar": "runs", "top": "runs on a terminal",
	"hot watch": "runs: one JSON value a line", "health": "prints nothing but errors",
}

// fullAdmin is an admin listener that has an answer to every question of the commands.
var fullAdmin = map[string]string{
	"GET /v1/hot": `{"at":"2026-11-28T12:00:00Z","matched":1,"keys":[{"key":"topic?id=42","rule":"topic","rate":250}]}`,
	"GET /v1/key": `{"key":"topic?id=42"}`, "POST /v1/key/reset": `{"key":"topic?id=42"}`,
	"GET /v1/client":         `{"client":"192.0.2.1","trace":{"requests":3,"limiters":1}}`,
	"POST /v1/client/trace":  `{}`,
	"GET /v1/overrides":      `{"overrides":[{"id":"a","key":"topic?id=42","action":"block","version":7,"source":"live"}]}`,
	"PUT /v1/overrides":      `{"id":"b","key":"topic?id=43","action":"block","revision":8,"change":3,"warnings":["of no rule"]}`,
	"DELETE /v1/overrides/a": `{}`, "POST /v1/overrides/a/undo": `{"revision":9}`,
	"POST /v1/overrides/a/enforce": `{"id":"a","key":"topic?id=42","action":"block","revision":8}`,
	"GET /v1/limiters":             `{"revision":9,"limiters":[{"instance":"edge-1","revision":9}]}`,
	"GET /v1/audit":                `{"changes":[{"revision":9,"action":"put","id":"a"}]}`,
	"DELETE /v1/history":           `{"rows":3}`,
	"GET /v1/notifications":        `{"webhooks":[]}`, "POST /v1/notifications/test": `{"results":[{"name":"ops","ok":true}]}`,
	"GET /v1/rules": `{"store":"redis:","version":5,"current":{"version":5,"text":"rules: []\n"},
		"limiters":[{"instance":"edge-1","running":5}]}`,
	"GET /v1/rules/running":   `{"central":true,"rules":[{"name":"topic"}],"processes":[{"instance":"edge-1"}]}`,
	"PUT /v1/rules":           `{"store":"redis:","version":7}`,
	"GET /v1/rules/history":   `{"revisions":[{"version":5}]}`,
	"GET /v1/rules/history/5": `{"version":5,"text":"rules: []\n"}`,
	"GET /topic":              "the site that load visits",
}

// printed runs the program and returns its standard output, standard error and exit code.
func printed(args ...string) (stdout, stderr string, code int) {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "HOTPARAM_TEST_MAIN=1")
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	_ = cmd.Run() // the exit code reports the error
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// commandArguments returns the arguments with which each command that ends is tried. admin is the listener for --admin.
func commandArguments(t *testing.T, admin string) map[string][]string {
	file, log := write(t, goodRules), write(t, sampleLog())
	overrides := write(t, `overrides: [{key: "topic?id=43", action: block}]`)
	return map[string][]string{
		"version": {}, "completion": {"bash"}, "token": {}, "config validate": {file}, "rules validate": {file},
		"explain": {"/topic?id=42"}, "replay": {log}, "learn": {log}, "doctor": {"-c", file},
		"demo":          {"--print-config"},
		"gateway nginx": {"-c", file}, "gateway haproxy": {"-c", file}, "load": {"--target", admin, "--duration", "1s"},
		"hot ls": {"--admin", admin}, "hot get": {"--admin", admin, "topic?id=42"},
		"hot reset": {"--admin", admin, "topic?id=42"}, "trace": {"--admin", admin, "--for", "1s", "192.0.2.1"},
		"override ls":      {"--admin", admin},
		"override set":     {"--admin", admin, "--action", "block", "--wait", "1m", "topic?id=43"},
		"override rm":      {"--admin", admin, "--wait", "1m", "a"},
		"override enforce": {"--admin", admin, "a"}, "override undo": {"--admin", admin, "a"},
		"override diff": {"--admin", admin, overrides}, "override apply": {"--admin", admin, "--prune", overrides},
		"audit": {"--admin", admin}, "history purge": {"--admin", admin, "topic?id=42"},
		"notify ls": {"--admin", admin}, "notify test": {"--admin", admin},
		"rules get": {"--admin", admin}, "rules status": {"--admin", admin}, "rules history": {"--admin", admin},
		"rules diff": {"--admin", admin, "5", file}, "rules push": {"--admin", admin, file},
		"rules rollback": {"--admin", admin, "5"},
	}
}

// TestCommands_PrintOneJSONValue states that each command that prints something and ends has -o json, prints one value
// with it, and prints nothing to standard output if the listener does not answer.
func TestCommands_PrintOneJSONValue(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(&fakeAdmin{answers: fullAdmin})
	t.Cleanup(srv.Close)
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	arguments := commandArguments(t, srv.URL)
	p, err := config.Build(new(commands), name, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, leaf := range p.Kong.Model.Leaves(true) {
		command := strings.TrimPrefix(leaf.Path(), name+" ")
		if unprinted[command] != "" {
			continue
		}
		args, ok := arguments[command]
		if !hasJSON(leaf) || !ok {
			t.Errorf("%s has no -o json, or no arguments in this test", command)
			continue
		}
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			args := append(append(strings.Fields(command), "-o", "json"), args...)
			out, errOut, code := printed(args...)
			if err := oneValue(out); err != nil || code != 0 && command != "doctor" { // this machine may lose datagrams
				t.Errorf("%q: exit code %d, %v in %s%s", args, code, err, out, errOut)
			}
			if silent := replaced(args, srv.URL, dead.URL); silent != nil && command != "load" {
				if out, errOut, code := printed(silent...); code != 1 || out != "" ||
					!strings.Contains(errOut, "does not answer") {
					t.Errorf("%q: exit code %d, %s%s", silent, code, out, errOut)
				}
			}
		})
	}
}

func hasJSON(leaf *kong.Node) bool {
	for _, flag := range leaf.Flags {
		if flag.Name == "output" {
			return flag.Short == 'o' && strings.Contains(flag.Enum, "json")
		}
	}
	return false
}

// oneValue returns an error if a text is not one JSON value.
func oneValue(text string) error {
	var v any
	dec := json.NewDecoder(strings.NewReader(text))
	if err := dec.Decode(&v); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("more than one value")
	}
	return nil
}

// replaced returns args with from replaced by to, or nil if args do not contain from.
func replaced(args []string, from, to string) []string {
	for i := range args {
		if args[i] == from {
			other := append([]string{}, args...)
			other[i] = to
			return other
		}
	}
	return nil
}

// TestCommands_PrintChangesBeforeError states that a value has everything that a command has done and found, even
// if it fails in the end.
func TestCommands_PrintChangesBeforeError(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(&fakeAdmin{answers: fullAdmin})
	t.Cleanup(srv.Close)
	for want, args := range map[string][]string{
		`"did": "removed"`: {"override", "rm", "--admin", srv.URL, "-o", "json", "a", "absent"},
		`"ok": true`:       {"config", "validate", "-o", "json", write(t, "rules: {"), write(t, goodRules)},
		`"ok": false`:      {"rules", "validate", "-o", "json", write(t, "rules: {")},
	} {
		out, errOut, code := printed(args...)
		if err := oneValue(out); err != nil || code == 0 || !strings.Contains(out, want) || errOut == "" {
			t.Errorf("%q: exit code %d, %v in %s, want %s; %s", args, code, err, out, want, errOut)
		}
	}
}
