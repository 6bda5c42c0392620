package gate_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// recorder is a Counter.
type recorder struct {
	mu   sync.Mutex
	seen map[string]int64
}

func (r *recorder) AddFrom(key []byte, _, n int64, _ hottype.Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = map[string]int64{}
	}
	r.seen[string(key)] += n
}

func (r *recorder) AddCost(key []byte, second, cost, _ int64, client hottype.Client) {
	r.AddFrom(key, second, cost, client)
}

func TestReport(t *testing.T) {
	t.Parallel()
	var counter recorder
	b := build(t, orderRules, gate.Config{Instance: "a", Counter: &counter})
	b.SetOverrides([]rules.Override{{ID: "some", Key: "topic?id=x*", Action: rules.ActionBlock}})
	b.hot("topic?id=42")
	for _, target := range []string{
		"/topic?id=42", "/topic?id=42", "/topic?id=42", // 2 of 3
		"/topic?id=own", "/topic?id=own", "/topic?id=own", "/topic?id=own", // 3 of 4
		"/topic?id=x1", "/topic?id=x2", "/topic?id=free", "/topic?id=1", "/other",
	} {
		b.get(target, "")
	}
	b.hot("topic?id=42", "topic?id=own") // now its override decides on a hot key: the same row
	b.get("/topic?id=own", "")
	for range 6 {
		b.get("/topic?id=2", "1.1.1.1") // 5 of 6
	}
	now := b.now.Unix()
	want := report.Limiter{
		Instance: "a", At: b.now, Allowed: 2 + 3 + 3 + 5,
		Denied: report.Denials{hottype.ReasonHot: 1, hottype.ReasonOverride: 2, hottype.ReasonBlocked: 2,
			hottype.ReasonIPFixed: 1},
		Keys: []report.KeyDecisions{
			{Key: "topic?id=42", Allowed: 2, Denied: 1}, {Key: "topic?id=own", Allowed: 3, Denied: 2},
			{Key: "topic?id=free", Allowed: 1}, {Key: "topic?id=x*", Denied: 2},
		},
		// That of own met four requests while it was cold, and one while it was hot.
		OverrideHits: []report.OverrideHits{{ID: "free", N: 1}, {ID: "own", N: 5}, {ID: "some", N: 2}},
		RulesHash:    b.Rules().Hash,
		Use: []report.RuleUse{
			{Rule: "topic", Params: "id", Since: now, Matched: now, WithParams: now, Seconds: 1},
			{Rule: "watched", Params: "id", Since: now},
		},
	}
	if diff := cmp.Diff(want, b.Report(b.now)); diff != "" {
		t.Error(diff)
	}
	if counter.seen["topic?id=42"] != 3 || counter.seen["topic?id=1"] != 1 || len(counter.seen) != 7 {
		t.Error(counter.seen)
	}
	b.SetOverrides(nil)
	b.SetOverrides([]rules.Override{{ID: "some", Key: "topic?id=x*", Action: rules.ActionBlock}})
	if n := len(b.Report(b.now).Keys); n != 3 {
		t.Errorf("%d rows: an override that was away has no history", n)
	}
}

func TestGate_ColdKeys(t *testing.T) {
	t.Parallel()
	for _, named := range []bool{false, true} {
		b := build(t, orderRules, gate.Config{ColdKeys: named})
		want := hottype.Key("")
		if named {
			want = "topic?id=1"
		}
		if v := b.get("/topic?id=1", ""); v.Key != want {
			t.Errorf("%q", v.Key)
		}
	}
}

// A key whose metric name is a hash is hot under its alias, but a verdict
// names it as the client does.
func TestLongKeyIsHotByItsAlias(t *testing.T) {
	t.Parallel()
	b := build(t, orderRules, gate.Config{})
	key := "topic?id=" + strings.Repeat("v", 250)
	alias, ok := canon.Alias([]byte(key), nil)
	if !ok {
		t.Fatal("no alias")
	}
	b.hot(hottype.Key(alias))
	for i := range 3 {
		if v := b.get("/"+key, ""); v.Allowed != (i < 2) || v.Reason != hottype.ReasonHot || string(v.Key) != key {
			t.Errorf("%+v", v)
		}
	}
}

// Nothing is lost or allowed twice while rules, overrides and the hot set
// change under many callers.
func TestGate_ConcurrentUse(t *testing.T) {
	t.Parallel()
	b := build(t, orderRules, gate.Config{})
	b.hot("topic?id=42", "topic?id=7")
	const callers, each = 8, 500
	admitted := make([]int, callers)
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for range each {
				if b.get("/topic?id=42", "").Allowed {
					admitted[c]++
				}
				b.get("/topic?id=own", "1.1.1.1")
			}
		})
	}
	for range 50 {
		b.SetRules(b.Rules())
		b.SetOverrides([]rules.Override{{ID: "other", Key: "topic?id=9", Action: rules.ActionBlock}})
		b.hot("topic?id=42", "topic?id=7")
		b.Report(b.now)
	}
	wg.Wait()
	total := 0
	for _, n := range admitted {
		total += n
	}
	s := b.Stats()
	if all := s.Allowed.Total() + s.Denied.Total(); total != 2 || all != 2*callers*each {
		t.Errorf("%d admitted of 2, %d decisions", total, all)
	}
}
