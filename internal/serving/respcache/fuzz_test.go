package respcache

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Answers have sensible bounds for any fields of an upstream, and nothing is stored that the upstream forbids.
func FuzzNewAnswer(f *testing.F) {
	for _, seed := range [][4]string{
		{"max-age=5", "", "", ""},
		{"private", "*", "0", "0"},
		{`no-cache="a,b", max-age="5"`, "Accept-Encoding", "3, 3", "Thu, 01 Jan 2026 12:00:09 GMT"},
		{`x="\", max-age=9`, "accept-encoding,,X-Lang", "-1", "x"},
		{"s-maxage=99999999999999999999, stale-while-revalidate=99999999999999999999, stale-if-error=-1", "X-Other",
			"99999999999999999999", ""},
		{"MAX-AGE=1,,=,;no-store", "X-Lang\x00", "1.5", "Thu, 99 Jan 2026 12:00:09 GMT"},
		{"max-age = 5 , must-revalidate", " x-lang ", " 7", ""},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	serve := &hottype.CachePolicy{TTL: time.Second, Stale: 10 * time.Second, StaleIfError: time.Minute,
		Vary: []string{"Accept-Encoding", "X-Lang"}}
	f.Fuzz(func(t *testing.T, control, vary, age, expires string) {
		h := http.Header{"Etag": {`"1"`}} // so that stale answers are kept to be validated
		for name, value := range map[string]string{"Cache-Control": control, "Vary": vary, "Age": age,
			"Expires": expires} {
			if value != "" {
				h[name] = []string{value}
			}
		}
		a, why := storableAnswer(http.StatusOK, h, serve, now)
		if (a == nil) != (why != "") {
			t.Fatalf("%v, %q", a, why)
		}
		if a == nil {
			return
		}
		if isForbidden(control) || strings.Contains(vary, "*") {
			t.Errorf("kept although %q, %q", control, vary)
		}
		if a.fresh < 0 || a.stale < a.fresh && a.fresh > 0 || a.onError < a.stale || a.age < 0 ||
			a.fresh > maxSeconds*time.Second {
			t.Errorf("fresh %v, stale %v, error %v, age %v", a.fresh, a.stale, a.onError, a.age)
		}
		for _, name := range a.vary {
			if name != "Accept-Encoding" && name != "X-Lang" {
				t.Errorf("varies by %q", name)
			}
		}
	})
}

// isForbidden reports whether a response must not be stored, by a simpler parser without quotes.
func isForbidden(control string) bool {
	if strings.ContainsAny(control, `"\`) {
		return false
	}
	for d := range strings.SplitSeq(strings.ToLower(control), ",") {
		name, _, _ := strings.Cut(d, "=")
		if name = strings.Trim(name, " \t"); name == "no-store" || name == "private" {
			return true
		}
	}
	return false
}
