package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/rule"
)

func parsed(t *testing.T, text string, args ...string) *Parser {
	t.Helper()
	p, err := Build(&Sidecar{}, "limiter-sidecar", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Parse(append(args, "--config", write(t, text))); err != nil {
		t.Fatal(err)
	}
	return p
}

const before = `
query_bounds: {pairs: 64, value_bytes: 100}
rules:
  - name: topic
    match: {path: /topic, methods: [GET, HEAD]}
    params: [id, {name: page, fold: true}]
    hot: {rate: 200, min_clients: 3}
    limit: {rate: 100, values: [{key: 'topic?id=1', rate: 5}, {key: 'topic?id=2', rate: 5}]}
  - {name: gone, match: {path: /gone}, params: [id], hot: {rate: 200}}
classes:
  - {name: bots, header: User-Agent, pattern: bot, fixed: {limit: 5, window: 1s}}
ip:
  fixed: {limit: 50, window: 1s}
  exempt: [10.0.0.0/8, 192.0.2.1]
overrides:
  - {key: 'topic?id=7', action: block}
  - {key: 'topic?id=8', rate: 5, schedule: {from: '0 20 * * *', for: 2h}}
  - {key: 'topic?id=8', rate: 6, schedule: {from: '0 8 * * *', for: 2h}}
`

// Removed names the removed parts, so that a person who removed one by mistake can restore it.
func TestRemoved_NamesRemovedParts(t *testing.T) {
	t.Parallel()
	after := before
	for _, cut := range []string{
		"query_bounds: {pairs: 64, value_bytes: 100}\n", ", HEAD", ", min_clients: 3", "{key: 'topic?id=1', rate: 5}, ",
		"  - {name: gone, match: {path: /gone}, params: [id], hot: {rate: 200}}\n", ", fixed: {limit: 5, window: 1s}",
		"  fixed: {limit: 50, window: 1s}\n", ", 192.0.2.1",
		"  - {key: 'topic?id=8', rate: 6, schedule: {from: '0 8 * * *', for: 2h}}\n",
	} {
		if !strings.Contains(after, cut) {
			t.Fatalf("no %q", cut)
		}
		after = strings.Replace(after, cut, "", 1)
	}
	p := parsed(t, before)
	for _, tt := range []struct {
		name, after string
		want        []string
	}{
		{"nothing", before, nil},
		{"values changed and more", strings.NewReplacer("200", "300", "rate: 6", "rate: 7", "pairs: 64", "pairs: 65").
			Replace(before) + "  - {key: 'topic?id=9', action: block}\n", nil},
		{"parts", after, []string{
			"rules[gone]", "rules[topic].match.methods[HEAD]", "rules[topic].hot.min_clients",
			"rules[topic].limit.values[topic?id=1]",
			"ip.fixed", "ip.exempt[192.0.2.1]", "classes[bots].fixed", "overrides[topic?id=8 from 0 8 * * *]",
			"query_bounds",
		}},
		{"sections", before[strings.Index(before, "rules:"):strings.Index(before, "classes:")] + "ip: {fixed:}\n",
			[]string{
				"ip.fixed", "ip.exempt[10.0.0.0/8]", "ip.exempt[192.0.2.1]", "classes[bots]",
				"overrides[topic?id=7]", "overrides[topic?id=8 from 0 20 * * *]",
				"overrides[topic?id=8 from 0 8 * * *]",
				"query_bounds",
			}},
	} {
		next, err := p.With([]byte(tt.after))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if diff := cmp.Diff(tt.want, p.Removed(next)); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

// The removal of a section that the rules depend on is reported.
func TestRemoved_NamesRemovedSections(t *testing.T) {
	t.Parallel()
	rule := "rules: [{name: a, params: [id], hot: {rate: 5}}]\n"
	for section, text := range map[string]string{
		"ip": "ip: {ipv6_prefix: 56}\n", "query_bounds": "query_bounds: {pairs: 9}\n", "parse_as": "parse_as: go\n",
		"upstreams[x]": "upstreams: [{name: x}]\n", "redact": "redact: {token: mask}\n",
		"overrides[203.0.113.0/24]": "overrides: [{cidr: 203.0.113.0/24, action: block}]\n",
		"overrides[a]":              "overrides: [{resource: a, action: block}]\n",
	} {
		p := parsed(t, rule+text)
		next, err := p.With([]byte(rule))
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Removed(next); len(got) != 1 || got[0] != section {
			t.Errorf("%s: %q", section, got)
		}
	}
}

// The test sets the environment, so it does not run in parallel.
func TestNeedRestart_ListsChangedSettings(t *testing.T) {
	t.Setenv("HOTPARAM_REDIS_DB", "5")
	file := "rules: [{name: '*', params: ['*'], hot: {rate: 5}}]\n"
	p := parsed(t, file+"redis: {timeout: 1s, db: 1}\n", "--gate.budget=9ms")
	for _, tt := range []struct {
		more string
		want []string
	}{
		{"redis: {timeout: 1s, db: 1}\n", nil},
		// the environment, a flag, another program
		{"redis: {timeout: 1000ms, db: 2}\ngate: {budget: 1ms}\nkafka: {group: other}\n", nil},
		{"redis: {db: 1}\ndecide: {listen: ''}\nnamespace: n\n",
			[]string{"namespace", "decide.listen", "redis.timeout"}},
		{"redis: {timeout: 1s}\nlog: {level: debug}\nproxy: {upstreams: {a: 'http://a'}}\n",
			[]string{"log.level", "proxy.upstreams"}},
	} {
		next, err := p.With([]byte(file + tt.more))
		if err != nil {
			t.Errorf("%s: %v", tt.more, err)
			continue
		}
		if got, err := p.NeedRestart(next); err != nil || !cmp.Equal(got, tt.want) {
			t.Errorf("%s: %v, %v", tt.more, err, cmp.Diff(tt.want, got))
		}
	}
}

// The library refuses each file of rules that the programs refuse, with the same words except for the remedy. Its
// errors name file, line and field.
func TestLibrary_RefusesWhatProgramsRefuse(t *testing.T) {
	t.Parallel()
	all, err := os.ReadFile("../../rules/testdata/refused.txt")
	if err != nil {
		t.Fatal(err)
	}
	ours := strings.NewReplacer("leave Config.Rules nil", defaultRules,
		"give it by WithHashSecret", "set --privacy.secret_file, the same for all programs")
	for _, file := range strings.Split(strings.TrimSuffix(string(all), "\n"), "\n=== ")[1:] {
		want, text, _ := strings.Cut(file, "\n")
		path := filepath.Join(t.TempDir(), "f.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := Build(&Aggregator{}, "aggregator", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err = p.Parse([]string{"--config", path}); err == nil {
			_, err = p.RulesToRun()
		}
		_, inLibrary := hotparam.LoadRules(path)
		if err == nil || inLibrary == nil || !strings.Contains(err.Error(), want) ||
			ours.Replace(inLibrary.Error()) != "hotparam: rules: "+err.Error() {
			t.Errorf("%s\nprogram: %v\nlibrary: %v\nwant … %s", text, err, inLibrary, want)
		}
		if list, ok := errors.AsType[rule.Errors](inLibrary); !ok || list[0].File != path || list[0].Message == "" {
			t.Errorf("%s\ngives no rule.Errors: %v", text, inLibrary)
		}
	}
}

// A program that would protect nothing does not start.
func TestRulesToRun_RejectsFilesWithoutRules(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "is empty", " \n": "is empty", "---\n": "has no rules", "namespace: n\n": "has no rules",
		"rules:\n":                              "has no rules",
		"ip: {fixed: {limit: 5, window: 1s}}\n": "has no rules",
	} {
		p := parsed(t, text)
		if _, err := p.RulesToRun(); err == nil || !strings.Contains(err.Error(), p.Path()+": "+want) ||
			!strings.Contains(err.Error(), "rules: [{") {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
	p, err := Build(&Sidecar{}, "limiter-sidecar", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Parse(nil); err != nil {
		t.Fatal(err)
	}
	if set, err := p.RulesToRun(); err != nil || len(set.Rules) != 1 {
		t.Errorf("without a file: %v, %v", set, err)
	}
}
