package rules

import (
	"slices"
	"testing"
)

// A change names each thing that it takes away, once, and nothing that it adds or tightens.
func TestLossesAreNamed(t *testing.T) {
	t.Parallel()
	read := func(text string) *Set {
		set, err := Parse("losses.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	const full = `
rules:
  - name: topic
    match: {path: /topic}
    params: [id]
    hot: {rate: 200}
    limit: {rate: 100, values: [{key: "topic?id=7", rate: 10}]}
  - {name: search, match: {path: /search}, params: [q], hot: {rate: 200}, limit: {rate: 50}}
  - {name: login, match: {path: /login}, per_client: {fixed: {limit: 10, window: 1m}, sliding: {limit: 20, window: 1h}}}
ip:
  fixed: {limit: 50, window: 1s}
  sliding: {limit: 900, window: 1m}
  in_flight: {limit: 20}
  exempt: [10.1.0.0/16, 192.0.2.9]
  trusted_proxies: [10.0.0.1]
classes:
  - {name: crawler, match: {header: User-Agent, pattern: bot}, ip: {fixed: {limit: 5, window: 1s}},
     per_client: {fixed: {limit: 1, window: 1m}}}
overrides:
  - {key: "topic?id=9", action: exempt}
  - {cidr: 203.0.113.0/24, action: block}
`
	for _, c := range []struct {
		name, after string
		want        []string
	}{
		{"the same", full, nil},
		{"all", "rules: [{name: other, match: {path: /o}, params: [id], hot: {rate: 1}}]\n", []string{"rule topic", "rule search", "rule login",
			"the fixed window of ip", "the sliding window of ip", "the requests in flight of ip", "class crawler",
			"the exemption of 10.1.0.0/16", "the exemption of 192.0.2.9/32", "the trusted proxy 10.0.0.1/32",
			"the override of topic?id=9, exempt", "the override of cidr 203.0.113.0/24, block"}},
		{"half", `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 200}, limit: {rate: 100, mode: shadow}}
  - {name: search, match: {path: /search}, params: [q], hot: {rate: 200}, limit: {rate: 500}}
  - {name: login, match: {path: /login}, per_client: {fixed: {limit: 10, window: 1m, mode: shadow}, sliding: {limit: 9, window: 1h}}}
ip:
  fixed: {limit: 50, window: 1s, mode: shadow}
  sliding: {limit: 1, window: 1m}
  in_flight: {limit: 20}
  exempt: [10.0.0.0/8, 192.0.2.0/24]
  trusted_proxies: [10.0.0.0/24]
classes:
  - {name: crawler, match: {header: User-Agent, pattern: bot}}
overrides:
  - {key: "topic?id=9", action: exempt}
  - {cidr: 203.0.113.0/24, action: limit, rate: 1}
`, []string{"the limit of rule topic", "the limit of topic?id=7", "the fixed window of rule login",
			"the fixed window of ip", "the fixed window of class crawler",
			"the fixed window of per_client of class crawler",
			"the override of cidr 203.0.113.0/24, block"}},
	} {
		if got := Losses(read(full), read(c.after)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
