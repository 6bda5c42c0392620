package rules

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParseHotCriteria(t *testing.T) {
	t.Parallel()
	with := func(change func(h *HotCriteria)) HotCriteria {
		h := defaultCriteria()
		change(&h)
		return h
	}
	for _, test := range []struct {
		text  string
		want  HotCriteria
		says  string
		least int64
	}{
		{"rate: 200", with(func(h *HotCriteria) { h.Rate = 200 }), "200/s over 5s", 1000},
		{"rate: 30/m, max_rate: 5000", with(func(h *HotCriteria) { h.Rate, h.MaxRate = 0.5, 5000 }), "0.5/s over 5s",
			3},
		{"share: 0.3, min_rate: 4", with(func(h *HotCriteria) { h.Share, h.MinRate = 0.3, 4 }),
			"30 % of the traffic from 4/s on, over 5s", 20},
		{"rate: 200, surge: 10, min_rate: 6/m, window: 3s",
			with(func(h *HotCriteria) { h.Rate, h.Surge, h.MinRate, h.Window = 200, 10, 0.1, 3*time.Second }),
			"200/s, or 10 times its past from 0.1/s on, over 3s", 1},
		{"share: 1, surge: 1.5, min_rate: 2", with(func(h *HotCriteria) { h.Share, h.Surge, h.MinRate = 1, 1.5, 2 }),
			"100 % of the traffic from 2/s on, or 1.5 times its past from 2/s on, over 5s", 10},
	} {
		set, err := Parse("f.yaml", []byte("rules:\n  - {name: topic, params: [id], hot: {"+test.text+"}}\n"))
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		got := set.Rules[0]
		if diff := cmp.Diff(test.want, got.Hot); diff != "" || got.DescribeHot() != test.says ||
			got.MinCount() != test.least {
			t.Errorf("%s: %q, least %d\n%s", test.text, got.DescribeHot(), got.MinCount(), diff)
		}
	}
}

func TestHotCriteriaErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"window: 5s":               "f.yaml:2: rules[0].hot.rate: is missing; a key is hot by rate, share or surge",
		"share: 0.5":               "f.yaml:2: rules[0].hot.min_rate: is missing",
		"rate: 5, surge: 2":        "rules[0].hot.min_rate: is missing",
		"rate: 5, min_rate: 2":     "f.yaml:2: rules[0].hot.min_rate: requires share or surge",
		"share: 1.1, min_rate: 2":  "rules[0].hot.share: 1.1 is not above 0 and at most 1",
		"share: 0, min_rate: 2":    "rules[0].hot.share: 0 is not above 0 and at most 1",
		"surge: 1, min_rate: 2":    "rules[0].hot.surge: 1 is not above 1 and at most 1000000",
		"surge: .nan, min_rate: 2": "rules[0].hot.surge: .nan is not above 1",
		"surge: many, min_rate: 2": "rules[0].hot.surge: must be a number",
		"surge: 2, min_rate: 0":    "rules[0].hot.min_rate: rate 0 is not between",
		"rate: 5, max_rate: lots":  `rules[0].hot.max_rate: "lots" is not a rate`,
		"rate: 5, minrate: 3":      `did you mean "min_rate"?`,
	} {
		_, err := Parse("f.yaml", []byte("rules:\n  - {name: topic, params: [id], hot: {"+text+"}}\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// A count reaches a product exactly when it is not below it; a hair beside a
// whole number is that number.
func TestLeastCount(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		product float64
		want    int64
	}{
		{0, 0}, {0.2, 1}, {1, 1}, {2.5, 3}, {1.1 * 10, 11}, {0.7 * 10, 7}, {3 * 0.1 * 10, 3}, {7 + 1e-12, 7},
		{7 - 1e-12, 7}, {7.0001, 8},
		{1e13, 1e13}, {math.MaxInt64, math.MaxInt64}, {1e300, math.MaxInt64}, {math.Inf(1), math.MaxInt64},
	} {
		if got := LeastCount(test.product); got != test.want {
			t.Errorf("LeastCount(%v) = %d, want %d", test.product, got, test.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		tenths := rapid.Int64Range(0, 1e12).Draw(t, "tenths") // of requests, so that nothing is in doubt
		if n := LeastCount(float64(tenths) / 10); 10*n < tenths || 10*(n-1) >= tenths {
			t.Fatalf("LeastCount(%d tenths) = %d", tenths, n)
		}
	})
}
