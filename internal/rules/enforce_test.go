package rules

import (
	"strings"
	"testing"
)

// The mode changes and nothing else of what a person wrote.
func TestEnforceLimit_ChangesOneWord(t *testing.T) {
	t.Parallel()
	const text = `# ours
rules:
  - name: other
    match: {path: /other}
    limit: {rate: 5, mode: shadow}   # stays
  - {name: "topic", match: {path: /größe}, params: [id], hot: {rate: 9}, limit: {rate: 3, mode: 'shadow', burst: 4}}
  - name: block
    match: {path: /block}
    limit:
      rate: 5   # a try
      mode: shadow # until Monday
`
	for rule, want := range map[string]string{
		"topic": strings.Replace(text, "'shadow'", "'enforce'", 1),
		"block": strings.Replace(text, "mode: shadow # until", "mode: enforce # until", 1),
		"other": strings.Replace(text, "mode: shadow}   # stays", "mode: enforce}   # stays", 1),
	} {
		if got, err := EnforceLimit(text, rule); err != nil || got != want {
			t.Errorf("%s: %v\n%s", rule, err, got)
		}
	}
	for what, bad := range map[string]string{
		"there is no rule":                  "rules: [{name: other, limit: {mode: shadow}}]",
		"does not say mode: shadow itself":  "rules: [{name: topic, limit: {mode: enforce}}]",
		"does not say mode: shadow itself ": "x: &l {mode: shadow}\nrules: [{name: topic, limit: *l}]",
		"there is no rule ":                 "",
		"there is no rule  ":                "rules: 7",
		"yaml":                              "rules: [",
	} {
		got, err := EnforceLimit(bad, "topic")
		if err == nil || !strings.Contains(err.Error(), strings.TrimSpace(what)) {
			t.Errorf("%q: %q, %v", bad, got, err)
		}
	}
}
