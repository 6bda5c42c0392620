package rules

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/report"
)

func usedSet(t *testing.T, params string) *Set {
	t.Helper()
	set, err := Parse("test.yaml", []byte(`rules: [{name: topic, match: {path: /topic}, params: `+params+
		`, hot: {rate: 10}}, {name: "*", params: [], hot: {rate: 10}}]`))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// A key without parameters is withheld while no request of its rule had one of the named parameters within an hour, and
// never for rules that intend such a key.
func TestUses_WithholdsTheKeyWithoutParameters(t *testing.T) {
	t.Parallel()
	const now = 100_000
	for _, c := range []struct {
		params, had, key string
		age              int64
		want             bool
	}{
		{"[topic_id]", "topic", "topic", 0, true},
		{"[topic_id]", "topic?!malformed", "topic", 0, true},
		{"[topic_id]", "topic?id=1", "topic", 0, true}, // of a process that has other rules
		{"[topic_id]", "topic?topic_idx=1", "topic", 0, true},
		{"[topic_id]", "topic?topic_id=1", "topic", 0, false},
		{"[topic_id]", "topic?topic_id=1", "topic", 3599, false},
		{"[topic_id]", "topic?topic_id=1", "topic", 3600, true},
		{"[a, topic_id]", "topic?topic_id=", "topic", 0, false},
		{`["t é"]`, "topic?t%20%C3%A9=1", "topic", 0, false},
		{"[topic_id]", "topic", "topic?topic_id=1", 0, false},
		{"[topic_id]", "topic", "topic?!malformed", 0, false},
		{"[topic_id]", "topic", "!hp1:topic.Ze", 0, true},
		{"[topic_id]", "topic", "!hp1:topic.topic__id=Zh00", 0, false},
		{"[topic_id]", "!hp1:topic.topic__id=Zh00", "topic", 0, false},
		{"[]", "topic", "topic", 0, false},
		{`["*"]`, "topic", "topic", 0, false},
		{`[{name: topic_id, redact: drop}]`, "topic", "topic", 0, false},
	} {
		us := NewUses(usedSet(t, c.params), nil)
		us.RecordKey(0, now, hottype.Key(c.had))
		if got := us.Withholds(0, now+c.age, hottype.Key(c.key)); got != c.want {
			t.Errorf("%s: after %s, %d s later, %s is withheld: %v", c.params, c.had, c.age, c.key, got)
		}
	}
}

// The use of a rule is kept while the rule has its parameters, also the use by other processes, and is removed with
// them.
func TestUses_KeepsWhatIsKnownOfTheSameRule(t *testing.T) {
	t.Parallel()
	us := NewUses(usedSet(t, "[id]"), nil)
	us.Begin(40)
	us.RecordKey(0, 50, "topic?id=1")
	same, other := NewUses(usedSet(t, "[id]"), us), NewUses(usedSet(t, "[topic_id]"), us)
	if same.Withholds(0, 60, "topic") || !other.Withholds(0, 60, "topic") {
		t.Errorf("the same rule %+v, another one %+v", same.List(), other.List())
	}
	for _, u := range []*Uses{NewUses(usedSet(t, "[id]"), nil), other} {
		u.Begin(90)
		u.Merge(90_000, us.List())
	}
	heard := NewUses(usedSet(t, "[id]"), nil)
	heard.Begin(90)
	heard.Merge(60, append(us.List(), report.RuleUse{Rule: "topic", Params: "id", WithParams: 1 << 40}))
	want := report.RuleUse{Rule: "topic", Params: "id", Since: 40, Matched: 50, WithParams: 60}
	if got := heard.List()[0]; !cmp.Equal(got, want) {
		t.Errorf("heard of others: %s", cmp.Diff(want, got))
	}
	if got := other.List()[0]; got.WithParams != 0 || got.Since != 90 {
		t.Errorf("a rule with other parameters heard %+v", got)
	}
	heard.RecordKey(0, 30, "topic?id=1") // the clock went back
	if got := heard.List()[0]; got.WithParams != 30 || got.Matched != 30 {
		t.Errorf("after the clock went back %+v", got)
	}
}

// Clients choose names: few are kept, frequent names stay, and each can be shown anywhere.
func TestUses_ClientsChooseNames(t *testing.T) {
	t.Parallel()
	us := NewUses(usedSet(t, "[topic_id]"), nil)
	second := int64(100_000)
	for i := range 20_000 {
		if i%20 == 0 {
			second++
		}
		us.Record(0, second, []byte("topic"), "/topic?id=1")
		us.Record(0, second, []byte("topic"), fmt.Sprintf("/topic?x%d=1&se%%63ret&token&<b>=1&\x1b[31m=2&%s=3", i,
			strings.Repeat("n", 33)))
	}
	names := us.List()[0].Names
	if len(names) > maxSeenNames || names[0].Name != "id" {
		t.Errorf("seen %v", names)
	}
	for _, n := range names {
		if n.Name != "id" && !strings.HasPrefix(n.Name, "x") {
			t.Errorf("%q is shown", n.Name)
		}
	}
	us.Record(0, second, []byte("topic?topic_id=1"), "/topic?topic_id=1")
	before := us.List()[0].Names
	us.Record(0, second, []byte("topic"), "/topic?late=1")
	if !cmp.Equal(before, us.List()[0].Names) {
		t.Error("names are taken although the rule's own parameter exists")
	}
}

// A note names the parameter that no request had and the names that requests had, and reports a rule without requests,
// by the uses of all processes together.
func TestUseNotes_NameRulesThatCannotWork(t *testing.T) {
	t.Parallel()
	set := usedSet(t, "[topic_id]")
	now := time.Unix(100_000, 0)
	hour := now.Unix() - 3600
	topic := func(since, matched, params, seconds int64, names ...report.NameCount) report.RuleUse {
		return report.RuleUse{Rule: "topic", Params: "topic_id", Since: since, Matched: matched, WithParams: params,
			Seconds: seconds, Names: names}
	}
	const key = ". All of its requests have one key, which does not become hot; name a parameter that they have"
	for name, c := range map[string]struct {
		seen []report.RuleUse
		want string
	}{
		"nothing is known":        {nil, ""},
		"it has just begun":       {[]report.RuleUse{topic(now.Unix()-5, now.Unix(), 0, 5)}, ""},
		"quiet for less":          {[]report.RuleUse{topic(hour-9, hour+1, hour+1, 1)}, ""},
		"a request had it lately": {[]report.RuleUse{topic(hour-9, now.Unix(), hour+1, 100)}, ""},
		"another process saw one": {
			[]report.RuleUse{topic(hour-9, now.Unix(), 0, 100), topic(hour, 0, hour+1, 1)}, ""},
		"nothing matched": {[]report.RuleUse{topic(hour, 0, 0, 0)},
			`rule "topic": no request matched it in the last hour`},
		"nothing matches any more": {[]report.RuleUse{topic(1, hour, hour, 9), topic(hour, 0, 0, 0)},
			`rule "topic": no request matched it in the last hour`},
		"no request had it": {
			[]report.RuleUse{topic(now.Unix()-90, now.Unix(), 0, 60, report.NameCount{Name: "id", N: 3}),
				topic(now.Unix()-60, now.Unix(), 0, 60, report.NameCount{Name: "p", N: 4},
					report.NameCount{Name: "id", N: 2}, report.NameCount{Name: "\x1b", N: 9})},
			`rule "topic": no request had topic_id in 1m30s; seen: id, p` + key},
		"for an hour": {[]report.RuleUse{topic(1, now.Unix(), hour, 60)},
			`rule "topic": no request had topic_id in the last hour` + key},
	} {
		all := append(c.seen, report.RuleUse{Rule: "*", Since: hour + 5}, report.RuleUse{Rule: "gone", Since: 1})
		got := ""
		for _, n := range UseNotes(set, now, all) {
			got += n.String()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Files that count and limit alike have the same hash, and other files have other hashes.
func TestSet_HashTellsRulesApart(t *testing.T) {
	t.Parallel()
	const file = `{rules: [{name: topic, params: [id], hot: {rate: 10}, limit: {rate: 5}}]}`
	hash := func(text string) string {
		set, err := Parse("test.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return set.Hash
	}
	want := hash(file)
	for _, same := range []string{
		"# a comment\n" + file,
		`{namespace: default, rules: [{name: topic, params: [{name: id}], hot: {rate: 10, window: 5s},
			limit: {rate: 5/s}}]}`,
		strings.Replace(file, "{rules", "{ip: {trusted_proxies: [10.0.0.0/8]}, rules", 1),
	} {
		if got := hash(same); got != want {
			t.Errorf("%s has another hash", same)
		}
	}
	for _, other := range []string{
		strings.Replace(file, "id", "{name: id, integer: true}", 1), strings.Replace(file, "rate: 10", "rate: 11", 1),
		strings.Replace(file, "rate: 5", "rate: 6", 1), strings.Replace(file, "topic", "topics", 1),
		strings.Replace(file, "{rules", "{parse_as: strict, rules", 1),
	} {
		if got := hash(other); got == want || got == "" {
			t.Errorf("%s has the hash %q", other, got)
		}
	}
	set, err := FromGo("rules", &rule.Set{Rules: []rule.Rule{{Name: "topic", Params: rule.Params("id"),
		Hot: rule.Hot{Rate: 10}}}}, Options{})
	if err != nil || set.Hash == "" {
		t.Errorf("of Go values: %v", err)
	}
}
