package rules

import (
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

const priorityClasses = `
classes:
  - {name: member, match: {header: X-User, pattern: "."}}
  - {name: search, match: {header: User-Agent, pattern: bot}, verify: [googlebot.com]}
  - {name: partner, match: {networks: [192.0.2.0/24, "2001:db8::/32"]}}
  - {name: staff, granted: true}
  - {name: regular, pass_age: 1h}
  - {name: visitor, pass_age: 10s}
`

// priorityRule returns rules with one limit.
func priorityRule(limit string) string {
	return "ip: {trusted_proxies: [10.0.0.0/24]}\nrules: [{name: page, match: {path: \"/p/{x}\"}, params: [], hot: {rate: 50}, " +
		"limit: {" + limit + "}}]\n" + priorityClasses
}

func TestPriority_HasClassesInOrderAndABurst(t *testing.T) {
	t.Parallel()
	s := mustParse(t, priorityRule("rate: 85, burst: 24, priority: [member, search, partner, staff, regular, visitor]"))
	if got := strings.Join(s.Rules[0].Limit.Priority, " "); got != "member search partner staff regular visitor" {
		t.Errorf("priority %q", got)
	}
	if len(s.Warnings) > 0 {
		t.Errorf("warnings %q", s.Warnings)
	}
	for text, want := range map[string]int64{
		"rate: 85, priority: [member]":                           85,
		"rate: 5, priority: [member, visitor]":                   8,
		"algorithm: gcra, rate: 50, priority: [member, visitor]": 8,
		"adaptive: true, min: 1, max: 4, priority: [member]":     4,
		"adaptive: true, min: 1, max: 9, priority: [member]":     9,
	} {
		if got := mustParse(t, priorityRule(text)).Rules[0].Limit.Spec.Burst; got != want {
			t.Errorf("%s: burst %d, want %d", text, got, want)
		}
	}
	a := mustParse(t, priorityRule("adaptive: true, min: 1, max: 400, priority: [member, visitor]")).Rules[0].Limit.Adaptive
	if a.BurstAt(100) != 20 || a.BurstAt(10) != 8 {
		t.Errorf("bursts %d and %d", a.BurstAt(100), a.BurstAt(10))
	}
	if a = mustParse(t, priorityRule("adaptive: true, min: 1, max: 400, priority: [member, partner, search, visitor]")).Rules[0].
		Limit.Adaptive; a.BurstAt(100) != 40 {
		t.Errorf("burst %d with four classes", a.BurstAt(100))
	}
	value := mustParse(t, priorityRule("rate: 85, priority: [member], values: [{key: page, rate: 2}]")).Rules[0].Values[0]
	if value.Limit.Spec.Burst != 4 || !slices.Equal(value.Limit.Priority, []string{"member"}) {
		t.Errorf("value %+v", value.Limit)
	}
}

// Each limit with priority is refused with a message that says the remedy.
func TestPriority_RefusesOtherLimits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"rate: 9, priority: []":                                                 "limit.priority: is empty",
		"rate: 9, burst: 7, priority: [member, visitor]":                        "limit.burst: is 7, and each of the 2 classes in priority needs 4; write burst: 8",
		"rate: 9, priority: [membr]":                                            `there is no class "membr"; did you mean "member"?`,
		"rate: 9, priority: [member, member]":                                   "limit.priority[1]: member is set twice",
		"rate: 9, priority: [visitor, regular]":                                 "visitor has all clients of regular already",
		"rate: 9, wait: 1s, priority: [member]":                                 "leave out wait",
		"rate: 9, block: 1s, priority: [member]":                                "block denies the key to every class",
		"rate: 9, fair: true, priority: [member]":                               "evenly by its clients (fair) or by priority",
		"rate: 9, initial_tokens: 1, priority: [member]":                        "a bucket that starts full",
		"algorithm: leaky_bucket, rate: 9, priority: [member]":                  "algorithm token_bucket or gcra",
		"algorithm: sliding_window, limit: 9, window: 1s, priority: [member]":   "algorithm token_bucket or gcra",
		"rate: 9, priority: [member], values: [{key: page, rate: 2, burst: 2}]": "limit.values[0].burst: is 2",
	} {
		if _, err := Parse("f.yaml", []byte(priorityRule(text))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s", text, err, want)
		}
	}
}

