package rules

import (
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// The rates of a rule are in the unit of its cost, and counts are whole microseconds, bytes or thousandths.
func TestParse_ReadsCosts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		cost      hottype.Cost
		threshold int64
		says      string
	}{
		"hot: {rate: 20}":                                       {"", 100, "20/s over 5s"},
		"cost: requests, hot: {rate: 20}":                       {"", 100, "20/s over 5s"},
		"cost: time, hot: {rate: 1s}":                           {"time", 5_000_000, "1 s/s over 5s"},
		"cost: time, hot: {rate: 500ms, window: 2s}":            {"time", 1_000_000, "0.5 s/s over 2s"},
		"cost: time, hot: {rate: 30s/m}":                        {"time", 2_500_000, "0.5 s/s over 5s"},
		"cost: time, hot: {rate: 2s/10s}":                       {"time", 1_000_000, "0.2 s/s over 5s"},
		"cost: time, hot: {rate: 20ms}":                         {"time", 100_000, "20 ms/s over 5s"},
		"cost: bytes, hot: {rate: 5MB}":                         {"bytes", 25_000_000, "5 MB/s over 5s"},
		"cost: bytes, hot: {rate: 1.5GiB/10s}":                  {"bytes", 805_306_368, "161 MB/s over 5s"},
		"cost: bytes, hot: {rate: 100B}":                        {"bytes", 500, "100 B/s over 5s"},
		"cost: response.x-cost, hot: {rate: 0.5}":               {"response.x-cost", 2500, "0.5 X-Cost/s over 5s"},
		"cost: response.X-Cost, hot: {share: 0.5, min_rate: 2}": {"response.X-Cost", 0, "50 % of the traffic from 2 X-Cost/s on, over 5s"},
	} {
		set, err := Parse("f.yaml", []byte("rules:\n  - {name: topic, params: [{name: id, duplicates: first}], "+text+"}\n"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if r := set.Rules[0]; r.Cost != want.cost || r.Threshold() != want.threshold || r.DescribeHot() != want.says {
			t.Errorf("%s: %q, %d, %q", text, r.Cost, r.Threshold(), r.DescribeHot())
		}
	}
}

// A rate in another unit, and a limit that would need the cost beforehand, are errors that show the right form.
func TestParse_RefusesWhatDoesNotFitCost(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"cost: money, hot: {rate: 1}":                                                        `rules[0].cost: "money" is none of requests, time, bytes and response.NAME`,
		"cost: 'response.X Cost', hot: {rate: 1}":                                            "is not the name of a header",
		"cost: time, hot: {rate: 20}":                                                        `"20" has another unit than the rule, in which the cost is time; write 500ms or 1s`,
		"cost: time, hot: {rate: 5MB}":                                                       `"5MB" has another unit`,
		"cost: bytes, hot: {rate: 1s}":                                                       "write 5MB or 64KiB",
		"cost: response.X-Cost, hot: {rate: 1s}":                                             "write 100 or 0.5, the sum of X-Cost in a second",
		"hot: {rate: 1s}":                                                                    "in which each request counts for one; write 100 or 30/m",
		"cost: time, hot: {share: 0.1, min_rate: 20}":                                        `hot.min_rate: "20" has another unit`,
		"cost: time, hot: {rate: 1s/0s}":                                                     `"1s/0s" is not a rate; write 1s, 1s/10s or 1s/m`,
		"cost: bytes, hot: {rate: 9999999GB}":                                                "is not between 0.000001 and 1e+12",
		"cost: time, per_client: {fixed: {limit: 1, window: 1s}}":                            "requires hot",
		"cost: time, hot: {rate: 1s}, limit: {rate: 5}":                                      "write {algorithm: in_flight, limit: 1}",
		"cost: time, hot: {rate: 1s}, params: [{name: id, duplicates: each}]":                "any other value hot; write first or last",
		"cost: time, hot: {rate: 1s}, limit: {algorithm: sliding_log, limit: 1, window: 1s}": "write {algorithm: in_flight",
	} {
		if !strings.Contains(text, "params") && !strings.Contains(text, "per_client") {
			text += ", params: [id]"
		}
		_, err := Parse("f.yaml", []byte("rules:\n  - {name: topic, "+text+"}\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%v\nhas no %q", text, err, want)
		}
	}
}

// Several values of a parameter make one key together, because one expensive request must not make other values hot.
func TestParse_WarnsOfCosts(t *testing.T) {
	t.Parallel()
	const rule = "rules:\n  - {name: topic, params: [id], cost: time, hot: {rate: 1s}, limit: {algorithm: in_flight, limit: 1}}\n"
	set, err := Parse("f.yaml", []byte(rule))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(set.Warnings, "\n")
	for _, want := range []string{"several values of id make one key together", "no upstream has workers"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
	var sc Scratch
	m := set.Match(&hottype.Request{Method: "GET", Target: "/?id=full&id=victim"}, &sc)
	if len(m) != 1 || string(m[0].Key) == "topic?id=victim" {
		t.Errorf("%d keys, %q", len(m), m[0].Key)
	}
	set, err = Parse("f.yaml", []byte("upstreams: [{name: default, workers: 4}]\nparse_as: {duplicates: last}\n"+rule))
	if err != nil || strings.Contains(strings.Join(set.Warnings, "\n"), "workers") ||
		strings.Contains(strings.Join(set.Warnings, "\n"), "several values") {
		t.Errorf("%v, %q", err, set.Warnings)
	}
}
