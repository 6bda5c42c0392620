package rules

import (
	"strings"
	"testing"
	"time"
)

const renamedRule = `rules:
  - name: topic
    params: [id]
    hot:
      rate: 5
      HOT
    limit:
      rate: 5
      LIMIT
`

func TestOldFieldNames(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ hot, limit, want string }{
		"cool": {"cool: 3s", "burst: 5",
			"hp.yaml:6: rules[0].hot.cool: is an old spelling and is still read; write cooldown"},
		"cool_ratio": {"cool_ratio: 0.5", "burst: 5", "write release_ratio"},
		"initial": {"window: 5s", "initial: 2",
			"hp.yaml:9: rules[0].limit.initial: is an old spelling and is still read; write initial_tokens"},
		"trial":          {"window: 5s", "trial: {rate: 3}", "write candidate"},
		"in a candidate": {"window: 5s", "candidate: {rate: 3, initial: 2}", "rules[0].limit.candidate.initial: "},
		"in a value": {"window: 5s", "values: [{key: 'topic?id=1', rate: 3, initial: 2}]",
			"rules[0].limit.values[0].initial: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, err := Parse("hp.yaml",
				[]byte(strings.NewReplacer("HOT", tt.hot, "LIMIT", tt.limit).Replace(renamedRule)))
			if err != nil || len(set.Warnings) != 1 || !strings.Contains(set.Warnings[0], tt.want) {
				t.Fatalf("%+v, %v, want one warning with %q", set, err, tt.want)
			}
		})
	}
	set, err := Parse("hp.yaml",
		[]byte(strings.NewReplacer("HOT", "cool: 3s", "LIMIT", "initial: 2").Replace(renamedRule)))
	if err != nil || set.Rules[0].Hot.Cooldown != 3*time.Second || set.Rules[0].Limit.Spec.InitialDeficit != 3 {
		t.Errorf("%+v, %v", set, err)
	}
}

func TestOldAndNewFieldNameAtOnce(t *testing.T) {
	t.Parallel()
	_, err := Parse("hp.yaml",
		[]byte(strings.NewReplacer("HOT", "cool: 3s\n      cooldown: 3s", "LIMIT", "burst: 5").Replace(renamedRule)))
	const want = "hp.yaml:7: rules[0].hot.cooldown: is the same field as rules[0].hot.cool in line 6; keep one"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
