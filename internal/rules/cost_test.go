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

// A limit by cost has the capacity of its burst and a debt of a minute behind it, which requests leave to the costs.
func TestParse_ReadsLimitsByCost(t *testing.T) {
	t.Parallel()
	const minute = 60
	for text, want := range map[string]struct {
		rate, burst int64 // counts a second and at once
		inFlight    int64
	}{
		"cost: time, hot: {rate: 1s}, limit: {rate: 500ms, burst: 1s}":                                {500_000, 1_000_000, 2},
		"cost: time, hot: {rate: 1s}, limit: {rate: 2500ms}":                                          {2_500_000, 2_500_000, 4},
		"cost: time, hot: {rate: 1s}, limit: {rate: 10s/m, in_flight: {limit: 7}}":                    {166_667, 166_667, 7},
		"cost: bytes, hot: {rate: 9MB}, limit: {rate: 5MB, burst: 10MB}":                              {5_000_000, 10_000_000, 0},
		"cost: response.X-Cost, hot: {rate: 9}, limit: {rate: 0.5, burst: 2}":                         {500, 2000, 0},
		"cost: response.X-Cost, hot: {rate: 9}, limit: {rate: 3/m, burst: 2, in_flight: {limit: 12}}": {50, 2000, 12},
	} {
		set := mustParse(t, "rules:\n  - {name: topic, params: [{name: id, duplicates: first}], "+text+"}\n")
		l := set.Rules[0].Limit
		rate := LeastCount(float64(l.Spec.Limit) / l.Spec.Window.Seconds())
		if rate != want.rate || l.Spec.Capacity() != want.burst || l.InFlight.Limit != want.inFlight ||
			l.Spec.Reserve != LeastCount(minute*float64(l.Spec.Limit)/l.Spec.Window.Seconds()) {
			t.Errorf("%s: %+v, %+v", text, l.Spec, l.InFlight)
		}
		if err := l.Spec.Validate(); err != nil {
			t.Error(err)
		}
	}
}

// An override of a key of a rule by cost is in the unit of the rule.
func TestOverride_HasUnitOfCost(t *testing.T) {
	t.Parallel()
	o := Override{Key: "report?filter=full", Action: ActionLimit, Rate: 0.5, Burst: 1_000_000}
	for cost, want := range map[hottype.Cost][2]int64{
		"": {1, 1_000_000}, hottype.CostTime: {1_000_000, 1_000_000}, "response.X-Cost": {1000, 1_000_000_000},
	} {
		s := o.Spec(cost)
		if s.Limit*2 != want[0]*int64(s.Window.Seconds()) || s.Capacity() != want[1] || s.Validate() != nil {
			t.Errorf("%s: %+v, %v", cost, s, s.Validate())
		}
	}
}

// An amount in another unit, and a field that a limit by cost cannot have, are errors that show the right form.
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
		"cost: time, hot: {rate: 1s}, limit: {rate: 5}":                                      `limit.rate: "5" has another unit than the rule, in which the cost is time; write 500ms or 1s`,
		"cost: time, hot: {rate: 1s}, limit: {rate: 1s, burst: 5}":                           `limit.burst: "5" has another unit than the rule, in which the cost is time; write 500ms or 1s, the time of requests at once`,
		"cost: bytes, hot: {rate: 1MB}, limit: {rate: 1s}":                                   "write 5MB or 64KiB",
		"hot: {rate: 1}, limit: {rate: 500ms}":                                               `limit.rate: "500ms" has another unit than the rule, in which each request counts for one`,
		"hot: {rate: 1}, limit: {rate: 1, burst: 1s}":                                        "write 100, requests at once",
		"hot: {rate: 1}, limit: {rate: 1, in_flight: {limit: 2}}":                            "is for a rule with cost",
		"cost: time, hot: {rate: 1s}, limit: {rate: 1s, fair: true}":                         "limit.fair: a limit by cost has rate, burst, in_flight, scope, on_store_failure, mode, not fair",
		"cost: time, hot: {rate: 1s}, limit: {rate: 1s, wait: 1s}":                           "not wait",
		"cost: time, hot: {rate: 1s}, limit: {rate: 1s, block: 1s}":                          "not block",
		"cost: time, hot: {rate: 1s}, limit: {rate: 1s, refund_status: [5xx]}":               "not refund_status",
		"cost: time, hot: {rate: 1s}, limit: {burst: 1s}":                                    "limit.rate: is missing",
		"cost: bytes, hot: {rate: 9GB}, limit: {rate: 1B, burst: 9000000000MB}":              "2^53",
		"cost: time, hot: {rate: 1s}, params: [{name: id, duplicates: each}]":                "any other value hot; write first or last",
		"cost: time, hot: {rate: 1s}, limit: {algorithm: sliding_log, limit: 1, window: 1s}": "limit.algorithm: sliding_log does not charge a cost that is known when the request has been answered; token_bucket and in_flight do",
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
