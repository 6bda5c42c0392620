package rules

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

func TestListsOfOverridesAreReadAsListed(t *testing.T) {
	t.Parallel()
	const yaml = `overrides:
  - {id: a, key: "topic?id=42", action: limit, rate: 0.3333333333333333, burst: 7, mode: shadow, source: live,
     created: 2026-03-01T10:00:00Z, active: true, href: /v1/x, hits: 3, hits_per_second: 0.5, would_deny: 1,
     would_deny_per_second: 1e-7, warnings: [a], next: 2026-03-02T10:00:00Z, until: 2026-03-02T12:00:00.5+02:00,
     reason: launch, author: ann, schedule: {from: "0 20 * * *", for: 2h, zone: Europe/Berlin}}
  - {key: topic, action: nonsense, source: file}
  - {client: 203.0.113.9, action: block, mode: enforce, for: 1h30m}
`
	const json = `{"overrides": [{"id": "a", "key": "topic?id=42", "rate": 0.3333333333333333, "burst": 7,
		"mode": "shadow", "created": null, "until": "2026-03-02T10:00:00.5Z", "reason": "launch", "author": "ann",
		"schedule": {"from": "0 20 * * *", "for": "2h", "zone": "Europe\/Berlin"}},
		{"client": "203.0.113.9", "action": "block", "for": "1h30m"}]}`
	want := []OverrideText{
		{Override: Override{ID: "a", Key: "topic?id=42", Action: ActionLimit, Rate: 1. / 3, Burst: 7,
			Mode: hottype.ModeShadow, Until: time.Date(2026, 3, 2, 10, 0, 0, 5e8, time.UTC), Reason: "launch", Author: "ann",
			Schedule: Schedule{From: "0 20 * * *", For: 2 * time.Hour, Zone: "Europe/Berlin"}}},
		{Override: Override{Client: "203.0.113.9", Action: ActionBlock}, For: 90 * time.Minute},
	}
	for _, text := range []string{yaml, json} {
		got, err := ReadOverrides("f", []byte(text))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", text, err, diff)
		}
	}
	for text, want := range map[string]string{
		"": "f: overrides: is missing", "[]": "must be a mapping", "overrides: {}": "overrides: must be a list",
		"rules: []":                        "f:1: rules: unknown field",
		"overrides: [7]":                   "overrides[0]: must be a mapping",
		"overrides: [{key: a, rte: 5}]":    `overrides[0].rte: unknown field; did you mean "rate"?`,
		"overrides:\n- {key: /a}":          "f:2: overrides[0].rate: is missing",
		"overrides: [{key: /a, for: 1us}]": "overrides[0].for: 1us is not between",
		"overrides: [{key: /a, action: block, until: 2026-03-02T10:00:00Z, for: 1h}]": "overrides[0].for: until is set too",
		"overrides: [{key: /a, action: block, mode: shade}]":                          "is not one of enforce, shadow",
		"overrides: [{client: 2001:db8::1, action: block}]":                           `write "2001:db8::"`,
		`{"overrides": [{"key": "\/a", "action": "block"}], "a": 1}`:                  "f:1: a: unknown field",
	} {
		if _, err := ReadOverrides("f", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if list, err := ReadOverrides("f", []byte("overrides:\n")); len(list) > 0 || err != nil {
		t.Errorf("no overrides: %v, %v", list, err)
	}
}
