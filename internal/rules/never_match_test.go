package rules

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
)

const trackedParams = `
rules:
  - {name: login, match: {path: /login}, params: [header.X-Account, lang], hot: {rate: 1}}
  - {name: topic, match: {path: "/topic/{id}"}, params: [path.id, {name: tag, duplicates: all}], hot: {rate: 1}}
  - {name: all, match: {path: /all}, params: ["*"], hot: {rate: 1}}
  - {name: "*", params: [q], hot: {rate: 1}}
`

// Every key that a request has is canonical, so that the detector refuses none of them.
func TestMatch_GivesCanonicalKeys(t *testing.T) {
	t.Parallel()
	text := strings.ReplaceAll(trackedParams, "params: [q]", `params: ["*"]`) + "redact: {lang: %s, q: %[1]s}\n"
	bytes := rapid.SliceOfN(rapid.Byte(), 0, 12)
	for _, how := range []string{"hash", "mask", "drop"} {
		set, err := ParseWith("f.yaml", fmt.Appendf(nil, text, how), Options{Secret: []byte("a secret of sixteen bytes")})
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(t *rapid.T) {
			path := rapid.SampledFrom([]string{"/login", "/topic/5", "/all", "/", "/%zz", "/?", "", "*", "A", "h:80"}).
				Draw(t, "path")
			req := hottype.Request{Header: http.Header{"X-Account": {string(bytes.Draw(t, "account"))}},
				Target: path + string(bytes.Draw(t, "path")) + "?lang=" + string(bytes.Draw(t, "lang")) + "&tag=" +
					string(bytes.Draw(t, "tag")) + "&q=" + string(bytes.Draw(t, "q")) + "&" +
					string(bytes.Draw(t, "more"))}
			for _, m := range set.Match(&req, new(Scratch)) {
				if !canon.IsCanonical(hottype.Key(m.Key)) {
					t.Fatalf("%q has the key %q", req.Target, m.Key)
				}
			}
		})
	}
}

// An override of a key that some request has is accepted, and so is each pattern that matches the key.
func TestParse_AcceptsOverridesOfKeysThatRequestsHave(t *testing.T) {
	t.Parallel()
	set, err := Parse("f.yaml", []byte(trackedParams))
	if err != nil {
		t.Fatal(err)
	}
	value := rapid.StringMatching(`[a-z0-9%=&]{0,6}`)
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.SampledFrom([]string{"/login", "/topic/5", "/topic/a%2Fb", "/all", "/other/x", "/"}).
			Draw(t, "path")
		req := hottype.Request{Header: http.Header{"X-Account": {value.Draw(t, "account")}},
			Target: path + "?lang=" + value.Draw(t, "lang") + "&tag=a&tag=" + value.Draw(t, "tag") +
				"&q=" + value.Draw(t, "q")}
		for _, m := range set.Match(&req, new(Scratch)) {
			key := string(m.Key)
			for _, of := range []string{key, key + "*", key[:rapid.IntRange(0, len(key)).Draw(t, "length")] + "*"} {
				text := trackedParams + fmt.Sprintf("overrides: [{key: %q, action: block}]", of)
				if _, err := Parse("f.yaml", []byte(text)); err != nil {
					t.Fatalf("%s has the key %q: %v", req.Target, key, err)
				}
			}
		}
	})
}

// Trusting most clients is allowed, and warned of.
func TestParse_WarnsOfProxiesThatAreEveryClient(t *testing.T) {
	t.Parallel()
	for network, warned := range map[string]bool{
		"0.0.0.0/0": true, "::/0": true, "128.0.0.0/1": true, "10.0.0.0/8": false, "2001:db8::/32": false, "::1": false,
	} {
		set, err := Parse("f.yaml", fmt.Appendf(nil, "%sip: {trusted_proxies: [%q]}", trackedParams, network))
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Contains(strings.Join(set.Warnings, ""), ": ip.trusted_proxies[0]: "+network+" trusts nearly every client")
		if got != warned {
			t.Errorf("%s: warnings %q", network, set.Warnings)
		}
	}
}

// An override of a parameter that the rule names by its source is an error that says how keys name it.
func TestParse_NamesTheParameterThatAnOverrideMeans(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"login?X-Account=victim":        `"X-Account"; write "header.X-Account"`,
		"login?header.x-account=victim": `"header.x-account"; write "header.X-Account"`,
		"login?X-Account=*":             `write "header.X-Account"`,
		"topic?id=5":                    `write "path.id"`,
		"topic?tags=5":                  `did you mean "tag"?`,
		"/path?id=5":                    `rule "*" does not track`,
		"other?q=5":                     `there is no rule "other"`,
	} {
		_, err := Parse("f.yaml", fmt.Appendf(nil, "%soverrides: [{key: %q, action: block}]", trackedParams, key))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", key, err, want)
		}
	}
}
