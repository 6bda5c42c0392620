package rules

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// Each algorithm has its Spec, and a value of the rule inherits the amounts that it does not set.
func TestParseAlgorithms(t *testing.T) {
	t.Parallel()
	second := time.Second
	for text, want := range map[string][2]limit.Spec{
		"rate: 5, values: [{key: 'topic?id=1', rate: 7/d, burst: 2}]": {
			{Algorithm: limit.TokenBucket, Limit: 5, Window: second, Burst: 5},
			{Algorithm: limit.TokenBucket, Limit: 7, Window: 24 * time.Hour, Burst: 2}},
		"algorithm: gcra, rate: 5, values: [{key: 'topic?id=1', rate: 6, burst: 2}]": {
			{Algorithm: limit.GCRA, Limit: 5, Window: second},
			{Algorithm: limit.GCRA, Limit: 6, Window: second, Burst: 2}},
		"algorithm: gcra, rate: 5, burst: 0, values: [{key: 'topic?id=1', rate: 6}]": {
			{Algorithm: limit.GCRA, Limit: 5, Window: second},
			{Algorithm: limit.GCRA, Limit: 6, Window: second}},
		"algorithm: leaky_bucket, rate: 5, nodelay: true, burst: 3, values: [{key: 'topic?id=1', rate: 6}]": {
			{Algorithm: limit.GCRA, Limit: 5, Window: second, Burst: 3},
			{Algorithm: limit.GCRA, Limit: 6, Window: second}},
		"algorithm: leaky_bucket, rate: 5, burst: 3, values: [{key: 'topic?id=1', rate: 6}]": {
			{Algorithm: limit.LeakyBucket, Limit: 5, Window: second, Burst: 3},
			{Algorithm: limit.LeakyBucket, Limit: 6, Window: second}},
		"algorithm: leaky_bucket, rate: 5, burst: 8, delay: 3, values: [{key: 'topic?id=1', rate: 3, burst: 4}]": {
			{Algorithm: limit.GCRA, Limit: 5, Window: second, Burst: 3, Wait: second},
			{Algorithm: limit.GCRA, Limit: 3, Window: second, Burst: 3, Wait: 333_334 * time.Microsecond}},
		"rate: 5, burst: 8, initial_tokens: 0, wait: 1s, block: 2s, block_max: 4s, values: [{key: 'topic?id=1', rate: 3, initial_tokens: 1}]": {
			{Algorithm: limit.TokenBucket, Limit: 5, Window: second, Burst: 8, InitialDeficit: 8, Wait: second,
				Block: 2 * second, BlockMax: 4 * second},
			{Algorithm: limit.TokenBucket, Limit: 3, Window: second, Burst: 3, InitialDeficit: 2, Wait: second,
				Block: 2 * second, BlockMax: 4 * second}},
		"algorithm: bursty, rate: 5, wait: 1s, values: [{key: 'topic?id=1', rate: 3, burst: 0}]": {
			{Algorithm: limit.TokenBucket, Limit: 5, Window: second, Burst: 6, InitialDeficit: 5, Wait: second},
			{Algorithm: limit.TokenBucket, Limit: 3, Window: second, Burst: 1, Wait: second}},
		"algorithm: warming_up, rate: 5, warm_up: 9s, wait: 1s, values: [{key: 'topic?id=1', rate: 3}]": {
			{Algorithm: limit.WarmingUp, Limit: 5, Window: second, WarmUp: 9 * second, Wait: second},
			{Algorithm: limit.WarmingUp, Limit: 3, Window: second, WarmUp: 9 * second, Wait: second}},
		"algorithm: fixed_window, limit: 5, window: 1s, values: [{key: 'topic?id=1', limit: 6}]": {
			{Algorithm: limit.FixedWindow, Limit: 5, Window: second},
			{Algorithm: limit.FixedWindow, Limit: 6, Window: second}},
		"algorithm: anchored_window, limit: 5, window: 1s, values: [{key: 'topic?id=1', limit: 6}]": {
			{Algorithm: limit.AnchoredWindow, Limit: 5, Window: second},
			{Algorithm: limit.AnchoredWindow, Limit: 6, Window: second}},
		"algorithm: sliding_log, limit: 5, window: 1s, values: [{key: 'topic?id=1', limit: 6}]": {
			{Algorithm: limit.SlidingLog, Limit: 5, Window: second},
			{Algorithm: limit.SlidingLog, Limit: 6, Window: second}},
		"algorithm: bucketed_window, limit: 5, window: 1s, values: [{key: 'topic?id=1', limit: 6, buckets: 4}]": {
			{Algorithm: limit.BucketedWindow, Limit: 5, Window: second, Buckets: 10},
			{Algorithm: limit.BucketedWindow, Limit: 6, Window: second, Buckets: 4}},
		"algorithm: sliding_window, limit: 5, window: 1s, values: [{key: 'topic?id=1', limit: 6, window: 2s}]": {
			{Algorithm: limit.SlidingWindow, Limit: 5, Window: second},
			{Algorithm: limit.SlidingWindow, Limit: 6, Window: 2 * second}},
	} {
		r := mustParse(t, "rules:\n  - {name: topic, params: [id], hot: {rate: 1}, limit: {"+text+"}}\n").Rules[0]
		if d := cmp.Diff(want, [2]limit.Spec{r.Limit.Spec, r.Values[0].Limit.Spec}); d != "" {
			t.Errorf("%s: %s", text, d)
		}
	}
}

