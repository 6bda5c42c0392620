package changes

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/rules"
)

var t0 = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

func readBody(body string) (overrideInput, error) {
	return readOverride(httptest.NewRecorder(), httptest.NewRequest("PUT", "/", strings.NewReader(body)), t0)
}

func TestReadOverride_NamesEveryWrongField(t *testing.T) {
	t.Parallel()
	const key = `{"key": "topic?id=42", `
	for _, c := range []struct{ body, field string }{
		{``, ""}, {`[]`, ""}, {`null`, ""}, {`{"key": "a"`, ""}, {`{"key" "a"}`, ""},
		{`{"key": "topic?id=1", "action": "block"} {}`, ""}, {`{"key": nope}`, ""},
		{`{"key": "` + strings.Repeat("x", maxBody) + `"}`, ""},
		{`{}`, "key"}, {`{"key": ""}`, "key"}, {`{"key": 42}`, "key"}, {`{"key": "?id=42"}`, "key"},
		{`{"key": "a\ufffd", "rate": 1}`, "key"},
		{`{"key": "/a?` + strings.Repeat("x", 300) + `=1", "rate": 1}`, "key"},
		{key + `"key": "b"}`, "key"}, {key + `"Rate": 1}`, "Rate"}, {key + `"limit": 1}`, "limit"},
		{key + `"id": "x"}`, "id"},
		{key + `"action": "stop"}`, "action"}, {key + `"action": ["block"]}`, "action"},
		{key + `"action": "limit"}`, "rate"}, {key + `"rate": 0}`, "rate"}, {key + `"rate": -1}`, "rate"},
		{key + `"rate": "many"}`, "rate"}, {key + `"rate": 1e400}`, "rate"},
		{key + `"rate": 1, "burst": 0}`, "burst"}, {key + `"rate": 1, "burst": -3}`, "burst"},
		{key + `"rate": 1, "burst": 1.5}`, "burst"},
		{key + `"action": "block", "rate": 1}`, "rate"}, {key + `"action": "exempt", "burst": 1}`, "burst"},
		{key + `"rate": 1, "mode": "shade"}`, "mode"}, {key + `"rate": 1, "mode": ""}`, "mode"},
		{key + `"rate": 1, "mode": true}`, "mode"}, {key + `"rate": 1, "mode": "shadow", "mode": "enforce"}`, "mode"},
		{key + `"action": "exempt", "mode": "shadow"}`, "mode"}, {key + `"action": "cache", "mode": "shadow"}`, "mode"},
		{key + `"action": "shadow", "mode": "shadow"}`, "mode"}, {key + `"action": "shadow_block"}`, "action"},
		{key + `"rate": 1, "for": "10"}`, "for"}, {key + `"rate": 1, "for": "-1m"}`, "for"},
		{key + `"rate": 1, "for": 600}`, "for"},
		{key + `"rate": 1, "until": "tomorrow"}`, "until"},
		{key + `"rate": 1, "until": "2026-03-14T12:00:00Z"}`, "until"}, {key + `"rate": 1, "until": null}`, "until"},
		{key + `"rate": 1, "until": "2026-03-15T12:00:00Z", "for": "1m"}`, "for"},
		{key + `"rate": 1, "schedule": {"from": "0 20 * * *", "for": "2h", "for": "3h"}}`, "schedule"},
		{key + `"rate": 1, "reason": "a\nb"}`, "reason"}, {key + `"action": "block", "rate": 0}`, "rate"},
		{key + `"rate": 1, "client": "192.0.2.1"}`, "key"},
		{key + `"rate": 1, "reason": "` + strings.Repeat("r", 1025) + `"}`, "reason"},
		{key + `"rate": 1, "author": "` + strings.Repeat("a", 257) + `"}`, "author"},
	} {
		_, err := readBody(c.body)
		p, ok := err.(*web.Problem)
		switch {
		case !ok:
			t.Errorf("%.200s: got %v", c.body, err)
		case p.Field != c.field || p.Remedy == "" || p.Detail == "":
			t.Errorf("%.200s: %+v, want field %q", c.body, p, c.field)
		}
	}
}

