package rules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

func parseServe(serve string) (*hottype.CachePolicy, error) {
	set, err := rules.Parse("r.yaml", []byte("rules:\n  - {name: topic, params: [id], hot: {rate: 1}, cache: "+serve+
		"}\n"))
	if err != nil {
		return nil, err
	}
	return set.Rules[0].Cache, nil
}

func TestParse_ReadsCachePolicies(t *testing.T) {
	t.Parallel()
	got, err := parseServe(
		"{ttl: 0s, stale: 1m, stale_if_error: 0s, vary: [x-lang, accept-encoding], cookies: strip, max_body: 64KiB, wait: 0s}")
	want := &hottype.CachePolicy{
		Stale: time.Minute, Vary: []string{"Accept-Encoding", "X-Lang"}, StripCookies: true, MaxBody: 64 << 10,
	}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v, %v", err, cmp.Diff(want, got))
	}
	if got, err = parseServe("{}"); err != nil || !cmp.Equal(got, rules.DefaultCache()) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestParse_RejectsBadCachePolicies(t *testing.T) {
	t.Parallel()
	for serve, want := range map[string]string{
		"{ttl: -1s}":              "cache.ttl: -1s is not between 0s and 24h0m0s",
		"{stale: 25h}":            "cache.stale: 25h is not between",
		"{wait: 2m}":              "cache.wait: 2m is not between 0s and 1m0s",
		"{ttl: 1us}":              "in steps of 1ms",
		"{max_body: 0}":           "cache.max_body: \"0\" is not between 1 and 1073741824 bytes",
		"{max_body: 9999999GiB}":  "is not between",
		"{max_body: 1.5MiB}":      "is not between",
		"{vary: ['*']}":           "is not a field",
		"{vary: [cookie]}":        "answers that differ by Cookie are private",
		"{vary: [authorization]}": "answers that differ by Authorization are private",
		"{vary: [A, a]}":          "A is set twice",
		"{vary: ['a b']}":         "cannot be used; write up to 64 characters of the name of a header",
		"{cookies: allow}":        "is not one of deny, strip",
		"{time: 1s}":              "unknown field",
	} {
		if _, err := parseServe(serve); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", serve, err, want)
		}
	}
}