// Limits that can be divided among clients identify clients by their setting, and other limits are errors.
func TestParseFair(t *testing.T) {
	t.Parallel()
	rule := func(text string) string {
		return "rules:\n  - {name: topic, params: [id], hot: {rate: 1},\n     limit: {" + text + "}}\n"
	}
	r := mustParse(t, rule("rate: 50, fair: true, client_key: header.x-user, values: [{key: 'topic?id=1', rate: 90}]")).
		Rules[0]
	for _, l := range []Limit{r.Limit, r.Values[0].Limit} {
		if !l.Fair || l.ClientHeader != "X-User" {
			t.Errorf("%+v", l)
		}
	}
	for text, want := range map[string]string{
		"algorithm: fixed_window, limit: 5, window: 1s, fair: true": "f.yaml:3: rules[0].limit.fair: fixed_window has no level",
		"rate: 50, fair: true, block: 1s":                           "f.yaml:3: rules[0].limit.fair: block denies the key",
		"rate: 50, fair: yes please":                                "f.yaml:3: rules[0].limit.fair: ",
		"rate: 50, client_key: header.X-User":                       "f.yaml:3: rules[0].limit.client_key: requires fair: true",
		"rate: 50, fair: true, client_key: X-User":                  "f.yaml:3: rules[0].limit.client_key: must be header.NAME",
		"rate: 50, fair: true, client_key: header.a b":              "f.yaml:3: rules[0].limit.client_key: must be header.NAME",
	} {
		if _, err := Parse("f.yaml", []byte(rule(text))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if s := mustParse(t, rule("rate: 5, fair: true")); len(s.Warnings) == 0 ||
		!strings.Contains(s.Warnings[0], "limit.fair: a burst of 5 is small") {
		t.Errorf("%q", s.Warnings)
	}
}

// Requests in flight are bounded by key and by client.
func TestParseInFlight(t *testing.T) {
	t.Parallel()
	set := mustParse(t, `
rules:
  - {name: export, params: [id], hot: {rate: 1}, limit: {algorithm: in_flight, limit: 20, lease: 1m, scope: instance}}
ip: {in_flight: {limit: 10, on_store_failure: open}}
classes: [{name: crawler, match: {header: User-Agent, pattern: bot}, ip: {in_flight: {limit: 2}}}]
`)
	l := set.Rules[0].Limit
	if want := (InFlight{Limit: 20, Lease: time.Minute, Scope: ScopeInstance, OnStoreFailure: FailLocal}); l.Set ||
		*l.InFlight != want {
		t.Errorf("%+v, want %+v", l, want)
	}
	want := InFlight{Limit: 10, Lease: 30 * time.Second, Scope: ScopeCluster, OnStoreFailure: FailOpen}
	if *set.IP.InFlight != want {
		t.Errorf("%+v, want %+v", set.IP.InFlight, want)
	}
	if f := set.Classes[0].InFlight; f.Limit != 2 {
		t.Errorf("%+v", f)
	}
	for text, want := range map[string]string{
		"limit: 0":                               "limit.limit: ",
		"limit: -1":                              "limit.limit: ",
		"lease: 1m":                              "limit.limit: ",
		"limit: 2, lease: 0s":                    "limit.lease: ",
		"limit: 2, lease: -1s":                   "limit.lease: ",
		"limit: 2, lease: 2h":                    "limit.lease: ",
		"limit: 2, rate: 5":                      "limit.rate: in_flight has limit, lease",
		"limit: 2, fair: true":                   "limit.fair: in_flight has limit, lease",
		"limit: 2, wait: 1s":                     "limit.wait: in_flight has limit, lease",
		"limit: 2, mode: shadow":                 "limit.mode: in_flight has limit, lease",
		"limit: 2, laese: 1m":                    "limit.laese: unknown field; did you mean",
		"limit: 2, values: [{key: a, limit: 3}]": "limit.values: in_flight has limit, lease",
	} {
		file := "rules:\n  - {name: topic, params: [id], hot: {rate: 1},\n     limit: {algorithm: in_flight, " + text +
			"}}\n"
		if _, err := Parse("f.yaml", []byte(file)); err == nil ||
			!strings.Contains(err.Error(), "f.yaml:3: rules[0]."+want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := Parse("f.yaml", []byte("ip: {in_flight: {limit: 2, window: 1s}}")); err == nil ||
		!strings.Contains(err.Error(), "f.yaml:1: ip.in_flight.window: in_flight has") {
		t.Errorf("a window: %v", err)
	}
}

// A rule whose slots one client may all hold has a warning, unless ip.in_flight leaves slots to others.
func TestWarnOfGreed_NamesRulesWithoutAShare(t *testing.T) {
	t.Parallel()
	for text, warned := range map[string]bool{
		"": true, "ip: {in_flight: {limit: 1}}": false, "ip: {in_flight: {limit: 2}}": true,
		"ip: {fixed: {limit: 5, window: 1s}}": true,
	} {
		s := mustParse(t, "rules:\n  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1}, "+
			"limit: {algorithm: in_flight, limit: 2}}\n"+text+"\n")
		if got := strings.Join(s.Warnings, "\n"); strings.Contains(got, "one client can hold all 2 slots") != warned {
			t.Errorf("%q: %q", text, got)
		}
	}
}
