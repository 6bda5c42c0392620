package main

import (
	"bytes"
	"crypto/sha256"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/hotparam/pipeline/internal/serving/auth"
)

// tokenOf runs hotparam token in a process of its own.
func tokenOf(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"token"}, args...)...)
	cmd.Env = append(os.Environ(), "HOTPARAM_TEST_MAIN=1")
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errOut
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// The output can be copied into the configuration file.
func TestToken_PrintsTokenAndHash(t *testing.T) {
	t.Parallel()
	out, _, code := tokenOf(t, "", "--name=ann", "--role=operator", "--expires=2160h")
	var file struct {
		Admin struct {
			Tokens map[string]string `yaml:"tokens"`
		} `yaml:"admin"`
	}
	if err := yaml.Unmarshal([]byte(out), &file); err != nil || code != 0 {
		t.Fatalf("%d, %v: %s", code, err, out)
	}
	tokens, err := auth.ParseTokens("admin.tokens", file.Admin.Tokens)
	if err != nil || len(tokens) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	shown := strings.TrimPrefix(strings.Split(out, "\n")[1], "# ")
	left := time.Until(tokens[0].Until)
	if tokens[0].Name != "ann" || tokens[0].Role != auth.Operator || tokens[0].Hash != sha256.Sum256([]byte(shown)) ||
		left < 2159*time.Hour || left > 2160*time.Hour {
		t.Errorf("%+v of %s", tokens[0], out)
	}
	if again, _, _ := tokenOf(t, "", "--name=ann"); strings.Contains(again, shown) {
		t.Error("two tokens are one")
	}
	own, _, code := tokenOf(t, "s3cret-of-the-test\n", "--stdin", "--name=bob")
	if want := auth.FormatToken(auth.Viewer, "s3cret-of-the-test", time.Time{}); code != 0 ||
		!strings.Contains(own, `"bob": `+want) || strings.Contains(own, "s3cret") {
		t.Errorf("%d: %s", code, own)
	}
}

func TestToken_RejectsWrongArguments(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ stdin, arg, says string }{
		{"", "--stdin", "must have a line of at least 16"}, {"short\n", "--stdin", "must have a line of at least 16"},
		{"", "--role=root", "must be one of"}, {"", "--name=a b", "a name is longer"},
		{"", "--expires=-1h", "must be above 0"},
	} {
		if out, stderr, code := tokenOf(t, tt.stdin, tt.arg); code != 2 || out != "" ||
			!strings.Contains(stderr, tt.says) {
			t.Errorf("%s: %d %q %q", tt.arg, code, out, stderr)
		}
	}
}
