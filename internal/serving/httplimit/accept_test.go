package httplimit

import (
	"strings"
	"testing"
)

func TestBodyFor_FollowsAccept(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]bodyKind{
		"":                                 bodyProblem,
		"*/*":                              bodyProblem,
		"application/json":                 bodyProblem,
		"application/problem+json;q=0.1":   bodyProblem,
		"text/html":                        bodyHTML,
		"TEXT/HTML ; charset=utf-8":        bodyHTML,
		"text/plain":                       bodyText,
		"text/*":                           bodyHTML,
		"image/png, text/*;q=0.3":          bodyHTML,
		"image/png":                        bodyProblem, // none fits
		"text/html;q=0, */*;q=0":           bodyProblem,
		"*/*, text/html;q=0":               bodyProblem,
		"text/*, text/html;q=0":            bodyText,
		"text/html, application/json":      bodyProblem, // equally liked
		"text/html, */*;q=0.8":             bodyHTML,
		"*/*;q=0.8, text/plain":            bodyText,
		"text/html;q=0.2, text/plain;q=.9": bodyHTML, // no quality
		"text/html;q=0.001":                bodyHTML,
		"text/html;q=1.001":                bodyProblem,
		"text/html;q=2":                    bodyProblem,
		"text/html;q=0.1234":               bodyProblem,
		"text/html;Q=0.5, application/json;q=0.499": bodyHTML,
		`text/plain;x="a,b;q=0";q=0.9, */*;q=0.1`:   bodyText,
		`text/html;x="\",", */*;q=0.5`:              bodyHTML,
		`text/html;x="`:                             bodyHTML,
		",, ;q=1,text/plain":                        bodyText,
		"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8": bodyHTML, // browsers
		"text/html, text/plain, text/sgml, */*;q=0.01":                                          bodyHTML, // lynx
		"application/json, text/plain, */*":                                                     bodyProblem,
	} {
		if got := bodyFor(accept); got != want {
			t.Errorf("%q: %d, want %d", accept, got, want)
		}
	}
}

// An attacker's field costs time in proportion to its length, and no memory.
func FuzzBodyFor(f *testing.F) {
	f.Add("text/html;q=0.5, */*")
	f.Add(strings.Repeat(`;",\`, 50))
	f.Fuzz(func(t *testing.T, accept string) {
		if k := bodyFor(accept); k < bodyProblem || k > bodyText {
			t.Errorf("%q: %d", accept, k)
		}
		if n := testing.AllocsPerRun(1, func() { bodyFor(accept) }); n != 0 {
			t.Errorf("%q: %v allocations", accept, n)
		}
	})
}
