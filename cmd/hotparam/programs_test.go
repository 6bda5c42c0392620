package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/app/config"
)

// A program that is started as a command listens where the program itself does.
func TestProgramsKeepTheirAdminAddress(t *testing.T) {
	for program, listen := range map[string]func(*commands) string{
		"collector":       func(c *commands) string { return c.Collector.Admin.Listen },
		"aggregator":      func(c *commands) string { return c.Aggregator.Admin.Listen },
		"limiter-sidecar": func(c *commands) string { return c.Limiter.Admin.Listen },
		"serve":           func(c *commands) string { return c.Serve.Admin.Listen },
	} {
		var cli commands
		p, err := config.Build(&cli, name, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Parse([]string{program}); err != nil {
			t.Fatal(err)
		}
		if got, want := listen(&cli), config.DefaultAdmin(program); got != want {
			t.Errorf("%s: admin.listen %s, want %s", program, got, want)
		}
	}
}

// Settings come from the environment too. A flag of one command does not: HOTPARAM_FOR would be the life of an
// override to one command and the length of a trace to another. The environment is set, so it does not run in parallel.
func TestEnvironment_SetsOnlySettings(t *testing.T) {
	t.Setenv("HOTPARAM_OUTPUT", "json")
	t.Setenv("HOTPARAM_OUT", "hotparam.yaml")
	t.Setenv("HOTPARAM_LIMIT", "7")
	t.Setenv("HOTPARAM_ADMIN", "http://127.0.0.1:9")
	t.Setenv("HOTPARAM_ADMIN_TOKEN", "of the environment")
	t.Setenv("HOTPARAM_UPSTREAM", "http://127.0.0.1:3")
	t.Setenv("HOTPARAM_PROXY_LISTEN", "127.0.0.1:4")
	parse := func(args ...string) (cli commands) {
		p, err := config.Build(&cli, name, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Parse(args); err != nil {
			t.Fatal(err)
		}
		return cli
	}
	ls := parse("hot", "ls").Hot.Ls
	if ls.Output != "text" || ls.Limit != 50 || ls.Admin != "http://127.0.0.1:9" || ls.Token != "of the environment" {
		t.Errorf("hot ls: %+v", ls)
	}
	if out := parse("learn", "-").Learn.Out; out != "" {
		t.Errorf("learn writes to %q", out)
	}
	if serve := parse("serve").Serve; serve.Upstream != "http://127.0.0.1:3" || serve.Proxy.Listen != "127.0.0.1:4" {
		t.Errorf("serve: upstream %q, listen %q", serve.Upstream, serve.Proxy.Listen)
	}
}

// A mistake names the help that has the answer.
func TestUsageError_NamesHelpOfCommand(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"hotparam: see hotparam --help\n":                 {"--nothing"},
		"hotparam: see hotparam hot ls --help\n":          {"hot", "ls", "--sort", "size"},
		"hotparam: see hotparam override set --help\n":    {"override", "set"},
		"hotparam: see hotparam config validate --help\n": {"config", "validate"},
	} {
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), "HOTPARAM_TEST_MAIN=1")
		out, err := cmd.CombinedOutput()
		if err == nil || cmd.ProcessState.ExitCode() != 2 || !strings.HasSuffix(string(out), want) {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}

// Unknown settings and unknown fields of rules are reported together, each with its line.
func TestValidateNamesUnknownSettingsAndFields(t *testing.T) {
	t.Parallel()
	path := write(t, "detect: {hold: 5s}\nrules: [{name: a, params: [id], hot: {rate: 1, cool: 5s}}]\n")
	cmd := exec.Command(os.Args[0], "config", "validate", path)
	cmd.Env = append(os.Environ(), "HOTPARAM_TEST_MAIN=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), ":1: detect.hold: unknown setting") ||
		!strings.Contains(string(out), ":2: rules[0].hot.cool: unknown field") {
		t.Errorf("%v\n%s", err, out)
	}
}
