package envoy

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/internal/conf"
	"github.com/hotparam/pipeline/internal/deciding/gate"
)

// The configurations are our own, and follow the documentation of envoyproxy/ratelimit for each part. Limits are by the
// day, so that no test meets the end of a window.
const configured = `
domain: shop
descriptors:
  - {key: database, value: users, rate_limit: {unit: day, requests_per_unit: 3}}
  - {key: database, value: orders, rate_limit: {unit: day, requests_per_unit: 2}}
  - key: message
    value: advert
    descriptors:
      - {key: number, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: number, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: remote_address, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: remote_address, value: 192.0.2.66, rate_limit: {unit: day, requests_per_unit: 0}}
  - {key: ldap, rate_limit: {unlimited: true}}
  - key: service
    descriptors:
      - {key: user, value: ann, shadow_mode: true, detailed_metric: true, rate_limit: {unit: day, requests_per_unit: 1}}
      - {key: user, value: bob, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: read, rate_limit: {name: reads, unit: day, requests_per_unit: 1}}
  - {key: special, rate_limit: {replaces: [{name: reads}], unit: day, requests_per_unit: 2}}
  - {key: path, value: /api/*/do, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: file, value: doc*, share_threshold: true, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: file, value: img*, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: file, rate_limit: {unit: day, requests_per_unit: 3}}
`

// reference is a list of calls with their responses according to the documentation. "x3" repeats a call. A descriptor
// is written k=v,k=v, and several are separated by a blank.
var reference = []struct {
	name, call string
	times      int
	want       string // codes of the last call
}{
	{"exact value, within", "database=users", 3, "ok"},
	{"exact value, over", "database=users", 4, "over"},
	{"values count apart", "database=users database=orders", 2, "ok ok"},
	{"unknown value without a default passes", "database=logs", 9, "ok"},
	{"unknown key passes", "cache=users", 9, "ok"},
	{"key alone is a limit for each value", "number=1", 3, "over"},
	{"another value", "number=2", 2, "ok"},
	{"nested", "message=advert,number=1", 2, "over"},
	{"nested, another number", "message=advert,number=2", 1, "ok"},
	{"order matters", "number=1,message=advert", 9, "ok"},
	{"depth: too few entries", "message=advert", 9, "ok"},
	{"depth: too many entries", "database=users,number=1", 9, "ok"},
	{"all that match limit", "message=advert,number=5 number=5", 2, "over ok"},
	{"specific value before the key", "remote_address=192.0.2.66", 1, "over"},
	{"any other value", "remote_address=192.0.2.1", 2, "ok"},
	{"unlimited", "ldap=x", 9, "ok"},
	{"shadow", "service=a,user=ann", 9, "ok"},
	{"beside shadow", "service=a,user=bob", 2, "over"},
	{"under another service", "service=b,user=bob", 1, "ok"},
	{"named limit", "read=a", 2, "over"},
	{"replaced", "read=b special=b", 2, "ok ok"},
	{"replaced, but its own limit holds", "read=c special=c", 3, "ok over"},
	{"star inside", "path=/api/7/do", 2, "over"},
	{"star does not match", "path=/api/7/done", 9, "ok"},
	{"shared by what matches", "file=doc1 file=doc2 file=doc3", 1, "ok ok over"},
	{"not shared", "file=img1 file=img2", 1, "ok ok"},
	{"no pattern matches: the key alone", "file=x", 4, "over"},
	{"case matters", "database=Users", 9, "ok"},
}