func TestReadOverride_ReadsAllForms(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]rules.Override{
		`{"key": "topic?id=42", "rate": 500, "burst": 1000, "reason": "launch", "author": "ann"}`: {Key: "topic?id=42",
			Action: rules.ActionLimit, Rate: 500, Burst: 1000, Reason: "launch", Author: "ann"},
		`{"key": "/a", "rate": 5, "mode": "shadow"}`: {Key: "/a", Action: rules.ActionLimit, Rate: 5,
			Mode: hottype.ModeShadow},
		`{"key": "/a", "rate": 5, "mode": "enforce"}`: {Key: "/a", Action: rules.ActionLimit, Rate: 5},
		`{"key": "topic?b=2&a=1", "rate": 0.5}`: {
			Key: "topic?a=1&b=2", Action: rules.ActionLimit, Rate: 0.5},
		`{"key": "topic?q=a b+c%2f", "action": "block"}`: {
			Key: "topic?q=a%20b%20c%2F", Action: rules.ActionBlock},
		`{"key": "topic?", "action": "block"}`: {Key: "topic",
			Action: rules.ActionBlock},
		`{"key": "topic?!malformed", "action": "block"}`: {
			Key: "topic?!malformed", Action: rules.ActionBlock},
		`{"key": "topic?id=*", "action": "shadow"}`: {Key: "topic?id=*",
			Action: rules.ActionShadow},
		`{"key": "/a", "action": "exempt", "for": "90m"}`: {Key: "/a",
			Action: rules.ActionExempt, Until: t0.Add(90 * time.Minute)},
		`{"key": "/a", "action": "exempt", "until": "2026-03-14T14:00:00.5+01:00"}`: {Key: "/a",
			Action: rules.ActionExempt, Until: t0.Add(time.Hour + time.Second/2)},
		`{"key": "/a", "rate": 1e3, "burst": 2}`:    {Key: "/a", Action: rules.ActionLimit, Rate: 1000, Burst: 2},
		`{"key": "/a", "rate": 0.3333333333333333}`: {Key: "/a", Action: rules.ActionLimit, Rate: 1. / 3},
		`{"key": "/a", "rate": "30/m"}`:             {Key: "/a", Action: rules.ActionLimit, Rate: 0.5},
		`{"key": "/a", "action": "block", "reason": "` + strings.Repeat("r", 1024) + `", "author": "` +
			strings.Repeat("a", 256) + `"}`: {Key: "/a", Action: rules.ActionBlock, Reason: strings.Repeat("r", 1024),
			Author: strings.Repeat("a", 256)},
		`{"key": "/a", "action": "block", "reason": "on\/off \u00fc"}`: {Key: "/a", Action: rules.ActionBlock,
			Reason: "on/off ü"},
	} {
		in, err := readBody(body)
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if diff := cmp.Diff(want, in.override); diff != "" {
			t.Errorf("%s: %s", body, diff)
		}
		if told := strings.Contains(strings.Join(in.warnings, " "), want.Key); told != !strings.Contains(body,
			`"`+want.Key+`"`) {
			t.Errorf("%s: warnings %q", body, in.warnings)
		}
	}
}

// FuzzReadOverride states that any body is rejected with 400 or 413 and a remedy, or yields a canonical key.
func FuzzReadOverride(f *testing.F) {
	for _, seed := range []string{`{"key": "topic?b=2&a=1", "rate": 5, "for": "10m"}`,
		`{"key": "/%2f?;=+", "action": "block", "until": "2030-01-01T00:00:00Z"}`, `{"key":"a","key":1}`, `{`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		in, err := readBody(body)
		if err != nil {
			if p := web.AsProblem(err); p.Status != 400 && p.Status != 413 || p.Remedy == "" {
				t.Fatalf("%+v", p)
			}
			return
		}
		if in.override.IsPattern() {
			return
		}
		again, err := rules.CanonicalKey(in.override.Key)
		if err != nil || again != in.override.Key {
			t.Fatalf("%q is not canonical: %q, %v", in.override.Key, again, err)
		}
	})
}
