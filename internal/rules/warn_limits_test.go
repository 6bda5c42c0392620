package rules

import (
	"strings"
	"testing"
)

// TestRules_WarnOfLimitsThatDoNotLimit: a limit above the rate that makes a key hot, and min_clients without a limit of
// clients, are legal and mostly not meant.
func TestRules_WarnOfLimitsThatDoNotLimit(t *testing.T) {
	t.Parallel()
	const above, nobody = "more than makes a key hot (hot.rate 20/s)", "no ip or class limits its clients"
	const ip = "\nip: {fixed: {limit: 50, window: 1s}}"
	const class = "\nclasses: [{name: bot, match: {header: User-Agent, pattern: bot}, ip: {fixed: {limit: 5, window: 1s}}}]"
	for text, want := range map[string]string{
		"hot: {rate: 20}, limit: {rate: 100}": above, "hot: {rate: 20}, limit: {rate: 20}": "",
		"hot: {rate: 20}, limit: {rate: 100, mode: shadow}": "", "hot: {share: 0.05, min_rate: 5}, limit: {rate: 100}": "",
		"hot: {rate: 20}, limit: {adaptive: true, min: 5, max: 500}": "", "hot: {rate: 20}": "",
		"hot: {rate: 20, min_clients: 5}": nobody, "hot: {rate: 20, min_clients: 5}" + ip: "",
		"hot: {rate: 20, min_clients: 5}" + class: "",
		// A second of time is not one request.
		"cost: time, hot: {rate: 500ms}, limit: {algorithm: in_flight, limit: 5}": "",
		"cost: time, hot: {rate: 500ms}, limit: {rate: 500ms}":                    "",
		"cost: time, hot: {rate: 500ms}, limit: {rate: 600ms}":                    "more than makes a key hot (hot.rate 0.5 s/s)",
	} {
		body, rest, _ := strings.Cut(text, "\n")
		s := mustParse(t, "rules: [{name: topic, match: {path: /topic}, params: [id], "+body+"}]\n"+rest)
		all := strings.Join(s.Warnings, "; ")
		warns := strings.Contains(all, "hot.rate") || strings.Contains(all, nobody)
		if !strings.Contains(all, want) || want == "" && warns {
			t.Errorf("%s: %q", text, all)
		}
	}
}
