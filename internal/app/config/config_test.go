package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hotparam.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A setting comes from its flag, or else the environment, the file, or its default. The test sets the environment, so
// it does not run in parallel.
func TestParse_PrefersFlagThenEnvironmentThenFile(t *testing.T) {
	path := write(t, "redis: {addr: ['file:1', 'file:2'], timeout: 3s, db: 4, tls: true}\nlog: {level: debug}\n")
	t.Setenv("HOTPARAM_REDIS_DB", "5")
	t.Setenv("HOTPARAM_CONFIG", path)
	var cfg Aggregator
	p, err := Build(&cfg, "aggregator", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Parse([]string{"--redis.timeout=7s", "--statsd.listen=x:1"}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(cfg.Redis.Addr, " "); got != "file:1 file:2" {
		t.Errorf("file: addr %q", got)
	}
	if cfg.Redis.Timeout != 7*time.Second {
		t.Errorf("flag over file: timeout %v", cfg.Redis.Timeout)
	}
	if cfg.Redis.DB != 5 {
		t.Errorf("environment over file: db %d", cfg.Redis.DB)
	}
	if !cfg.Redis.TLS || cfg.Log.Level != "debug" {
		t.Errorf("file: tls %v, level %q", cfg.Redis.TLS, cfg.Log.Level)
	}
	if cfg.Detect.Tick != 100*time.Millisecond || cfg.Admin.Listen != "127.0.0.1:9180" {
		t.Errorf("default: tick %v, admin %q", cfg.Detect.Tick, cfg.Admin.Listen)
	}
}

// The default rules adapt to the upstream where a process of its own forwards requests, and only there.
func TestRules_AdaptByDefaultWhereRequestsAreForwarded(t *testing.T) {
	t.Parallel()
	type serve struct {
		Upstream string
		Serve
	}
	rulesFile := write(t, "rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 10}}]\n")
	for _, tt := range []struct {
		cli  any
		args []string
		want bool
	}{
		{new(serve), []string{"--upstream=http://127.0.0.1:1"}, true},
		{new(serve), []string{"--proxy.upstream=http://127.0.0.1:1"}, true},
		{new(serve), nil, false},
		{new(serve), []string{"--upstream=http://127.0.0.1:1", "--config=" + rulesFile}, false},
		{new(Sidecar), []string{"--proxy.upstream=http://127.0.0.1:1"}, false},
	} {
		p, err := Build(tt.cli, "serve", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Parse(tt.args); err != nil {
			t.Fatal(err)
		}
		set, err := p.RulesToRun()
		if err != nil || len(set.AdaptiveUpstreams()) > 0 != tt.want {
			t.Errorf("%T %v: adapts to %v, want it %v; %v", tt.cli, tt.args, set.AdaptiveUpstreams(), tt.want, err)
		}
	}
}

func TestParse_ErrorsNameFileLineAndField(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{"redis: {addr: a}\ntally:\n  flush: soon\n", ":3: tally.flush: "},
		{"tally:\n  flsh: 1s\n", ":2: tally.flsh: unknown setting"},
		{"tally:\n  flsh: 1s\n", "tally.flush"},
		{"redis: 5\n", ":1: redis: must be a mapping"},
		{"log:\n  level: loud\n", ":2: log.level: "},
		{"gate:\n  budget: 5ms\n  instance: one of two\n",
			`:3: gate.instance: "one of two" cannot name a process; write up to 128 of`},
		{"gate: {instance: \"a\\tb\"}\n", ":1: gate.instance: "},
		{"aggregator:\n  id: 'news a'\n", `:2: aggregator.id: "news a" cannot name`},
		{"kafka:\n  instance: a:b\n", `:2: kafka.instance: "a:b" cannot name`},
		{"redis:\n  addr:\n", ":2: redis.addr: has no value"},
		{"kafka:\n  brokers: [{a: b}]\n", ":2: kafka.brokers: item 1"},
	} {
		var cfg Aggregator
		p, err := Build(&cfg, "aggregator", "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Parse([]string{"--config", write(t, tt.text)})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: error %v, want %q", tt.text, err, tt.want)
		}
	}
}

func TestParse_ReadsOneFileForAllPrograms(t *testing.T) {
	t.Parallel()
	path := write(
		t,
		"collector: {out: kafka}\nproxy: {upstream: 'http://a'}\ngate: {budget: 5ms}\nnamespace: n\nparse_as: {preset: django}\n",
	)
	var cfg Aggregator
	p, err := Build(&cfg, "aggregator", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Parse([]string{"--config", path}); err != nil {
		t.Fatal(err)
	}
	set, err := p.Rules()
	if err != nil || set.Namespace != "n" || set.ParseAs.Preset != "django" {
		t.Errorf("rules: %v, %v", set, err)
	}
}

// No setting accepts a value below 0. A stop with a negative timeout would lose the counts that the program holds.
func TestParse_RejectsSettingsBelowZero(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--config", write(t, "stop:\n  timeout: -1s\n")},
			"hotparam.yaml:2: stop.timeout: -1s is below 0; the default is 10s"},
		{[]string{"--config", write(t, "detect: {max_rate: -0.5}\n")}, "detect.max_rate: -0.5 is below 0"},
		{[]string{"--stop.timeout=-1s"}, "--stop.timeout: -1s is below 0; the default is 10s"},
		{[]string{"--redis.db=-1"}, "--redis.db: -1 is below 0"},
		{[]string{"--aggregator.id=news a"}, `--aggregator.id: "news a" cannot name a process`},
		{[]string{"--stop.timeout=0s"}, ""},
	} {
		var cfg Aggregator
		p, err := Build(&cfg, "aggregator", "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Parse(tt.args)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%v: %v, want %q", tt.args, err, tt.want)
		}
	}
}

