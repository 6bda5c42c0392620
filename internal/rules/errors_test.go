package rules

import (
	"errors"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/conf"
)

// TestErrors: each text has one mistake; the error says where and what.
func TestErrors(t *testing.T) {
	t.Parallel()
	rule := func(s string) string { return "rules:\n  - {name: topic, params: [id], hot: {rate: 1}, " + s + "}\n" }
	hot := func(s string) string { return "rules:\n  - name: topic\n    params: [id]\n    hot: {" + s + "}\n" }
	override := func(s string) string {
		return "overrides:\n  - {" + s + "}\nrules:\n  - {name: topic, params: [id], hot: {rate: 1}}\n"
	}
	for _, c := range []struct{ text, want string }{
		{"rules: [", "f.yaml:1: not YAML: "},
		{"a: b\n\tc: d", "f.yaml:2: a tab indents this line; YAML wants spaces"},
		{"a: b\n \tc: d", "f.yaml:2: a tab indents this line; YAML wants spaces"},
		{"a: @x", "not YAML: a value begins with a character that only quotes allow"},
		{"a: b\nrules:\n  - {name: x, match: {path: /a?b=c}}\n", "f.yaml:3: not YAML: did not find expected"},
		{"- a", "f.yaml:1: has to be a mapping of fields, not a list"},
		{"namespace: a\n---\nnamespace: b", "f.yaml:2: has a second document"},
		{"namespace: My News", `f.yaml:1: namespace: "My News" cannot be used; write up to 64 of a-z, 0-9 and _`},
		{"namespace: 7", "f.yaml:1: namespace: has to be a string (quote it), not \"7\""},
		{"namespace: a\nnamespace: b", "f.yaml:2: namespace: is set twice, first in line 1"},
		{"rulez: []", `f.yaml:1: rulez: unknown field; did you mean "rules"?`},
		{"ips: {}", `f.yaml:1: ips: unknown field; did you mean "ip"?`},
		{"query_bounds: {pairs: 0}", "f.yaml:1: query_bounds.pairs: 0 is not a whole number between 1 and"},
		{"query_bounds: {query_bytes: 10}", "f.yaml:1: query_bounds: query_bytes 10 is not between 64"},
		{"rules: {}", "f.yaml:1: rules: has to be a list, not a mapping"},
		{"rules: [topic]", "f.yaml:1: rules[0]: has to be a mapping of fields, not \"topic\""},
		{"rules:\n  - name: topic", "f.yaml:2: rules[0].params: is missing"},
		{"rules:\n  - name: topic\n    params: []", "f.yaml:2: rules[0].hot: is missing"},
		{"rules:\n  - &a {name: topic, params: [id], hot: {rate: 1}}",
			"f.yaml:2: rules[0]: anchors and aliases are not supported"},
		{"ip: &a {fixed: {limit: 1, window: 1s}}\nclasses: *a", "f.yaml:2: classes: anchors and aliases"},
		{"rules:\n  - {name: Topic, params: [], hot: {rate: 1}}", `f.yaml:2: rules[0].name: "Topic" cannot be used; write up to 64 of a-z, 0-9 and _`},
		{rule("match: {path: topic}"), `f.yaml:2: rules[0].match.path: path "topic" does not begin with "/"`},
		{rule("match: {path: GET /topic}"), "methods and hosts have fields of their own"},
		{rule("match: {path: '/topic?id=1'}"), "has a query"},
		{rule("match: {path: /a//b}"), "never matches a clean path"},
		{rule("match: {path: '/a/{id}x'}"), "a wildcard is a whole segment"},
		{rule("match: {path: '/{id...}/x'}"), "has to be the last segment"},
		{rule("match: {path: '/{id}/{id}'}"), "{id} is set twice"},
		{rule("match: {path: '/topic/*'}"), `"*" is no wildcard; write {name} for one segment, {name...} for all`},
		{rule("match: {path: '/topic/**'}"), `"**" is no wildcard`},
		{rule("match: {path: '/*.php'}"), "or %2A for a star"},
		{rule("match: {path: '/topic/:id/edit'}"), `":id" is no wildcard; write {id}, or %3A for a colon`},
		{rule("match: {path: '/topic/<int:id>'}"), `"<int:id>" is no wildcard; write {id}`},
		{rule("match: {path: '/topic$'}"), `"topic$" is no regular expression here`},
		{rule("match: {path: '/topic/[0-9]+'}"), `"[0-9]+" is no regular expression here`},
		{rule("match: {path: '/topic/[id]'}"), "{name} for a segment"},
		{rule("match: {path: '/{a b}'}"), "is not a name"},
		{rule("match: {path: '/{}'}"), "has no name"},
		{rule("match: {methods: [get]}"), `rules[0].match.methods[0]: "get" cannot be used`},
		{rule("match: {hosts: [\"example.com:80\"]}"), `rules[0].match.hosts[0]: "example.com:80" cannot be used`},
		{rule("match: {port: 80}"), "rules[0].match.port: unknown field"},
		{rule("malformed: denied"), `rules[0].malformed: "denied" is not`},
		{rule("ignore: [a]"), `rules[0].ignore: requires "*" in params`},
		{"rules:\n  - {name: a, params: ['*'], ignore: ['*'], hot: {rate: 1}}",
			"rules[0].ignore: \"*\" ignores every parameter"},
		{"rules:\n  - {name: a, params: [1], hot: {rate: 1}}",
			"rules[0].params[0]: has to be a string (quote it), not \"1\""},
		{"rules:\n  - {name: a, params: [{nam: id}], hot: {rate: 1}}",
			`rules[0].params[0].nam: unknown field; did you mean "name"?`},
		{"rules:\n  - {name: a, params: [id, id], hot: {rate: 1}}", `rules[0].params: "id" is set twice`},
		{"rules:\n  - {name: a, params: [path.id], hot: {rate: 1}}",
			`rules[0].params: path.id is tracked, but path "" has no {id}`},
		{"rules:\n  - {name: a, match: {path: '/x/{i}'}, params: [path.id], hot: {rate: 1}}", `has no {id}`},
		{"rules:\n  - {name: a, params: ['header.X Y'], hot: {rate: 1}}", `"X Y" is not the name of a header`},
		{"rules:\n  - {name: a, params: [body.topic, cookie.sid], hot: {rate: 1}}",
			`rules[0].params[0]: "body.topic": there is no source "body"; one of path.NAME, header.NAME, query.NAME; ` +
				`a parameter of the query with this name is "query.body.topic"`},
		{"rules:\n  - {name: a, params: [body.topic, cookie.sid], hot: {rate: 1}}",
			`rules[0].params[1]: "cookie.sid": there is no source "cookie"`},
		{"rules:\n  - {name: a, params: [{name: .x}], hot: {rate: 1}}", `".x": there is no source ""`},
		{"rules:\n  - {name: a, params: [query.path.id], hot: {rate: 1}}",
			`"path.id" is not the name of a query parameter here`},
		{"rules:\n  - {name: a, params: ['query.*'], hot: {rate: 1}}", `"*" is not the name of a query parameter here`},
		{"rules:\n  - {name: a, params: [id, query.id], hot: {rate: 1}}", `rules[0].params: "id" is set twice`},
		{"rules:\n  - {name: a, params: [{name: header.X, duplicates: first}], hot: {rate: 1}}",
			"params[0].duplicates: header.X has one value"},
		{"upstreams:\n  - {url: 'http://a'}", "f.yaml:2: upstreams[0].name: is missing"},
		{"upstreams:\n  - {name: a}\n  - {name: a}", `f.yaml:3: upstreams[1].name: "a" is set twice`},
		{"upstreams:\n  - {name: a, url: 'a:80'}", `f.yaml:2: upstreams[0].url: "a:80" is not a URL such as`},
		{"upstreams:\n  - {name: a, target: fast}", `f.yaml:2: upstreams[0].target: "fast" is not one of auto`},
		{"upstreams:\n  - {name: a, target: {latency: -250ms}}",
			"f.yaml:2: upstreams[0].target.latency: -250ms is not between 1ms and 1m0s"},
		{"upstreams:\n  - {name: a, target: {quantile: 1.5}}",
			"f.yaml:2: upstreams[0].target.quantile: 1.5 is not above 0 and at most 1"},
		{"upstreams:\n  - {name: a, target: {quantile: 0.999}}",
			"f.yaml:2: upstreams[0].target.quantile: 0.999 is not between 0.5 and 0.99"},
		{"upstreams:\n  - {name: a, target: {errors: 0.9}}",
			"f.yaml:2: upstreams[0].target.errors: 0.9 is not between 0.001 and 0.5"},
		{rule("limit: {adaptive: true, max: 5}"), "f.yaml:2: rules[0].limit.min: is missing"},
		{rule("limit: {adaptive: true, min: 9, max: 5}"),
			"f.yaml:2: rules[0].limit.min: 9 is more than max, 5 requests a second"},
		{rule("limit: {adaptive: true, min: 1/m, max: 5}"),
			"limit.min: 0.016666666666666666 requests a second are less than 0.1"},
		{rule("limit: {adaptive: true, min: 2, max: 5, rate: 9}"),
			"f.yaml:2: rules[0].limit.rate: 9 is not between min and max, 2 and 5"},
		{rule("limit: {adaptive: true, min: 2, max: 5, scope: instance}"),
			"limit.adaptive: an adaptive limit is shared by all limiters"},
		{rule("limit: {adaptive: true, min: 2, max: 5, algorithm: gcra}"),
			"limit.adaptive: gcra does not adapt; token_bucket does"},
		{rule("limit: {rate: 5, max: 5}"), "f.yaml:2: rules[0].limit.max: requires adaptive: true"},
		{rule("limit: {adaptive: true, min: 2, max: 5, upstream: serch}") + "upstreams: [{name: search}]",
			`f.yaml:2: rules[0].limit.upstream: there is no upstream "serch"; did you mean "search"?`},
		{"parse_as: expres", `f.yaml:1: parse_as: "expres" is no preset: one of axum, chi`},
		{"parse_as: expres", `"strict" is safe for any upstream; did you mean "express"?`},
		{"parse_as: [express]", "f.yaml:1: parse_as: has to be a string"},
		{"parse_as: {preset: expres}", `f.yaml:1: parse_as.preset: "expres" is no preset`},
		{"parse_as: {path_cas: fold}", `parse_as.path_cas: unknown field; did you mean "path_case"?`},
		{"parse_as: {path_case: exact}", `parse_as.path_case: "exact" is not one of keep, fold`},
		{rule("parse_as: {names: phpp}"), `rules[0].parse_as.names: "phpp" is not one of plain, qs, php`},
		{"rules:\n  - {name: a, params: [{name: id, integer: octal}], hot: {rate: 1}}",
			`rules[0].params[0].integer: "octal" is not one of none, decimal`},
		{"rules:\n  - {name: a, params: [{name: id, duplicates: some}], hot: {rate: 1}}",
			"rules[0].params[0].duplicates: "},
		{"rules:\n  - {name: a, params: [" + strings.Repeat("x", 65) + "], hot: {rate: 1}}",
			"has more than 64 bytes (query_bounds.name_bytes)"},
		{"rules:\n  - {name: a, params: [], hot: {rate: 1}}\n  - {name: a, params: [], hot: {rate: 1}}",
			`f.yaml:3: rules[1].name: "a" is the name of the rule in line 2 too`},
		{"rules:\n  - {name: '*', params: [], hot: {rate: 1}, continue: true}", "no rule comes after the catch-all"},
		{
			"rules:\n  - {name: a, match: {path: /x/}, params: [], hot: {rate: 1}}\n  - {name: b, match: {path: '/x/{y}', methods: [GET]}, params: [], hot: {rate: 1}}",
			`f.yaml:3: rules[1].match: no request comes here: rule "a" in line 2 takes them all`},
		{
			"rules:\n  - {name: a, match: {path: '/x/{y}'}, params: [], hot: {rate: 1}}\n  - {name: b, match: {path: '/x/{z}'}, params: [], hot: {rate: 1}}",
			`f.yaml:3: rules[1].match: no request comes here: rule "a" in line 2 takes them all`},
		{hot(""), "f.yaml:4: rules[0].hot.rate: is missing"},
		{hot("rate: 0"), "rules[0].hot.rate: rate 0 is not between 0.000001 and 1000000000"},
		{hot("rate: -1"), `"-1" is no rate`}, {hot("rate: 1e3"), `"1e3" is no rate`}, {hot("rate: .inf"), "is no rate"},
		{hot("rate: 10/w"), `"10/w" is no rate`}, {hot("rate: 10/"), `"10/" is no rate`},
		{hot("rate: many"), `"many" is no rate`},
		{hot("rate: [1]"), "has to be a rate such as 100, 0.5 or 30/m, not a list"},
		{hot("rate: "), "rules[0].hot.rate: has to be a rate such as 100, 0.5 or 30/m, not nothing"},
		{hot("rate: 1, window: 1500ms"), "rules[0].hot.window: 1500ms is not between 1s and 10m0s in steps of 1s"},
		{hot("rate: 1, window: 5"), `"5" is not a time such as`}, {hot("rate: 1, window: 11m"), "11m is not between"},
		{hot("rate: 1, cooldown: -1s"), "hot.cooldown: -1s is not between"},
		{hot("rate: 1, release_ratio: 1.1"), "hot.release_ratio: 1.1 is not above 0 and at most 1"},
		{hot("rate: 1, release_ratio: 0"), "0 is not above 0"},
		{hot("rate: 1, max_hot: -1"), "-1 is not a whole number between 0"},
		{hot("rate: 1, max_hot: 1.5"), "has to be a whole number"},
		{rule("limit: {}"), "rules[0].limit.rate: is missing"},
		{rule("limit: {rate: 1, burst: 0}"), "rules[0].limit.burst: 0 is not a whole number between 1"},
		{rule("limit: {rate: 1, limit: 5}"),
			"rules[0].limit.limit: token_bucket has rate, burst and initial_tokens, not limit"},
		{rule("limit: {algorithm: fixed_window, rate: 5}"),
			"rules[0].limit.rate: fixed_window has limit and window, not rate"},
		{rule("limit: {algorithm: fixed_window, limit: 5}"), "rules[0].limit.window: is missing"},
		{rule("limit: {algorithm: leaky, rate: 5}"),
			"is not one of token_bucket, gcra, leaky_bucket, bursty, warming_up, fixed_window, anchored_window, sliding_window, sliding_log, bucketed_window"},
		{rule("limit: {algorithm: gcra, limit: 5, window: 1s}"),
			"rules[0].limit.limit: gcra has rate and burst, not limit"},
		{rule("limit: {algorithm: anchored_window, limit: 5}"), "rules[0].limit.window: is missing"},
		{rule("limit: {algorithm: sliding_log, limit: 10001, window: 1h}"),
			"sliding log of 10001 per 1h0m0s: it remembers each, at most 10000"},
		{rule("limit: {algorithm: sliding_log, limit: 1, window: 1h, buckets: 2}"),
			"limit.buckets: sliding_log has limit and window, not buckets"},
		{rule("limit: {algorithm: bucketed_window, limit: 1, window: 1s, buckets: 3}"),
			"rules[0].limit: window 1s cannot be cut into 3 buckets"},
		{rule("limit: {algorithm: bucketed_window, limit: 1, window: 1s, buckets: 1001}"),
			"limit.buckets: 1001 is not a whole number between 1 and 1000"},
		{rule("limit: {algorithm: leaky_bucket, rate: 1, nodelay: true, window: 1s}"),
			"limit.window: leaky_bucket has rate, burst, delay and nodelay, not window"},
		{rule("limit: {algorithm: leaky_bucket, rate: 1, nodelay: true, delay: 0}"),
			"rules[0].limit: nodelay and delay exclude each other"},
		{rule("limit: {algorithm: leaky_bucket, rate: 1, burst: 3, delay: 4}"),
			"rules[0].limit: delay 4 is more than the burst, 3"},
		{rule("limit: {algorithm: leaky_bucket, rate: 1, burst: 100, delay: 4}"),
			"rules[0].limit: 96 calls at 1 per 1s would wait for more than 1m0s"},
		{rule("limit: {rate: 1, burst: 3, initial_tokens: 4}"),
			"rules[0].limit.initial_tokens: initial_tokens 4 is more than the burst, 3"},
		{rule("limit: {rate: 1, delay: 4}"),
			"rules[0].limit.delay: token_bucket has rate, burst and initial_tokens, not delay"},
		{rule("limit: {algorithm: fixed_window, limit: 1, window: 1s, wait: 1s}"), "wait 1s is not supported by fixed_window; use token_bucket, gcra, leaky_bucket or warming_up"},
		{rule("limit: {rate: 1, block: 25h}"), "rules[0].limit.block: 25h is not between 0s and 24h"},
		{rule("limit: {rate: 1, wait: 100us}"), "rules[0].limit.wait: 100us is not between 0s and 1m"},
		{rule("limit: {rate: 1, block_max: 1s}"), "longest block 1s without a block"},
		{rule("limit: {rate: 1, block: 2s, block_max: 1s}"), "longest block 1s is shorter than block 2s"},
		{rule("limit: {algorithm: bursty, burst: 5}"), "rules[0].limit.rate: is missing"},
		{rule("limit: {algorithm: bursty, rate: 5, initial_tokens: 2}"),
			"limit.initial_tokens: bursty has rate and burst, not initial_tokens"},
		{rule("limit: {algorithm: warming_up, rate: 5}"), "rules[0].limit.warm_up: is missing"},
		{rule("limit: {algorithm: warming_up, warm_up: 5s}"), "rules[0].limit.rate: is missing"},
		{rule("limit: {algorithm: warming_up, rate: 5, warm_up: 0s}"), "limit.warm_up: 0s is not between 1ms and 24h"},
		{rule("limit: {algorithm: warming_up, rate: 5, warm_up: 5s, burst: 2}"),
			"limit.burst: warming_up has rate and warm_up, not burst"},
		{rule("limit: {algorithm: warming_up, rate: 999983, warm_up: 24h}"), "choose a rounder rate or a shorter warm-up"},
		{rule("limit: {algorithm: warming_up, rate: 5, warm_up: 5s, fair: true}"),
			"limit.fair: warming_up has no level that clients could share"},
		{rule("limit: {algorithm: warming_up, adaptive: true, min: 2, max: 5, warm_up: 5s}"),
			"limit.adaptive: warming_up does not adapt"},
		{rule("limit: {rate: 5, warm_up: 5s}"), "limit.warm_up: token_bucket has rate, burst and initial_tokens, not warm_up"},
		{rule("limit: {algorithm: in_flight, limit: 5, warm_up: 5s}"), "not warm_up"},
		{rule("limit: {algorithm: bursty, adaptive: true, min: 2, max: 5}"), "limit.adaptive: bursty does not adapt"},
		{rule("limit: {algorithm: gcra, burst: 5}"), "rules[0].limit.rate: is missing"},
		{rule("limit: {algorithm: gcra, rate: 1, burst: -1}"),
			"rules[0].limit.burst: -1 is not a whole number between 0"},
		{rule("limit: {rate: 1, values: [{key: 'topic?id=1', limit: 1}]}"),
			"rules[0].limit.values[0].limit: token_bucket has rate, burst and initial_tokens, not limit"},
		{rule("limit: {rate: 1, mode: shadows}"), `did you mean "shadow"?`},
		{rule("limit: {rate: 0.000001, burst: 9007199254740991}"), "rules[0].limit: "},
		{rule("limit: {algorithm: sliding_window, limit: 9007199254740991, window: 1h}"), "2^53"},
		{rule("limit: {rate: 1, values: [{rate: 1}]}"), "rules[0].limit.values[0].key: is missing"},
		{rule("limit: {rate: 1, values: [{key: 'topic?id=a b', rate: 1}]}"), `write "topic?id=a%20b"`},
		{rule("limit: {rate: 1, values: [{key: 'news?id=1', rate: 1}]}"),
			`is not one of rule "topic"; write "topic?id=1"`},
		{"rules: [{name: '*', params: ['*'], hot: {rate: 1}, limit: {rate: 1, values: [{key: 'news?id=1', rate: 1}]}}]",
			`is not one of rule "*"`},
		{rule("limit: {rate: 1, values: [{key: 'topic?x=1', rate: 1}]}"),
			`has a parameter that the rule does not track: "x"`},
		{rule("limit: {rate: 1, values: [{key: 'topic?id=1&id=2', rate: 1}]}"),
			`has parameter "id" twice, and the rule's keys have one value of it`},
		{rule("limit: {rate: 1, values: [{key: 'topic?id=1', rate: 1}, {key: 'topic?id=1', rate: 2}]}"),
			"is set twice"},
		{"ip: {fixed: {limit: 5}}", "f.yaml:1: ip.fixed.window: is missing"},
		{"ip: {fixed: {limit: 0, window: 1s}}", "ip.fixed.limit: 0 is not"},
		{"ip: {fixed: {limit: 1, window: 1s, consistency: eventual}}", "ip.fixed.consistency: "},
		{"ip: {fixed: {limit: 1, window: 1s, consistency: async, scope: instance}}",
			"ip.fixed.consistency: nothing is shared in scope instance"},
		{"ip: {exempt: [10.0.0.1/8]}", "ip.exempt[0]: 10.0.0.1/8 has bits behind its length; write 10.0.0.0/8"},
		{"ip: {exempt: [ten]}", `"ten" is neither a network`},
		{"ip: {exempt: ['::ffff:10.0.0.0/104']}", "write the IPv4 network"},
		{"ip: {client: Host}", "ip.client: Host is not one of the headers"},
		{"ip: {client: 'a b'}", `ip.client: "a b" cannot be used`},
		{"classes: [{name: a, match: {header: x, pattern: y}, verify: []}]", "classes[0].verify: is empty"},
		{"classes: [{name: a, match: {header: x, pattern: y}, verify: [com]}]", `classes[0].verify[0]: "com" cannot be used`},
		{"ip: {ipv6_prefix: 47}", "ip.ipv6_prefix: 47 is not a whole number between 48 and 64"},
		{"ip: {ipv6_prefix: 65}", "between 48 and 64"},
		{"ip: {trusted_proxies: ['fe80::1%eth0']}", "is neither a network"},
		{"classes: [{name: a}]", "classes[0].match: is missing"},
		{"classes: [{name: a, match: {header: User-Agent, pattern: '('}}]",
			"classes[0].match.pattern: error parsing regexp"},
		{"classes: [{name: a, match: {header: Host, pattern: x}}]", "Host is not one of the headers"},
		{"classes: [{name: a, match: {header: A, pattern: x}}, {name: a, match: {header: A, pattern: y}}]",
			`classes[1].name: "a" is set twice`},
		{override("action: block"), "f.yaml:2: overrides[0].key: is missing"},
		{override("key: 'topic?id=1'"), "overrides[0].rate: is missing"},
		{override("key: topic, client: 192.0.2.1, action: block"),
			"overrides[0].key: override has both key and client; make it two"},
		{override("resource: topics, action: block"),
			`overrides[0].resource: there is no rule "topics"; did you mean "topic"?`},
		{override("resource: /status, action: block"),
			`overrides[0].resource: "/status" is the resource of a path, and there is no catch-all rule "*"`},
		{override("client: anna, action: block"), `overrides[0].client: client "anna" of override is not an address`},
		{override("cidr: 10.0.0.1/8, action: block"),
			`overrides[0].cidr: cidr "10.0.0.1/8" of override: write "10.0.0.0/8"`},
		{override("class: crawlers, action: block"), `overrides[0].class: there is no class "crawlers"`},
		{override("class: crawler, action: cache"), `override "class crawler" has action "cache"`},
		{override("key: 'topic?id=1', action: ban"), `"ban" is not one of limit, exempt, block, shadow, cache`},
		{override("key: 'topic?id=1', action: block, rate: 5"),
			"overrides[0].rate: override \"topic?id=1\" has a rate or a burst"},
		{override("key: 'topic?b=1&a=2', rate: 5"), `write "topic?a=2&b=1"`},
		{override("key: 'topics?id=1', rate: 5"), `overrides[0].key: there is no rule "topics"; did you mean "topic"?`},
		{override("key: 'topic?Id=1', rate: 5"),
			`overrides[0].key: key "topic?Id=1" has a parameter that rule "topic" does not track, so no request matches: ` +
				`"Id"; write "id"`},
		{override("key: 'topic?lang=*', rate: 5"), `does not track, so no request matches: "lang"`},
		{override("key: 'topic?*&lang=1', rate: 5"), `does not track, so no request matches: "lang"`},
		{override("key: 'topics?id=*', rate: 5"),
			`overrides[0].key: no rule has a key that "topics?id=*" matches; did you mean "topic"?`},
		{override("key: '/topic/*', rate: 5"), `no rule has a key that "/topic/*" matches`},
		{override("key: 'topic?id=1&id=2', rate: 5"), `has parameter "id" twice`},
		{override("key: '/status', rate: 5"), `there is no catch-all rule "*"`},
		{override("key: 'topic', rate: 5, until: tomorrow"), `overrides[0].until: "tomorrow" is not a time`},
		{override("key: 'topic', rate: 5, id: 'A b'"), "cannot be used; write up to 64 of a-z, 0-9 and -"},
		{override("key: 'topic', rate: 5}\n  - {key: topic, action: block"),
			"f.yaml:3: overrides[1]: another override has the same id, or the same key, schedule and mode"},
	} {
		set, err := Parse("f.yaml", []byte(c.text))
		if err == nil || set != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\ngives  %v\nwant … %s", c.text, err, c.want)
			continue
		}
		places := map[string]bool{} // "f.yaml:2: rules[0].limit": each has one error
		for line := range strings.Lines(err.Error()) {
			if parts := strings.SplitN(line, ": ", 3); strings.HasPrefix(line, "f.yaml:") && len(parts) == 3 {
				if place := parts[0] + ": " + parts[1]; places[place] {
					t.Errorf("%s\ngives several errors of %s: %v", c.text, place, err)
				} else {
					places[place] = true
				}
			}
		}
		if e := new(Error); !errors.As(err, &e) || e.File != "f.yaml" {
			t.Errorf("%s\ngives no *Error: %v", c.text, err)
		}
	}
}

