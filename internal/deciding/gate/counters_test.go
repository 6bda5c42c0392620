package gate

import (
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// Each verdict counts under its reason and its other properties; all shards of the counters are summed.
func TestStats_CountEachVerdict(t *testing.T) {
	t.Parallel()
	for reason := range hottype.Reasons() {
		for _, v := range []verdict.Verdict{
			{Verdict: hottype.Verdict{Allowed: true}}, {Verdict: hottype.Verdict{Allowed: true, Wait: 1}},
			{Verdict: hottype.Verdict{Allowed: true, WouldDeny: true, WouldDenyReason: hottype.ReasonHot,
				WouldDenyRule: "topic"}},
			{Verdict: hottype.Verdict{Allowed: true, WouldDeny: true, WouldDenyReason: hottype.ReasonIPFixed}}, {},
			{Verdict: hottype.Verdict{Wait: 1, WouldDeny: true}},
		} {
			v.Reason = reason
			var want Stats
			switch {
			case !v.Allowed:
				want.Denied[reason] = shards
			default:
				want.Allowed[reason] = shards
				if v.Wait > 0 {
					want.Delayed = shards
				}
				if v.WouldDeny {
					want.WouldDeny, want.WouldDenyBy = shards, map[string]uint64{v.WouldDenyRule: shards}
				}
				if v.WouldDeny && v.WouldDenyReason == hottype.ReasonIPFixed {
					want.WouldDenyIP = shards
				}
			}
			g := New(Config{})
			for range shards {
				g.stats.nextShard().countVerdict(&v)
			}
			if got := g.Stats(); !reflect.DeepEqual(got, want) {
				t.Errorf("%+v: %+v, want %+v", v, got, want)
			}
		}
	}
}

// TestRuleCounts_AreBounded counts each name twice. Names that are known before the table is full keep their counts.
func TestRuleCounts_AreBounded(t *testing.T) {
	t.Parallel()
	var c ruleCounts
	if all := c.all(); all != nil {
		t.Errorf("nothing was counted: %v", all)
	}
	const names = maxRuleCounts + 70
	for range 2 {
		var both sync.WaitGroup
		for half := range 2 {
			both.Go(func() {
				for i := half; i < names; i += 2 {
					c.add(fmt.Sprint("rule ", i))
				}
			})
		}
		both.Wait()
	}
	all, sum := c.all(), uint64(0)
	for name, n := range all {
		if sum += n; name != otherRules && n != 2 {
			t.Errorf("%s: %d requests, want 2", name, n)
		}
	}
	if len(all) != maxRuleCounts+1 || all[otherRules] != 2*70 || sum != 2*names {
		t.Errorf("%d names, %d requests of others, %d of all", len(all), all[otherRules], sum)
	}
}

// A request is denied with the least that is left, the longest wait, and the numbers of the first limit that
// denies.
func TestVerdictOfADeniedGroup(t *testing.T) {
	t.Parallel()
	type r = limit.Result
	for _, c := range []struct {
		results   []r
		rule      string
		remaining int64
		retry     time.Duration
		limit     int64
	}{
		{[]r{{Limit: 1, RetryAfter: 5}}, "r0", 0, 5, 1},
		{[]r{{Allowed: true, Remaining: 7}, {Limit: 2, Remaining: 3, RetryAfter: 5}}, "r1", 3, 5, 2},
		{[]r{{Limit: 1, Remaining: 3, RetryAfter: 5}, {Limit: 2, Remaining: 4, RetryAfter: 9}}, "r0", 3, 9, 1},
		{[]r{{Limit: 1, Remaining: 3, RetryAfter: 9}, {Limit: 2, Remaining: 2, RetryAfter: 5}}, "r0", 2, 9, 1},
		{[]r{{Limit: 1, RetryAfter: 9}, {Allowed: true, Limit: 2, RetryAfter: 99}}, "r0", 0, 9, 1},
		{[]r{{Limit: 1, RetryAfter: 9}, {Limit: 2, RetryAfter: hottype.Never}}, "r0", 0, hottype.Never, 1},
		{[]r{{Limit: 1, RetryAfter: hottype.Never}, {Limit: 2, RetryAfter: 9}}, "r0", 0, hottype.Never, 1},
	} {
		d := decision{g: New(Config{})}
		var gr chargeGroup
		for i := range c.results {
			gr.add(chargeMeta{boundLimit: &boundLimit{rule: fmt.Sprint("r", i), window: time.Duration(i + 1)}, key: -1})
		}
		copy(gr.results, c.results)
		v := verdict.Verdict{Verdict: hottype.Verdict{Allowed: true, Remaining: -5}}
		d.denyGroup(&v, &gr)
		if v.Allowed || v.Rule != c.rule || v.Remaining != c.remaining || v.RetryAfter != c.retry ||
			v.Limit != c.limit ||
			v.Window != time.Duration(c.rule[1]-'0'+1) || !d.withoutKeys {
			t.Errorf("%+v: %+v", c.results, v)
		}
	}
}

// Names of slots are forgotten with their last lease; names whose leases have expired are forgotten at each 1024th new
// name.
func TestNamesOfSlotsAreForgotten(t *testing.T) {
	t.Parallel()
	g, now := New(Config{}), time.Unix(1000, 0)
	take := func(i int, id string) {
		if r := g.slots.acquire(now, &verdict.Slot{Name: fmt.Sprint(i), Limit: 2, TTL: time.Second}, id); !r.Allowed {
			t.Fatalf("%d: %+v", i, r)
		}
	}
	release := func(i int, id string) bool { return g.slots.release(now, &verdict.Slot{Name: fmt.Sprint(i)}, id) }
	take(0, "a")
	take(0, "b")
	for _, step := range []struct {
		id   string
		held bool
		left int
	}{{"c", false, 1}, {"a", true, 1}, {"a", false, 1}, {"b", true, 0}, {"b", false, 0}} {
		if held := release(0, step.id); held != step.held || len(g.slots.of) != step.left {
			t.Errorf("%s: held %v, %d names", step.id, held, len(g.slots.of))
		}
	}
	for i := 1; i < 1024; i++ { // the first name was made above
		take(i, "a")
		if len(g.slots.of) != min(i, 1023) && i < 1023 {
			t.Fatalf("%d names after %d", len(g.slots.of), i)
		}
	}
	now = now.Add(time.Second) // all leases are over
	for i := 2000; i < 2000+1023; i++ {
		take(i, "a")
	}
	if n := len(g.slots.of); n != 1023+1023 {
		t.Errorf("%d names before the next sweep", n)
	}
	take(4000, "a")
	if n := len(g.slots.of); n != 1024 {
		t.Errorf("%d names after the sweep, of which all have leases", n)
	}
	if r := g.slots.acquire(now, &verdict.Slot{Name: "x", Limit: -1, TTL: time.Second}, "a"); r.Allowed {
		t.Error("bounds that no rule can have")
	}
	if g.slots.releaseShared(&verdict.Slot{Name: "x"}, "a") {
		t.Error("released in a store that is none")
	}
}

// A denial is remembered from a millisecond on, of the same limit, for its time, and until something is
// refunded.
func TestBoundsOfARememberedDenial(t *testing.T) {
	t.Parallel()
	g, now := New(Config{}), time.Unix(1000, 0)
	spec := limit.Spec{Limit: 1, Window: time.Second}
	keep := func(retry time.Duration) *memory {
		d := decision{g: g}
		d.now = now
		var gr chargeGroup
		c := gr.add(chargeMeta{key: -1, memory: g.denials.memoryOf("k")})
		c.Spec, c.Subject = spec, limit.Subject{Space: "hot", Name: "k"}
		gr.results[0] = limit.Result{Limit: 3, RetryAfter: retry, ResetAfter: 2 * retry}
		g.denials.slotOf("k").last.Store(nil)
		d.storeDenials(&gr)
		m := g.denials.memoryOf("k")
		return &m
	}
	at := func(m *memory, d time.Duration) bool {
		return m.findDenial(now.Add(d).UnixNano(), "hot", "k", &spec) != nil
	}
	for retry, want := range map[time.Duration]bool{
		time.Millisecond: true, time.Millisecond - 1: false, time.Hour: true, hottype.Never: false,
	} {
		if got := at(keep(retry), 0); got != want {
			t.Errorf("a wait of %v is remembered: %v", retry, got)
		}
	}
	m := keep(time.Second)
	for d, want := range map[time.Duration]bool{-1: false, 0: true, time.Second - 1: true, time.Second: false} {
		if got := at(m, d); got != want {
			t.Errorf("%v later: %v", d, got)
		}
	}
	if last := m.findDenial(now.UnixNano(), "hot", "k", &spec); last.limit != 3 ||
		last.reset != now.Add(2*time.Second).UnixNano() || last.until != now.Add(time.Second).UnixNano() {
		t.Errorf("%+v", last)
	}
	other := spec
	other.Limit++
	if m.findDenial(now.UnixNano(), "cold", "k", &spec) != nil ||
		m.findDenial(now.UnixNano(), "hot", "j", &spec) != nil ||
		m.findDenial(now.UnixNano(), "hot", "k", &other) != nil {
		t.Error("a denial of another limit")
	}
	g.denials.invalidateDenials("k")
	after := g.denials.memoryOf("k")
	if !at(m, 0) || at(&after, 0) {
		t.Error("a refund leaves the denial, for requests that begin after it")
	}
}

// Of each decision's requests for hot keys the first of 16 is sampled, and of the 20 heaviest keys.
func TestOneRequestIn16IsSampled(t *testing.T) {
	t.Parallel()
	hot := new(hotset.Replica)
	set := report.HotSet{Version: 1, At: time.Unix(1000, 0)}
	for i := range 25 {
		set.Keys = append(set.Keys, hottype.HotKey{Key: hottype.Key(fmt.Sprintf("topic?id=%02d", i)), Rule: "topic",
			Rate: float64(100 - i), Until: time.Unix(2000, 0)})
	}
	hot.Replace("a", set)
	g, now := New(Config{Hot: hot}), time.Unix(1000, 0)
	g.Report(now)
	if n := len(*g.samples.Load()); n != 20 {
		t.Errorf("%d keys are sampled", n)
	}
	k := (*g.samples.Load())["topic?id=00"]
	if k == nil || (*g.samples.Load())["topic?id=19"] == nil || (*g.samples.Load())["topic?id=20"] != nil {
		t.Fatalf("%v", *g.samples.Load())
	}
	d := &decision{g: g, keys: make([]requestKey, 1)}
	d.matches = []rules.Match{{Rule: &rules.Rule{Name: "topic"}, Key: []byte("topic?id=00")}}
	d.st, d.req = g.cur.Load(), &hottype.Request{Method: "GET", Target: "/topic?id=00"}
	for i := range 40 {
		g.sampleKeys(d, &verdict.Verdict{})
		if want := uint64(i/16 + 1); k.seen != want {
			t.Errorf("after %d requests %d are sampled, want %d", i+1, k.seen, want)
		}
	}
	if before := g.Report(now).Samples; len(before) != 1 || before[0].Sampled != 3 || before[0].Key != "topic?id=00" {
		t.Errorf("%+v", before)
	}
}