func TestLimits_DecideTheReferenceConfiguration(t *testing.T) {
	t.Parallel()
	for _, tc := range reference {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, conn := serve(t, Config{Gate: gate.New(gate.Config{})})
			s.SetLimits(parse(t, configured))
			var descriptors [][]string
			for _, d := range strings.Fields(tc.call) {
				descriptors = append(descriptors, regexp.MustCompile(`[,=]`).Split(d, -1))
			}
			client := ratelimitv3.NewRateLimitServiceClient(conn)
			var out *ratelimitv3.RateLimitResponse
			for range tc.times {
				var err error
				if out, err = client.ShouldRateLimit(t.Context(), callOf(descriptors)); err != nil {
					t.Fatal(err)
				}
			}
			if got := codesOf(out); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

func parse(t *testing.T, text string) *Limits {
	t.Helper()
	limits, err := ParseLimits([]File{{"shop.yaml", []byte(text)}})
	if err != nil {
		t.Fatal(err)
	}
	return limits
}

func callOf(descriptors [][]string) *ratelimitv3.RateLimitRequest {
	in := &ratelimitv3.RateLimitRequest{Domain: "shop"}
	for _, pairs := range descriptors {
		d := &commonv3.RateLimitDescriptor{}
		for i := 0; i < len(pairs); i += 2 {
			d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
		}
		in.Descriptors = append(in.Descriptors, d)
	}
	return in
}

func codesOf(out *ratelimitv3.RateLimitResponse) string {
	var got []string
	for _, st := range out.Statuses {
		got = append(got, map[ratelimitv3.RateLimitResponse_Code]string{
			ratelimitv3.RateLimitResponse_OK: "ok", ratelimitv3.RateLimitResponse_OVER_LIMIT: "over",
		}[st.Code])
	}
	return strings.Join(got, " ")
}

// A descriptor's own limit goes before what files say, and hits_addend is its cost.
func TestOwnLimit_GoesBeforeFilesAndCostsHits(t *testing.T) {
	t.Parallel()
	s, conn := serve(t, Config{Gate: gate.New(gate.Config{})})
	s.SetLimits(parse(t, configured))
	client := ratelimitv3.NewRateLimitServiceClient(conn)
	in := callOf([][]string{{"database", "users"}})
	in.Descriptors[0].Limit = &commonv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 10,
		Unit: typev3.RateLimitUnit_DAY}
	in.HitsAddend = 4
	for i, want := range []string{"ok", "ok", "over"} {
		out, err := client.ShouldRateLimit(t.Context(), in)
		if err != nil || codesOf(out) != want {
			t.Fatalf("call %d: %s %v, want %s", i, codesOf(out), err, want)
		}
		limit := out.Statuses[0].CurrentLimit
		if limit.GetRequestsPerUnit() != 10 || limit.GetUnit() != ratelimitv3.RateLimitResponse_RateLimit_DAY {
			t.Errorf("limit %v", limit)
		}
	}
}

// An own limit whose unit means nothing takes no other limit away.
func TestOwnLimit_IsIgnoredWithoutAKnownUnit(t *testing.T) {
	t.Parallel()
	limits := parse(t, configured)
	d := descriptorOf("remote_address", "192.0.2.66")
	for _, d.own = range []*ownLimit{nil, {requests: 9}, {requests: 9, unit: 99}} {
		got := limits.resolve(&rateLimitRequest{domain: "shop", descriptors: []descriptor{*d}})[0]
		if got.descriptorLimit == nil || got.limit == nil || got.subject != "shop|remote_address=192.0.2.66" {
			t.Errorf("%+v: %+v", d.own, got)
		}
	}
}

func TestParseLimits_RejectsWrongFiles(t *testing.T) {
	t.Parallel()
	const of = "domain: a\ndescriptors:\n  - {key: b, rate_limit: "
	for text, want := range map[string]string{
		"":                                      "domain: is missing",
		"descriptors: []":                       "domain: is missing",
		"domain: a\nrules: []":                  ":2: rules: unknown field",
		"domain: a\ndescriptor: []":             `:2: descriptor: unknown field; did you mean "descriptors"?`,
		"domain: a\ndescriptors:\n  - value: b": ":3: descriptors[0].key: is missing",
		"domain: a\n---\ndomain: b":             ":2: has a second document",
		"apiVersion: v1\ndomain: a":             ":1: apiVersion: unknown field",
		"domain: a\ndescriptors:\n  - {key: b, limit: 3}":                           ":3: descriptors[0].limit: unknown field",
		"domain: a\ndescriptors:\n  - {key: b, quota_mode: true}":                   ":3: descriptors[0].quota_mode: is not supported",
		"domain: a\ndescriptors:\n  - {key: b, rateLimit: {unit: day}}":             `rateLimit: unknown field; did you mean "rate_limit"?`,
		"domain: a\ndescriptors:\n  - {key: b, share_threshold: true}":              "needs a value with a star",
		"domain: a\ndescriptors:\n  - {key: b}\n  - {key: b}":                       ":4: descriptors[1]: a.b is there twice",
		"domain: a\ndescriptors:\n  - {key: b, value: c*}\n  - {key: b, value: c*}": "a.b_c* is there twice",
		"domain: a\ndescriptors:\n  - key: b\n    descriptors:\n      - {key: c, value: d}\n      - {key: c, value: d}": ":6: " +
			"descriptors[0].descriptors[1]: a.b.c_d is there twice",
		of + "{unit: fortnight, requests_per_unit: 1}}":                 `unit: "fortnight" must be one of second, minute`,
		of + "{unit: day, requests_per_unit: -1}}":                      ":3: descriptors[0].rate_limit.requests_per_unit: -1 is not a whole number",
		of + "{unit: day, requests_per_unit: 4294967296}}":              "4294967296 is not a whole number",
		of + "{unit: day}}":                                             ":3: descriptors[0].rate_limit.requests_per_unit: is missing",
		of + "{requests_per_unit: 5}}":                                  ":3: descriptors[0].rate_limit.unit: is missing",
		of + "{unit: day, request_per_unit: 5}}":                        `request_per_unit: unknown field; did you mean "requests_per_unit"?`,
		of + "{unit: day, requestsPerUnit: 5}}":                         `requestsPerUnit: unknown field; did you mean "requests_per_unit"?`,
		of + "{unlimted: true, unit: day}}":                             `unlimted: unknown field; did you mean "unlimited"?`,
		of + "{unit: day, requests_per_unit: 5, unit_multiplier: 0}}":   "unit_multiplier: 0 is not a whole number between 1",
		of + "{unit: day, requests_per_unit: 5, unit_multiplier: 366}}": "unit_multiplier: 366 days are longer than a year",
		of + "{unlimited: true, unit: day}}":                            "unit: is set beside unlimited",
		of + "{name: x, replaces: [{name: x}], unlimited: true}}":       "replaces[0]: names no other limit",
		of + "{replaces: [{nam: x}], unlimited: true}}":                 `nam: unknown field; did you mean "name"?`,
		"domain: a\ndescriptors: &x\n  - {key: b, descriptors: *x}":     "is nested too deeply, or aliases",
	} {
		_, err := ParseLimits([]File{{"limits.yaml", []byte(text)}})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "limits.yaml:") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	twice := []File{{"one.yaml", []byte("domain: a")}, {"two.yaml", []byte("domain: a")}}
	if _, err := ParseLimits(twice); err == nil ||
		!strings.Contains(err.Error(), `two.yaml:1: domain: "a" is in another file`) {
		t.Error(err)
	}
}

// ParseLimits reads what envoyproxy/ratelimit reads: values that are no strings in YAML, and aliases; and a window is
// as many units as unit_multiplier says.
func TestParseLimits_ReadsAsEnvoyproxyDoes(t *testing.T) {
	t.Parallel()
	l := parse(t, "domain: 7\ndescriptors:\n  - &b {key: b, value: 1.10, rate_limit: &r {unit: Minute, "+
		"unit_multiplier: 5, requests_per_unit: 3}}\n  - {key: c, value: true, rate_limit: *r, descriptors: [*b]}")
	for _, d := range []*descriptor{descriptorOf("b", "1.10"), descriptorOf("c", "true"),
		descriptorOf("c", "true", "b", "1.10")} {
		found, _ := l.find("7", d)
		if found == nil {
			t.Errorf("%v has no limit", d.entries)
			continue
		}
		v := gate.New(gate.Config{}).TakeLimit(t.Context(), time.Now(), found.limit, "x", 1)
		if v.Limit != 3 || v.Window != 5*time.Minute {
			t.Errorf("%v: %+v", d.entries, v)
		}
	}
}

// Patterns match the same texts as the equivalent regular expressions.
func TestPattern_MatchesLikeItsRegexp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		glob := rapid.StringMatching(`[ab*]*\*[ab*]*`).Draw(t, "pattern")
		n := &node{}
		n.add(conf.Value{}, "", &descriptorYAML{Key: "k", Value: text(glob)})
		value := rapid.StringMatching(`[ab]*`).Draw(t, "value")
		re := regexp.MustCompile(`^` + strings.ReplaceAll(glob, "*", ".*") + `$`)
		to, _ := n.next(entry{"k", value})
		if got, want := to != nil, re.MatchString(value); got != want {
			t.Fatalf("%q matches %q: %v", glob, value, got)
		}
	})
}

// Different descriptors are kept apart.
func TestSubjectOf_KeepsDescriptorsApart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) *descriptor {
			d := &descriptor{}
			for i := range rapid.IntRange(1, 3).Draw(t, name) {
				d.entries = append(d.entries, entry{
					rapid.StringMatching(`[a=|%]{0,3}`).Draw(t, fmt.Sprint("key ", i)),
					rapid.StringMatching(`[a=|%]{0,3}`).Draw(t, fmt.Sprint("value ", i)),
				})
			}
			return d
		}
		a, b := draw("a"), draw("b")
		if same := fmt.Sprint(a.entries) == fmt.Sprint(b.entries); (subjectOf("d", a) == subjectOf("d", b)) != same {
			t.Fatalf("%q and %q", subjectOf("d", a), subjectOf("d", b))
		}
	})
}

func FuzzParseLimits(f *testing.F) {
	f.Add([]byte(configured))
	f.Add([]byte("domain: a\ndescriptors: [{key: b, value: '*', descriptors: [{key: c}]}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := ParseLimits([]File{{"f.yaml", data}})
		if err != nil {
			return
		}
		for domain := range l.domains {
			l.find(domain, descriptorOf("b", "x", "c", "y"))
		}
	})
}
