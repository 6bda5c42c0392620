package live

import (
	"testing"

	"github.com/hotparam/pipeline/internal/rules"
)

// The text of a limit names all that it does to a request.
func TestLimitView_TextNamesAllEffects(t *testing.T) {
	t.Parallel()
	set, err := rules.Parse("view.yaml", []byte(`
rules:
  - {name: a, match: {path: /a}, params: [], hot: {rate: 1}, limit: {rate: 10, burst: 5, initial_tokens: 2, wait: 500ms, block: 1m, block_max: 1h}}
  - {name: b, match: {path: /b}, params: [], hot: {rate: 1}, limit: {algorithm: leaky_bucket, rate: 10, burst: 5, delay: 2, mode: shadow}}
  - {name: w, match: {path: /w}, params: [], hot: {rate: 1}, limit: {algorithm: warming_up, rate: 10, warm_up: 9s, wait: 1s}}
  - {name: c, match: {path: /c}, params: [], hot: {rate: 1}}
ip:
  fixed: {limit: 50, window: 1s, block: 10s}
  sliding: {limit: 99, window: 1m, consistency: async}
`))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		"10/s, burst 5, initial 2, wait 500ms, block 1m0s to 1h0m0s",
		"10/s, burst 2, wait 300ms (shadow)",
		"10/s, warm-up 9s, wait 1s",
	} {
		if got := (adaptiveBounds{}).viewLimit(set.Rules[i].Limit, "").Text; got != want {
			t.Errorf("rule %s: %q, want %q", set.Rules[i].Name, got, want)
		}
	}
	if v := (adaptiveBounds{}).viewLimit(set.Rules[3].Limit, ""); v != nil {
		t.Errorf("a rule that only detects: %+v", v)
	}
	for w, want := range map[*rules.ClientWindow]string{set.IP.Fixed: "50 in 1s, block 10s",
		set.IP.Sliding: "99 in 60s (async)"} {
		if got := viewWindow(w).Text; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
