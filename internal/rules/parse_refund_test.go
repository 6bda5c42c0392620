package rules

import (
	"strings"
	"testing"
)

func TestParseRefundStatus(t *testing.T) {
	t.Parallel()
	rule := func(text string) string {
		return "rules:\n  - {name: topic, params: [id], hot: {rate: 1},\n     limit: {" + text + "}}\n"
	}
	r := mustParse(t, rule("rate: 50, refund_status: [304, '404', 5xx], values: [{key: 'topic?id=1', rate: 90}]")).
		Rules[0]
	for _, l := range []Limit{r.Limit, r.Values[0].Limit} {
		for status, want := range map[int]bool{200: false, 304: true, 303: false, 404: true, 499: false, 500: true,
			599: true, 600: false} {
			if l.RefundStatus.Contains(status) != want {
				t.Errorf("%d: %+v", status, l.RefundStatus)
			}
		}
	}
	for text, want := range map[string][2]int{"200": {200, 200}, "599": {599, 599}, "2xx": {200, 299},
		"5XX": {500, 599}} {
		got := mustParse(t, rule("rate: 50, refund_status: ["+text+"]")).Rules[0].Limit.RefundStatus
		if !got.Contains(want[0]) || !got.Contains(want[1]) || got.Contains(want[0]-1) || got.Contains(want[1]+1) {
			t.Errorf("%s: %+v, want %v", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"rate: 5, refund_status: [199]":                                                  `refund_status[0]: "199" is not a status`,
		"rate: 5, refund_status: [6xx]":                                                  `refund_status[0]: "6xx" is not a status`,
		"rate: 5, refund_status: 304":                                                    "refund_status: must be a list",
		"rate: 5, refund_status: []":                                                     "refund_status: is empty",
		"rate: 5, refund_status: [99]":                                                   `refund_status[0]: "99" is not a status`,
		"rate: 5, refund_status: [304, 600]":                                             `refund_status[1]: "600" is not a status`,
		"rate: 5, refund_status: [-304]":                                                 `refund_status[0]: "-304" is not a status`,
		"rate: 5, refund_status: [1xx]":                                                  `refund_status[0]: "1xx" is not a status`,
		"rate: 5, refund_status: [50x]":                                                  `refund_status[0]: "50x" is not a status`,
		"rate: 5, refund_status: [0xx]":                                                  `refund_status[0]: "0xx" is not a status`,
		"rate: 5, refund_status: [true]":                                                 "refund_status[0]: must be a status such as 304 or 5xx",
		"rate: 5, refund_status: [{}]":                                                   "refund_status[0]: must be a status",
		"rate: 5, refund_status: [304], mode: shadow":                                    "refund_status: has no effect in mode shadow",
		"algorithm: sliding_log, limit: 5, window: 1s, refund_status: [304]":             "refund_status: sliding_log refunds only",
		"algorithm: in_flight, limit: 5, refund_status: [304]":                           "refund_status: in_flight has limit, lease",
		"rate: 5, refund_status: [304], values: [{key: a, rate: 7, refund_status: [1]}]": "values[0].refund_status: unknown field",
	} {
		if _, err := Parse("f.yaml", []byte(rule(text))); err == nil ||
			!strings.Contains(err.Error(), "f.yaml:3: rules[0].limit."+want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
