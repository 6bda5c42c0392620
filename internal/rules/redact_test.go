package rules

import (
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

const redactedRules = `
redact: {token: hash, "*mail*": mask, session: drop}
rules:
  - name: login
    match: {path: "/login/{who}"}
    params: [token, path.who, header.X-Mail, {name: user, fold: true, trim: true, redact: hash}, id]
    hot: {rate: 200}
    limit: {rate: 100, values: [{key: "login?token=SECRET", rate: 5}]}
  - name: "*"
    params: ["*", {name: Sid, redact: hash}]
    hot: {rate: 200}
overrides:
  - {key: "login?token=SECRET", action: exempt}
  - {key: "login?token=*", action: shadow}
`

func redactedSet(t *testing.T, secret string) *Set {
	t.Helper()
	set, err := ParseWith("rules.yaml", []byte(redactedRules), Options{Secret: []byte(secret)})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// header is a request's header of one field.
type header map[string]string

func (h header) Get(name string) string { return h[name] }
func (h header) Values(name string) []string {
	if text, has := h[name]; has {
		return []string{text}
	}
	return nil
}

func TestKeysAreRedacted(t *testing.T) {
	t.Parallel()
	set := redactedSet(t, "s3cret-of-the-test")
	var sc Scratch
	for target, want := range map[string]string{
		"/login/ann?token=SECRET&id=5":           "login?header.X-Mail=masked&id=5&path.who=ann&token=hash-",
		"/login/ann?user=%20SECRET":              "login?header.X-Mail=masked&path.who=ann&user=hash-",
		"/other?token=SECRET&q=1":                "/other?q=1&token=hash-",
		"/other?TOKEN=SECRET&SID=SECRET":         "/other?SID=hash-",
		"/other?Email[x]=SECRET&session=SECRET":  "/other?Email%5Bx%5D=masked",
		"/other?tok%65n%5B%5D=SECRET&sid=SECRET": "/other?sid=hash-",
	} {
		m := set.Match(&hottype.Request{Method: "GET", Target: target, Header: header{"X-Mail": "SECRET@example.com"}},
			&sc)
		if len(m) != 1 || !strings.HasPrefix(string(m[0].Key), want) ||
			strings.Contains(strings.ToUpper(string(m[0].Key)), "SECRET") {
			t.Errorf("%s: %s", target, m[0].Key)
		}
	}
	if !set.Redacts() || set.LacksSecret() {
		t.Error("the set does not know that it redacts")
	}
}

// A key that a person writes matches its requests with the plain value and with the redacted
// one.
func TestPeopleWriteTheValueOrItsHash(t *testing.T) {
	t.Parallel()
	set := redactedSet(t, "s3cret-of-the-test")
	var sc Scratch
	m := set.Match(&hottype.Request{Method: "GET", Target: "/login/ann?token=SECRET"}, &sc)
	key := string(m[0].Key) // login?path.who=ann&token=hash-…
	hash := key[strings.Index(key, "hash-"):]
	for typed, want := range map[string]string{
		"login?path.who=ann&token=SECRET":     key,
		"login?path.who=ann&token=" + hash:    key,
		"login?user=%20Ann":                   "login?user=" + stands(t, set, "user", "ann"),
		"login?id=SECRET":                     "login?id=SECRET",
		"/other?session=SECRET&token=" + hash: "/other?token=" + hash,
		"/other?session=SECRET":               "/other",
		"login?token=*":                       "login?token=*",
		"login?id=9*&token=SECRET":            "login?id=9*&token=" + hash,
		"login":                               "login",
		"login?!malformed":                    "login?!malformed",
		"/a/*":                                "/a/*",
		"*?token=*":                           "*?token=*",
		"*?token=SECRET":                      "*?token=" + hash,
	} {
		if got, err := set.RedactKey(typed); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", typed, got, err, want)
		}
	}
	for _, tells := range []string{"login?token=SEC*", "/x?email=*SECRET", "login?to*=SECRET", "login?*SECRET*",
		"*?token=SEC*"} {
		if got, err := set.RedactKey(tells); err == nil || strings.Contains(err.Error(), "SEC") {
			t.Errorf("%s: %s, %v", tells, got, err)
		}
	}
	for _, o := range set.Overrides {
		if strings.Contains(strings.ToUpper(o.ID+o.Key), "SECRET") {
			t.Errorf("%+v", o)
		}
	}
	if set.Overrides[0].Key != "login?token="+hash || set.Rules[0].Values[0].Key != hottype.Key("login?token="+hash) ||
		set.Rules[0].LimitFor(set.Rules[0].Values[0].Key).Spec.Limit != 5 {
		t.Errorf("%+v %+v", set.Overrides[0], set.Rules[0].Values)
	}
}

// stands returns the redacted form of a value in a key of login.
func stands(t *testing.T, set *Set, name, text string) string {
	t.Helper()
	key, err := set.RedactKey("login?" + name + "=" + text)
	if err != nil {
		t.Fatal(err)
	}
	_, out, _ := strings.Cut(key, "=")
	return out
}

// The same secret makes the same keys, so that counts of several processes join.
func TestHashesJoinBySecret(t *testing.T) {
	t.Parallel()
	one, two, other, none := redactedSet(t, "s3cret-of-the-test"), redactedSet(t, "s3cret-of-the-test"),
		redactedSet(t, "another-s3cret-of-it"), redactedSet(t, "")
	if a, b, c := stands(t, one, "token", "x"), stands(t, two, "token", "x"), stands(t, other, "token", "x"); a != b ||
		a == c || a == stands(t, one, "token", "y") {
		t.Errorf("%s %s %s", a, b, c)
	}
	if got := stands(t, none, "token", "SECRET"); got != "masked" || !none.LacksSecret() || len(none.Warnings) == 0 {
		t.Errorf("without a secret: %s", got)
	}
}

func TestParse_RejectsWrongRedactions(t *testing.T) {
	t.Parallel()
	const rest = "\nrules: [{name: login, params: [id], hot: {rate: 200}}]\n"
	for text, want := range map[string]string{
		"redact: [token]" + rest:         "must be a mapping",
		"redact: {token: hide}" + rest:   "redact.token: \"hide\" is not one of hash, mask, drop",
		"redact: {token: [hash]}" + rest: "redact.token",
		"rules: [{name: a, params: [{name: id, redact: hashed}], hot: {rate: 1}}]":        "is not one of hash, mask, drop",
		"rules: [{name: a, params: [{name: \"*\", redact: drop}], hot: {rate: 1}}]":       "leave it out of params",
		"redact: {id: hash}\noverrides: [{key: \"login?id=SEC*\", action: block}]" + rest: "tells part of its value",
	} {
		_, err := Parse("rules.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