func TestFail_ReturnsExitCode(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if code := Fail(&out, "x", nil); code != 0 || out.String() != "" {
		t.Errorf("nil: %d %q", code, &out)
	}
	if code := Fail(&out, "x", os.ErrNotExist); code != 1 || !strings.HasPrefix(out.String(), "x: ") {
		t.Errorf("error: %d %q", code, &out)
	}
	for _, path := range []string{"/nonexistent", write(t, "rules: [{name: x, params: [id], hot: {rate: -3}}]\n"),
		write(t, "rules: ["), write(t, "gate: {bugdet: 1ms}")} {
		out.Reset()
		p, err := Build(&Aggregator{}, "aggregator", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err = p.Parse([]string{"--config", path}); err == nil {
			_, err = p.RulesToRun()
		}
		if code := p.Fail(&out, err); code != 2 || strings.Contains(out.String(), "--help") {
			t.Errorf("a wrong file: %d %q", code, &out)
		}
	}
	out.Reset()
	if code := Fail(&out, "x", ErrUsage); code != 2 || !strings.Contains(out.String(), "x --help") {
		t.Errorf("usage: %d %q", code, &out)
	}
}

// Targets have commas of their own; a list in the file and a flag mean the same.
func TestGraphiteTargets_KeepTheirCommas(t *testing.T) {
	t.Parallel()
	want := Targets{"maximumAbove(sumSeriesWithWildcards(a.*.b,1),{threshold})", "c.{x,y}.d"}
	for _, tt := range []struct {
		text string
		args []string
	}{
		{
			"graphite:\n  targets:\n    topic: ['maximumAbove(sumSeriesWithWildcards(a.*.b,1),{threshold})', 'c.{x,y}.d']\n    page: 'e;f'\n", nil},
		{
			"graphite:\n  targets: {topic: 'maximumAbove(sumSeriesWithWildcards(a.*.b,1),{threshold}), c.{x,y}.d', page: 'e;f'}\n", nil},
		{"graphite: {flush: 10s}\n",
			[]string{
				`--graphite.targets=topic=maximumAbove(sumSeriesWithWildcards(a.*.b,1),{threshold}),c.{x,y}.d;page=e\;f`}},
	} {
		var cfg Aggregator
		p, err := Build(&cfg, "aggregator", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Parse(append([]string{"--config", write(t, tt.text)}, tt.args...)); err != nil {
			t.Errorf("%s%v: %v", tt.text, tt.args, err)
			continue
		}
		if got := cfg.Graphite.Targets; !slices.Equal(got["topic"], want) ||
			!slices.Equal(got["page"], Targets{"e;f"}) {
			t.Errorf("%s%v: targets %q", tt.text, tt.args, got)
		}
	}
	var cfg Aggregator
	p, err := Build(&cfg, "aggregator", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Parse([]string{"--config", write(t, "graphite:\n  targets:\n    topic: [[a]]\n")}); err == nil ||
		!strings.Contains(err.Error(), ":3: ") && !strings.Contains(err.Error(),
			":2: graphite.targets: topic: item 1") {
		t.Errorf("a list in a list: %v", err)
	}
}

func TestRedact_HidesUserAndPassword(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`dial redis://ann:p@ss, word"@h:1/0: rejected`: `dial redis://***@h:1/0: rejected`,
		"http://h:1/a is not there":                    "http://h:1/a is not there",
		"ann@example.org":                              "ann@example.org",
	} {
		if got := Redact(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// Rules of a central store hash by the secret of the program, as the rules of its file do.
func TestStoredRules_HashBySecretOfProgram(t *testing.T) {
	t.Parallel()
	const text = "redact: {token: hash}\nrules: [{name: login, match: {path: /login}, params: [token], hot: {rate: 20}}]\n"
	for secret, ok := range map[string]bool{"s3cret-of-the-test": true, "": false} {
		p, err := Build(&Aggregator{}, "aggregator", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Parse([]string{"--privacy.secret=" + secret}); err != nil {
			t.Fatal(err)
		}
		next, err := p.WithRules("version-1.yaml", text)
		if err != nil {
			t.Fatal(err)
		}
		set, err := next.RulesToRun()
		if ok != (err == nil) {
			t.Fatalf("%q: %v", secret, err)
		}
		if ok {
			if key, err := set.RedactKey("login?token=x"); err != nil || !strings.HasPrefix(key, "login?token=hash-") {
				t.Errorf("%s, %v", key, err)
			}
		}
	}
}

func TestUnknownVariables_WarnsOfMisspelledSettings(t *testing.T) {
	t.Parallel()
	for variable, want := range map[string]string{
		"HOTPARAM_REDIS_ADDR=x": "", "HOTPARAM_CONFIG=x": "", "HOTPARAM_ADMIN_TOKEN=x": "", "HOTPARAM_LEARN_OUT=x": "", "PATH=x": "",
		"HOTPARAM_PROGRAMS=x": "", "HOTPARAM_NIGHTLY=x": "", "HOTPARAM_SAMPLES=x": "", "HOTPARAM_REQUIRE_SERVERS=x": "",
		"HOTPARAM_REDS_ADDR=x": `HOTPARAM_REDS_ADDR is not a setting; did you mean "HOTPARAM_REDIS_ADDR"?`,
		"HOTPARAM_COLOUR=x":    "HOTPARAM_COLOUR is not a setting",
		// Kubernetes sets these for a service with the name hotparam-limiter.
		"HOTPARAM_LIMITER_SERVICE_HOST=10.0.0.1": "", "HOTPARAM_LIMITER_SERVICE_PORT_HTTP=1": "",
		"HOTPARAM_LIMITER_PORT=tcp://10.0.0.1:1": "", "HOTPARAM_LIMITER_PORT_1_TCP_ADDR=10.0.0.1": "",
	} {
		if got := strings.Join(unknownVariables([]string{variable}), ""); !strings.HasSuffix(got, want) ||
			want == "" && got != "" {
			t.Errorf("%s: %q, want %q", variable, got, want)
		}
	}
	// Each setting of each program is known by the name that the programs read.
	for _, cli := range []any{&Collector{}, &Aggregator{}, &Sidecar{}, &Serve{}} {
		p, err := Build(cli, "x", "")
		if err != nil {
			t.Fatal(err)
		}
		for _, flag := range p.Kong.Model.Flags {
			for _, env := range flag.Envs {
				if got := unknownVariables([]string{env + "=x"}); got != nil {
					t.Errorf("--%s: %v", flag.Name, got)
				}
			}
		}
	}
}

func TestParse_ReadsAnyHostAsGoDoes(t *testing.T) {
	t.Parallel()
	var a Aggregator
	p, err := Build(&a, "aggregator", "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Parse([]string{"--admin.listen=*:9180", "--statsd.listen=*:8125,tcp://*:8126,udp://[::1]:8127,unix:/a*:b"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{":8125", "tcp://:8126", "udp://[::1]:8127", "unix:/a*:b"}
	if a.Admin.Listen != ":9180" || !slices.Equal(a.In.Listen, want) {
		t.Errorf("listens on %q and %q", a.Admin.Listen, a.In.Listen)
	}
}

// TestHelp_FitsTwoScreens: without all settings a program's help is short, and leads to the rest.
func TestHelp_FitsTwoScreens(t *testing.T) {
	for name, cli := range map[string]any{"serve": &Serve{}, "collector": &Collector{}, "aggregator": &Aggregator{},
		"limiter-sidecar": &Sidecar{}} {
		var short, all strings.Builder
		for out, arg := range map[*strings.Builder]string{&short: "--help", &all: "--help-all"} {
			p, err := Build(cli, name, "", kong.Writers(out, out), kong.Exit(func(int) {}))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = p.Parse([]string{arg})
		}
		if lines := strings.Count(short.String(), "\n"); lines > 60 {
			t.Errorf("%s --help has %d lines:\n%s", name, lines, &short)
		}
		for _, f := range []string{"--config", "--redis.addr", "--admin.listen", "HOTPARAM_ADMIN_LISTEN"} {
			if !strings.Contains(short.String(), f) {
				t.Errorf("%s --help says nothing of %s:\n%s", name, f, &short)
			}
		}
		if !strings.Contains(short.String(), "more settings: "+name+" --help-all") ||
			strings.Contains(short.String(), "--redis.tls_ca") || !strings.Contains(all.String(), "--redis.tls_ca") ||
			strings.Contains(all.String(), "more settings") {
			t.Errorf("%s: --help and --help-all:\n%s\n%s", name, &short, &all)
		}
	}
}

// Two namespaces have two groups by default, because in one group each would lose the partitions of the other.
func TestKafkaGroup_IsOfANamespace(t *testing.T) {
	t.Parallel()
	if got := (KafkaGroup{}).Name("news"); got != "hotparam-aggregator-news" {
		t.Error(got)
	}
	if got := (KafkaGroup{Group: "mine"}).Name("news"); got != "mine" {
		t.Error(got)
	}
}
