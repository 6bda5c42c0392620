package config

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestParse_NamesTheProgramsThatHaveASetting checks that a setting of other programs is not called a misspelling.
func TestParse_NamesTheProgramsThatHaveASetting(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"--kafka.brokers: hotparam serve has no such setting; of the commands of hotparam these have it: aggregator, " +
			"collector, doctor, limiter-sidecar": {"serve", "--upstream", "http://a", "--kafka.brokers", "a:9092"},
		"--proxy.upstream: hotparam aggregator has no such setting; of the commands of hotparam these have it: " +
			"limiter-sidecar, serve": {"aggregator", "--proxy.upstream=http://a"},
		`unknown flag --upstraem, did you mean "--upstream"`: {"serve", "--upstraem", "http://a"},
		"unknown flag --reds.addr":                           {"serve", "--redis.addr", "a:1", "--reds.addr", "a:1"},
	} {
		var cli struct {
			Serve struct {
				Upstream string
				Serve
			} `cmd:""`
			Aggregator Aggregator `cmd:""`
		}
		p, err := Build(&cli, "hotparam", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Parse(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}

// TestOneProcess_HidesTheSettingsOfServers checks that help shows no setting that the program rejects.
func TestOneProcess_HidesTheSettingsOfServers(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"--help", "--help-all"} {
		var whole, alone strings.Builder
		for out, options := range map[*strings.Builder][]Option{&whole: nil, &alone: {OneProcess()}} {
			options = append(options, kong.Writers(out, out), kong.Exit(func(int) {}))
			p, err := Build(&Serve{}, "serve", "", options...)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = p.Parse([]string{arg}) // Exit returns here, so that the error is of no interest
		}
		for _, setting := range []string{"--rules=", "redis", "etcd", "Envoy"} {
			if !strings.Contains(whole.String(), setting) || strings.Contains(alone.String(), setting) {
				t.Errorf("%s says something of %s:\n%s", arg, setting, &alone)
			}
		}
		if !strings.Contains(alone.String(), "--proxy.upstream") ||
			!strings.Contains(alone.String(), "--history.keep") {
			t.Errorf("%s:\n%s", arg, &alone)
		}
	}
}
