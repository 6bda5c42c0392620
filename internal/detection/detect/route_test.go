package detect

import (
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

func TestSetRulesKeepsWhatItCan(t *testing.T) {
	t.Parallel()
	fill := func() *Detector {
		d := New(set(topic(0), catchAll()), Options{})
		d.Add(at(0), count("topic?id=1", 0, 12))
		d.Add(at(0), count("topic?id=2", 0, 6))
		d.Add(at(0), count("/x", 0, 5))
		d.Tick(at(0))
		return d
	}
	other := func(change func(h *rules.HotCriteria)) *rules.Rule {
		r := topic(0)
		change(&r.Hot)
		return r
	}
	for name, test := range map[string]struct {
		set  *rules.Set
		want []string // ticks at 0.1, 3 and 8 s
	}{
		"same": {set(topic(0), catchAll()),
			[]string{"/x=5 topic?id=1=2.4", "topic?id=1=2.4 cooled:/x@3", "cooled:topic?id=1@8"}},
		"lower threshold": {set(other(func(h *rules.HotCriteria) { h.Rate = 1 })),
			[]string{"topic?id=1=2.4 topic?id=2=1.2 cooled:/x@0.1 became:topic?id=2@0.1",
				"topic?id=1=2.4 topic?id=2=1.2", "cooled:topic?id=1@8 cooled:topic?id=2@8"}},
		"higher": {set(other(func(h *rules.HotCriteria) { h.Rate = 100 })),
			[]string{"topic?id=1=2.4 cooled:/x@0.1", "cooled:topic?id=1@3", ""}},
		"other window": {set(other(func(h *rules.HotCriteria) { h.Window = 9 * time.Second })),
			[]string{"topic?id=1=0 cooled:/x@0.1", "cooled:topic?id=1@3", ""}},
		"no rate": {set(other(func(h *rules.HotCriteria) { h.Rate = 0 })),
			[]string{"topic?id=1=2.4 cooled:/x@0.1", "cooled:topic?id=1@3", ""}},
		"rule gone": {set(catchAll()), []string{"/x=5 cooled:topic?id=1@0.1", "cooled:/x@3", ""}},
		"all gone":  {set(), []string{"cooled:/x@0.1 cooled:topic?id=1@0.1", "", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := fill()
			d.SetRules(test.set)
			for i, when := range []float64{0.1, 3, 8} {
				if got := tape(d.Tick(at(when))); got != test.want[i] {
					t.Errorf("at %g: %q, want %q", when, got, test.want[i])
				}
			}
		})
	}
}

// New rules apply from the time of the last counts, even without a Tick between.
func TestSetRulesAtTheTimeOfCounts(t *testing.T) {
	t.Parallel()
	d := New(set(topic(0)), Options{})
	d.AddAll(at(0), []hottype.Count{count("topic?id=1", 0, 10)})
	d.SetRules(set(topic(0)))
	if got := tape(d.Tick(at(0.1))); got != "topic?id=1=2 became:topic?id=1@0.1" || d.Stats().ClockResets != 0 {
		t.Errorf("%q, %+v", got, d.Stats())
	}
}

func TestAliasesGoToTheirRule(t *testing.T) {
	t.Parallel()
	hash := "Zh0123456789abcdef0123456789abcdef"
	under := &rules.Rule{Name: "hot_topic", Hot: topic(0).Hot}
	for key, want := range map[hottype.Key]string{
		hottype.Key("!hp1:topic.id=" + hash):       "topic",
		hottype.Key("!hp1:hot__topic.id=" + hash):  "hot_topic",
		hottype.Key("!hp1:Z2Ftopic.id=" + hash):    "*", // a path
		hottype.Key("!hp1:Z2Fto" + hash + ".id=1"): "*", // too long to decode
		"!hp1:": "*", "!hp1:.": "*", "!hp1:Zx.a=1": "*", "!hp1:topic": "topic",
	} {
		r := newRoutes(set(topic(0), under, catchAll()))
		b := new(batch)
		b.reset(r, 1)
		for range 2 { // the second time from memory
			if i := b.ruleFor(key); i < 0 || []string{"topic", "hot_topic", "*"}[i] != want {
				t.Errorf("%s is judged by rule %d, want %s", key, i, want)
			}
		}
	}
}

// In any order, each key is judged by the rule that judges it alone.
func TestRuleOfEachKeyInARun(t *testing.T) {
	t.Parallel()
	hash := "Zh0123456789abcdef0123456789abcdef"
	all := []hottype.Key{"other?id=1", "topic?id=1", "topic?id=2", "topic", "topics?id=1", "top?id=1",
		"hot_topic?a=b", "/x",
		"/x?y=1", "",
		hottype.Key("!hp1:topic.id=" + hash), hottype.Key("!hp1:hot__topic.id=" + hash),
		hottype.Key("!hp1:Z2Ftopic.id=" + hash)}
	routes := newRoutes(set(topic(0), &rules.Rule{Name: "hot_topic", Hot: topic(0).Hot}, catchAll()))
	b := new(batch)
	for _, first := range all {
		for _, second := range all {
			for _, third := range all {
				b.reset(routes, 1)
				for _, key := range []hottype.Key{first, second, third} {
					if got, want := b.ruleFor(key), routes.ruleFor(key); got != want {
						t.Fatalf("%q after %q, %q: rule %d, want %d", key, first, second, got, want)
					}
				}
			}
		}
	}
}

// A second matters from the first second of a window to the last that may be counted ahead.
func TestDetector_SpanOfRules(t *testing.T) {
	t.Parallel()
	for window, want := range map[time.Duration]int64{0: 4, time.Second: 4, 5 * time.Second: 8} {
		all := set()
		if window > 0 {
			r := topic(0)
			r.Hot.Window = window
			all = set(r)
		}
		if got := New(all, Options{Future: 3 * time.Second}).span; got != want {
			t.Errorf("window %v: %d seconds, want %d", window, got, want)
		}
	}
	for o, want := range map[Options]int{{Counters: 1, Shards: 4}: 1, {Counters: 4, Shards: 4}: 1, {Counters: 8,
		Shards: 4}: 2} {
		if got := o.perShard(); got != want {
			t.Errorf("%d counters in %d shards: %d in each, want %d", o.Counters, o.Shards, got, want)
		}
	}
}