func TestNothingLikeItIsSuggested(t *testing.T) {
	t.Parallel()
	for _, got := range []string{"foo", "xy", ""} {
		if text := conf.Suggest(got, []string{"log", "ip", "query_bounds"}); text != "" {
			t.Errorf("%q: %s", got, text)
		}
	}
}

func TestErrorsTogether(t *testing.T) {
	t.Parallel()
	_, err := Parse("f.yaml", []byte("rules:\n"+strings.Repeat("  - {name: a, params: [], hot: {rate: x}}\n", 12)))
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 10+1 || !strings.HasPrefix(lines[0], "f.yaml:2: rules[0].hot.rate: ") ||
		!strings.HasSuffix(lines[10], " more") {
		t.Errorf("%d lines: %v", len(lines), err)
	}
	if _, err := Parse("f.yaml", make([]byte, conf.MaxFile+1)); err == nil {
		t.Error("an oversized file passes")
	}
}

// Statuses of rules in Go are ranges, from 200 to 599.
func TestStatusRangesInGo(t *testing.T) {
	t.Parallel()
	for r, valid := range map[hottype.StatusRange]bool{
		{From: 200, To: 599}: true, {From: 304, To: 304}: true, {From: 199, To: 300}: false,
		{From: 500, To: 600}: false, {From: 305, To: 304}: false,
	} {
		l := rule.LimitOf(limit.PerSecond(1))
		l.RefundStatus = hottype.Statuses{r}
		set := &rule.Set{Rules: []rule.Rule{{Name: "topic", Params: []rule.Param{{Name: "id"}},
			Hot: rule.Hot{Rate: 1}, Limit: l}}}
		if _, err := FromGo("rules", set, Options{}); (err == nil) != valid {
			t.Errorf("%+v: %v", r, err)
		}
	}
}
