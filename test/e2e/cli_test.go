package e2e

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/test/internal/program"
)

// The command line reads and changes the state of a running program, and the next request is decided by the state that
// it printed.
func TestCommands_ChangeRunningProgram(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(upstream.Close)
	addr, admin := freeport.Addr(t), freeport.Addr(t)
	const rules = "rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 1000000}, limit: {rate: 5}}]\n" +
		"overrides: [{key: \"topic?id=9\", rate: 3}]\n"
	launch(t, "hotparam", "serve", "--config", write(t, "hotparam.yaml", rules), "--upstream", upstream.URL, "--listen",
		addr,
		"--admin.listen", admin)
	ready(t, admin)
	run := func(in, want string, fails bool, args ...string) string {
		t.Helper()
		cmd := exec.Command(filepath.Join(program.Ours(t), "hotparam"), append(args, "--admin", "http://"+admin)...)
		cmd.Stdin = strings.NewReader(in)
		out, err := cmd.CombinedOutput()
		if (err != nil) != fails || !strings.Contains(string(out), want) {
			t.Fatalf("%v: %v, %s", args, err, out)
		}
		return string(out)
	}
	status := func(want int, why string) {
		t.Helper()
		if got, body := get(t, "http://"+addr+"/topic?id=42"); got != want {
			t.Errorf("%d %s: %s", got, body, why)
		}
	}

	said := run("", "topic?id=42, block", false, "override", "set", "topic?id=42", "--action", "block", "--author",
		"ann", "--reason", "leak", "--wait", "10s")
	if !strings.Contains(said, "1 limiter has it") {
		t.Error(said)
	}
	status(http.StatusTooManyRequests, "the block is not felt")
	id := regexp.MustCompile(`^\S+(?:: )`).FindString(said)
	id = strings.TrimSuffix(id, ": ")
	list := run("", id, false, "override", "ls")
	if !strings.Contains(list, "file") || !strings.Contains(list, "leak") {
		t.Error(list)
	}
	export := run("", "block", false, "override", "ls", "-o", "yaml")
	if text := run(export, "", false, "override", "diff", "-"); text != "" {
		t.Error("an export differs from what holds:", text)
	}
	other := strings.Replace(export, "action: block", "action: exempt", 1)
	run(other, "+ topic?id=42: exempt", false, "override", "diff", "-")
	run(other, "exempt", false, "override", "apply", "-", "--wait", "10s")
	status(http.StatusOK, "the exemption is not felt")
	run("", "block", false, "override", "undo", id, "--yes", "--wait", "10s")
	status(http.StatusTooManyRequests, "the undo is not felt")
	run("overrides: []", "- topic?id=42: block", false, "override", "diff", "-", "--prune")
	run("overrides: []", id+": removed", false, "override", "apply", "-", "--prune", "--wait", "10s")
	status(http.StatusOK, "what was removed holds")
	if audit := run("", "ann", false, "audit", id, "-o", "json"); strings.Count(audit, `"action": "put"`) != 3 ||
		strings.Count(audit, `"action": "delete"`) != 1 {
		t.Error(audit)
	}

	said = run("", "in shadow: block", false, "override", "set", "topic?id=42", "--action", "block", "--mode", "shadow",
		"--author", "ann", "--wait", "10s")
	id, _, _ = strings.Cut(said, ": ")
	status(http.StatusOK, "what is only tried is enforced")
	export = run("", "mode: shadow", false, "override", "ls", "-o", "yaml")
	if text := run(export, "", false, "override", "diff", "-"); text != "" {
		t.Error("an export with shadow mode differs from what holds:", text)
	}
	plain := strings.Replace(export, "mode: shadow", "mode: enforce", 1)
	run(plain, "+ topic?id=42: block", false, "override", "diff", "-")
	wrong := strings.Replace(export, "mode: shadow", "mode: shade", 1)
	run(wrong, "is not one of enforce, shadow", true, "override", "apply", "-")
	run("", id+": enforced; topic?id=42, block", false, "override", "enforce", id, "--yes", "--wait", "10s")
	status(http.StatusTooManyRequests, "what is enforced is not felt")
	run("", "enforced already", true, "override", "enforce", id)
	run("", "in shadow: block", false, "override", "undo", id, "--wait", "10s")
	status(http.StatusOK, "the undo is not felt")
	run("", "in shadow: block", false, "override", "ls")
	run("", "KEY", false, "hot", "ls")
	run("", "hot_rate", false, "hot", "get", "topic?id=42")

	for _, wrong := range []struct {
		in, says string
		args     []string
	}{
		{"", "name one of a key", []string{"override", "set"}},
		{"", "name one of a key", []string{"override", "set", "topic?id=1", "--client", "192.0.2.1"}},
		{"", "has mode shadow, which is for limit and block",
			[]string{"override", "set", "topic?id=1", "--action", "cache", "--mode", "shadow"}},
		{"", "must be one of", []string{"override", "set", "topic?id=1", "--rate", "5", "--mode", "shade"}},
		{"", "there is no override", []string{"override", "enforce", "nosuch"}},
		{"", "rate is missing", []string{"override", "set", "topic?id=1"}},
		{"", "there is no override", []string{"override", "rm", "nosuch"}},
		{"overrides: [{key: \"topic?id=1\", rte: 5}]", `overrides[0].rte: unknown field; did you mean "rate"?`,
			[]string{"override", "apply", "-"}},
		{"rules: []", "rules: unknown field", []string{"override", "apply", "-"}},
		{"", "does not answer", []string{"hot", "ls", "--admin", "http://127.0.0.1:1"}},
	} {
		cmd := exec.Command(filepath.Join(program.Ours(t), "hotparam"),
			append([]string{wrong.args[0], wrong.args[1], "--admin", "http://" + admin}, wrong.args[2:]...)...)
		cmd.Stdin = strings.NewReader(wrong.in)
		if out, err := cmd.CombinedOutput(); err == nil || !bytes.Contains(out, []byte(wrong.says)) {
			t.Errorf("%v: %v, %s", wrong.args, err, out)
		}
	}
}
