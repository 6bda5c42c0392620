package rules

import (
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// The recorded target of a request has no value that its keys do not show.
func TestRedactTarget_HidesRedactedValues(t *testing.T) {
	t.Parallel()
	set, err := ParseWith("rules.yaml", []byte(`
redact: {token: hash, "*mail*": mask, session: drop, who: mask}
rules:
  - {name: all, match: {path: "/p/"}, params: [], hot: {rate: 1}, continue: true}
  - {name: php, match: {path: "/p/{rest...}"}, parse_as: nginx-fpm-php, hot: {rate: 1},
     params: [{name: own_name, redact: mask}]}
  - {name: login, match: {path: "/login/{who}/in"}, params: [token], hot: {rate: 1}}
  - {name: item, match: {path: "/item/{id}/{$}"}, params: [{name: path.id, redact: hash}], hot: {rate: 1}}
  - {name: free, match: {path: "/free/{name}"}, params: [path.name], hot: {rate: 1}}
  - {name: stars, match: {path: /stars}, params: [{name: "*", redact: hash}], hot: {rate: 1}}
`), Options{Secret: []byte("s3cret-of-the-test")})
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]string{
		"/x?b=1&token=SECRET&a=2":               "/x?a=2&b=1&token=hash-",
		"/x?TO%6bEN[]=SECRET&session=SECRET":    "/x?TOkEN%5B%5D=hash-",
		"/x?x-mail=SECRET":                      "/x?x-mail=masked",
		"/x":                                    "/x",
		"http://h/x?token=SECRET":               "/x?token=hash-",
		"/p/a?own.name=SECRET":                  "/p/a?own_name=masked",
		"/login/SECRET/in?token=SECRET&id=5":    "/login/masked/in?id=5&token=hash-",
		"/item/SECRET/?id=5":                    "/item/masked/?id=5",
		"/free/open":                            "/free/open",
		"/stars?a=SECRET&b=SECRET":              "/stars?a=hash-",
		"/x?token=" + strings.Repeat("a", 9000): "/x",
		"/x?token=" + strings.Repeat("a", 300):  "/x",
	} {
		got := set.RedactTarget(&hottype.Request{Method: "GET", Target: target})
		if !strings.HasPrefix(got, want) || strings.Contains(strings.ToUpper(got), "SECRET") ||
			!strings.HasSuffix(want, "-") && got != want {
			t.Errorf("%.60s: %.100s, want %s", target, got, want)
		}
	}
	if raw := "/x?b=%61&a"; Default().RedactTarget(&hottype.Request{Target: raw}) != raw {
		t.Error("a set that redacts nothing changes targets")
	}
}
