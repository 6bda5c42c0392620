package replay_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/accesslog"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/deciding/costs"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/operator/replay"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// The report names the rules whose cost no line has. It neither takes requests for costs nor the rule for a rule that
// does not match.
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
	const says = "no key can be hot by rule slow, rule find, because no line has the cost that it counts\n"
	if !strings.Contains(page.String(), says) || !strings.Contains(document(t, rep), `"no_costs":["slow","find"]`) {
		t.Errorf("%s", page.String())
	}
	set = parse(t, "rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 20}}]")
	if got := rendered(t, replay.Config{Rules: set}, text("events.tsv", log)); strings.Contains(got, "no_costs") {
		t.Errorf("there is no rule by cost: %s", got)
	}
}

// costLog returns the lines of a JSONL log in which one value is expensive and another is frequent, and its entries.
func costLog() (lines string, entries []accesslog.Entry) {
	rnd := rand.New(rand.NewPCG(1, 2))
	begin := time.Unix(1_700_000_000, 0).UTC()
	for i := range 20 * 100 {
		at := begin.Add(time.Duration(i) * 10 * time.Millisecond)
		e := accesslog.Entry{Second: at.Unix(), Nanos: int32(at.Nanosecond()), Status: 200, Costs: accesslog.NoCosts}
		e.Request = hottype.Request{Method: "GET", Client: hottype.ParseClient("192.0.2.7")}
		switch {
		case i%20 == 0:
			e.Request.Target, e.Costs.Time = "/report?filter=full", 800*time.Millisecond
		case i%3 == 0:
			e.Request.Target, e.Costs.Time = "/report?filter=popular", 10*time.Millisecond
		default:
			e.Request.Target, e.Costs.Time = fmt.Sprint("/report?filter=v", rnd.IntN(50)), 10*time.Millisecond
		}
		if rnd.IntN(10) == 0 {
			e.Costs.Time = -1 // a request that was denied, or answered from a cache
		}
		e.Costs.Bytes, e.Costs.Cost = int64(e.Costs.Time.Microseconds()), e.Costs.Time.Seconds()
		entries = append(entries, e)
		lines += string(accesslog.AppendJSONL(nil, &e))
	}
	return lines, entries
}

// A replay of a log with costs finds the same hot keys as a gate that measures the same costs, and denies as many
// requests, for each cost.
func TestRun_ByCostEqualsLive(t *testing.T) {
	t.Parallel()
	lines, entries := costLog()
	for cost, amounts := range map[string][2]string{
		"time": {"1s", "500ms"}, "bytes": {"1MB", "500kB"}, "response.X-Cost": {"1", "0.5"},
	} {
		set := parse(t, fmt.Sprintf("rules: [{name: report, match: {path: /report}, params: [{name: filter, "+
			"duplicates: last}], cost: %s, hot: {rate: %s}, limit: {rate: %s, in_flight: {limit: 9}}}]", cost, amounts[0],
			amounts[1]))
		rep, err := replay.Run(context.Background(), replay.Config{Rules: set}, text("log.jsonl", lines))
		if err != nil {
			t.Fatal(err)
		}
		hot, denied := liveByCost(t, set, entries)
		if len(rep.Hot) != 1 || rep.Hot[0].Key != "report?filter=full" || !reflect.DeepEqual(hot, []string{
			"report?filter=full"}) || int64(rep.Denied.Total()) != denied || denied == 0 || rep.NoCosts != nil {
			t.Errorf("%s: replay %+v, %d denied, %q; live %q, %d denied", cost, rep.Hot, rep.Denied.Total(),
				rep.NoCosts, hot, denied)
		}
	}
}

// liveByCost returns the keys that become hot at a gate whose callers measure the costs of entries, and the number of
// denied requests.
func liveByCost(t *testing.T, set *rules.Set, entries []accesslog.Entry) (hot []string, denied int64) {
	t.Helper()
	var out batches
	counts, replica := tally.New(tally.Config{Sink: &out}), new(hotset.Replica)
	d, g := detect.New(set, detect.Options{}), gate.New(gate.Config{Rules: set, Hot: replica, Counter: counts})
	for i := range entries {
		e := &entries[i]
		now := e.At()
		if found, changes := d.Tick(now); len(changes) > 0 {
			replica.Replace("live", report.HotSet{Version: uint64(i + 1), At: now, Keys: found.Keys})
			for _, k := range found.Keys {
				if !slices.Contains(hot, string(k.Key)) {
					hot = append(hot, string(k.Key))
				}
			}
		}
		v := g.Begin(t.Context(), now, &e.Request, true)
		if v.Allowed {
			v.Reports.Work().Give(costs.Given(e.Costs))
			v.Reports.Work().End(now, -1, false)
		} else {
			denied++
		}
		if v.Lease != nil {
			g.Release(now, v.Lease)
		}
		if err := counts.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.AddAll(now, out.counts)
		out.counts = nil
	}
	return hot, denied
}
