package config

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// parseAggregator reads a command line and a file as the aggregator does.
func parseAggregator(t *testing.T, text string, args ...string) (Aggregator, *Parser, error) {
	t.Helper()
	var cfg Aggregator
	p, err := Build(&cfg, "aggregator", "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Parse(append([]string{"--config", write(t, text)}, args...))
	return cfg, p, err
}

// An old spelling is read wherever settings come from, and one warning names it and the new one. The test sets the
// environment, so it does not run in parallel.
func TestOldSpellingsAreReadWithAWarning(t *testing.T) {
	for name, tt := range map[string]struct {
		text, variable string
		args           []string
		old, now       string // in the warning
	}{
		"file": {text: "log: {level: info}\ndetect:\n  hold: 7s\n",
			old: "hotparam.yaml:3: detect.hold", now: "detect.hot_ttl"},
		"file with a hyphen": {text: "detect: {hot-ttl: 7s}\n", old: "detect.hot-ttl",
			now: "detect.hot_ttl"},
		"flag": {args: []string{"--detect.hold=7s"}, old: "--detect.hold",
			now: "--detect.hot_ttl"},
		"flag and its value": {args: []string{"--detect.hold", "7s"}, old: "--detect.hold",
			now: "--detect.hot_ttl"},
		"flag with a hyphen": {args: []string{"--detect.hot-ttl=7s"}, old: "--detect.hot-ttl",
			now: "--detect.hot_ttl"},
		"variable": {variable: "HOTPARAM_DETECT_HOLD", old: "HOTPARAM_DETECT_HOLD",
			now: "HOTPARAM_DETECT_HOT_TTL"},
		"the flag wins over the old variable": {args: []string{"--detect.hot_ttl=7s"},
			variable: "HOTPARAM_DETECT_HOLD"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.variable != "" {
				value := "7s"
				if tt.old == "" {
					value = "9s"
				}
				t.Setenv(tt.variable, value)
			}
			cfg, p, err := parseAggregator(t, tt.text, tt.args...)
			if err != nil || cfg.Detect.HotTTL != 7*time.Second {
				t.Fatalf("hot_ttl %v, error %v", cfg.Detect.HotTTL, err)
			}
			all := strings.Join(p.Warnings(), "\n")
			if tt.old == "" && all != "" || !strings.Contains(all, tt.old) || !strings.Contains(all, tt.now) ||
				strings.Contains(all, "\n") {
				t.Errorf("warnings %q, want one that names %q and %q", all, tt.old, tt.now)
			}
		})
	}
}

func TestTheServerNameOfKafkaIsReadByItsOldName(t *testing.T) {
	t.Parallel()
	cfg, p, err := parseAggregator(t, "kafka: {tls_name: kafka.internal}\n")
	if err != nil || cfg.Kafka.ServerName != "kafka.internal" || len(p.Warnings()) != 1 ||
		!strings.Contains(p.Warnings()[0], "kafka.tls_server_name") {
		t.Errorf("name %q, warnings %q, error %v", cfg.Kafka.ServerName, p.Warnings(), err)
	}
}

// The environment is set, so it does not run in parallel.
func TestBothSpellingsAtOnceAreAnError(t *testing.T) {
	for name, tt := range map[string]struct {
		text      string
		args      []string
		variables []string
		want      []string
	}{
		"file": {text: "detect:\n  hold: 7s\n  hot_ttl: 7s\n",
			want: []string{":3: ", "detect.hold", "detect.hot_ttl"}},
		"hyphen": {text: "detect: {hot_ttl: 7s, hot-ttl: 7s}\n", want: []string{"detect.hot_ttl", "detect.hot-ttl"}},
		"flags": {args: []string{"--detect.hold=7s", "--detect.hot_ttl=7s"},
			want: []string{"--detect.hold", "--detect.hot_ttl"}},
		"variables": {variables: []string{"HOTPARAM_DETECT_HOLD", "HOTPARAM_DETECT_HOT_TTL"},
			want: []string{"HOTPARAM_DETECT_HOLD and HOTPARAM_DETECT_HOT_TTL"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, v := range tt.variables {
				t.Setenv(v, "7s")
			}
			_, _, err := parseAggregator(t, tt.text, tt.args...)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not name %q", err, want)
				}
			}
			if errors.Is(err, ErrUsage) != (tt.args != nil) {
				t.Errorf("error %q: is it of the command line?", err)
			}
		})
	}
}

func TestNegatedFlagsInOldSpelling(t *testing.T) {
	t.Parallel()
	args, warnings, err := currentArgs([]string{"--no-kafka.create", "--statsd.max-count=5", "--print-config", "x-y",
		"--", "--detect.hold"})
	if got := strings.Join(args, " "); err != nil ||
		got != "--no-kafka.create --statsd.max_count=5 --print-config x-y -- --detect.hold" {
		t.Errorf("arguments %q, error %v", got, err)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "--statsd.max-count") {
		t.Errorf("warnings %q", warnings)
	}
}

// A reload that only renames a field has removed nothing.
func TestARenamedFieldIsNotRemoved(t *testing.T) {
	t.Parallel()
	const file = "rules: [{name: topic, params: [id], hot: {rate: 5, COOL: 3s}}]\n"
	_, p, err := parseAggregator(t, strings.Replace(file, "COOL", "cool", 1))
	if err != nil || len(p.Warnings()) != 1 {
		t.Fatalf("warnings %q, error %v", p.Warnings(), err)
	}
	next, err := p.With([]byte(strings.Replace(file, "COOL", "cooldown", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if removed := p.Removed(next); len(removed) > 0 || len(next.Warnings()) > 0 {
		t.Errorf("removed %q, warnings %q", removed, next.Warnings())
	}
}
