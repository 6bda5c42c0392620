package replay_test

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/operator/replay"
)

// A log has no costs yet: the report says so, and neither takes requests for costs nor the rule for one that does not
// match.
func TestRun_NamesRulesWhoseCostsALogLacks(t *testing.T) {
	t.Parallel()
	set := parse(t, `rules:
  - {name: slow, match: {path: /slow}, params: [id], cost: time, hot: {rate: 20ms, window: 1s}}
  - {name: find, match: {path: /find}, params: [q], cost: response.X-Cost, hot: {rate: 0.001, window: 1s}}
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 20, window: 1s}}`)
	line := func(target string) string { return "1700000000\t192.0.2.1\tGET\t" + target + "\n" }
	log := strings.Repeat(line("/slow?id=1")+line("/find?q=a")+line("/topic?id=1"), 50) + line("/other")
	rep, err := replay.Run(context.Background(), replay.Config{Rules: set}, text("events.tsv", log))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(rep.NoCosts, []string{"slow", "find"}) || rep.NoRule != 1 || len(rep.Hot) != 1 ||
		rep.Hot[0].Key != "topic?id=1" {
		t.Errorf("%q, %d without a rule, hot %+v", rep.NoCosts, rep.NoRule, rep.Hot)
	}
	var page strings.Builder
	if err := replay.Write(&page, rep, replay.Options{}); err != nil {
		t.Fatal(err)
	}
	const says = "no key can be hot by rule slow, rule find, because a log does not have the cost that it counts\n"
	if !strings.Contains(page.String(), says) || !strings.Contains(document(t, rep), `"no_costs":["slow","find"]`) {
		t.Errorf("%s", page.String())
	}
	set = parse(t, "rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 20}}]")
	if got := rendered(t, replay.Config{Rules: set}, text("events.tsv", log)); strings.Contains(got, "no_costs") {
		t.Errorf("there is no rule by cost: %s", got)
	}
}