func TestPriority_WarnsOfClassesThatDoNotCount(t *testing.T) {
	t.Parallel()
	text := strings.ReplaceAll(priorityRule("rate: 85, priority: [member, search, partner]"), "10.0.0.0/24", "")
	got := strings.Join(mustParse(t, text).Warnings, "\n")
	for _, want := range []string{"every client can write the header X-User, so member counts only in requests of trusted",
		"no limit has staff in its priority", "no limit has visitor in its priority"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	if n := strings.Count(got, "\n") + 1; n != 4 {
		t.Errorf("%d warnings: %s", n, got)
	}
}

func TestPriority_WarnsOfLoginPages(t *testing.T) {
	t.Parallel()
	for match, want := range map[string]string{`path: "/{rest...}"`: "/login is limited too", `path: "/users/{x}"`: "/users/login is limited",
		`path: "/blame/{rev}/{file}"`: "", `methods: [POST], hosts: [www.example.com], path: /login`: "/login is limited too"} {
		s := mustParse(t, strings.Replace(priorityRule("rate: 85, priority: [member, staff, regular, visitor]"), `path: "/p/{x}"`, match, 1))
		if got := strings.Join(s.Warnings, "\n"); want == "" != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: warnings %q, want %q", match, got, want)
		}
	}
}

func TestClass_RefusesWhatNobodyIsIn(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{name: a}": "match", "{name: a, match: {}}": "write header and pattern, or networks",
		"{name: a, match: {header: X}}": "pattern", "{name: a, match: {pattern: x}}": "header",
		"{name: a, match: {networks: [x]}}": `"x" is neither a network`, "{name: a, granted: false}": "match",
		"{name: a, pass_age: 1s, granted: true}":                            "not both",
		"{name: a, pass_age: 1s, ip: {fixed: {limit: 1, window: 1s}}}":      "a class with pass_age has only a name",
		"{name: a, granted: true, verify: [example.com]}":                   "a class with granted has only a name",
		"{name: a, pass_age: 500ms}":                                        "pass_age",
		"{name: a, pass_age: 1s}, {name: b, match: {networks: [10.0.0.1]}}": "classes with pass_age come last",
		"{name: a, pass_age: 1s}]\noverrides: [{class: a, action: block}":   "cannot have an override",
	} {
		_, err := Parse("f.yaml", []byte("rules: [{name: t, match: {path: /t}, params: [], hot: {rate: 5}}]\nclasses: ["+text+"]\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s", text, err, want)
		}
	}
}

func TestClassOf_KnowsNetworks(t *testing.T) {
	t.Parallel()
	s := mustParse(t, strings.Replace(priorityRule("rate: 85, priority: [member, partner]"), "classes:\n", `classes:
  - {name: both, match: {header: X-Key, pattern: "1", networks: [198.51.100.0/24]}}
`, 1))
	for _, c := range []struct {
		client, key, want string
		noFields          bool
	}{
		{client: "192.0.2.7", want: "partner"}, {client: "::ffff:192.0.2.7", want: "partner"},
		{client: "2001:db8::1", want: "partner"}, {client: "192.0.3.7"},
		{client: "198.51.100.1", key: "1", want: "both"}, {client: "198.51.100.1"}, {client: "192.0.3.7", key: "1"},
		{client: "192.0.2.7", want: "partner", noFields: true}, {client: "198.51.100.1", key: "1", noFields: true},
	} {
		req := &hottype.Request{Address: netip.MustParseAddr(c.client), Header: textproto.MIMEHeader{"X-Key": {c.key}}}
		if c.noFields {
			req.Header = nil
		}
		got := ""
		if class := s.ClassOf(req, nil); class != nil {
			got = class.Name
		}
		if got != c.want {
			t.Errorf("%+v is of class %q", c, got)
		}
	}
	if c := s.ClassOf(&hottype.Request{Header: textproto.MIMEHeader{}}, nil); c != nil {
		t.Errorf("an unknown client is of class %s", c.Name)
	}
}
