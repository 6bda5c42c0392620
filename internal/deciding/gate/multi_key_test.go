package gate_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/rules"
)

const severalRules = `
rules:
  - name: topic
    match: {path: /topic}
    params: [id]
    hot: {rate: 100}
    limit: {rate: 20, burst: 20, values: [{key: "topic?id=7", rate: 1, burst: 2}]}
ip:
  fixed: {limit: 1000, window: 1s}
`

// TestARandomValueBesideTheHotOne: a key with a limit of 20/s allows exactly 20/s for
// requests with further values, in any order and spelling.
func TestARandomValueBesideTheHotOne(t *testing.T) {
	t.Parallel()
	b := build(t, severalRules, gate.Config{})
	b.hot("topic?id=star")
	r, passed := rand.New(rand.NewPCG(1, 2)), 0
	for i := range 10_000 { // 1000/s for ten seconds
		b.now = start().Add(time.Duration(i) * time.Millisecond)
		target := []string{"/topic?id=star&id=%d", "/topic?id=%d&id=star",
			"/topic?id=%d&x=1&%%69d=st%%61r&id=star"}[i%3]
		v := b.get(fmt.Sprintf(target, r.Uint64()), fmt.Sprintf("10.0.%d.%d", i/200%200, i%200))
		if v.Allowed {
			passed++
		} else if v.Key != "topic?id=star" || v.Reason != hottype.ReasonHot || v.Limit != 20 {
			t.Fatalf("denied by %+v", v)
		}
	}
	if passed != 20+200-1 { // the burst, and a token each 50 ms
		t.Errorf("%d passed, not 219", passed)
	}
}

func TestABlockedValueAmongOthers(t *testing.T) {
	t.Parallel()
	b := build(t, severalRules, gate.Config{})
	b.SetOverrides([]rules.Override{{ID: "shut", Key: "topic?id=star", Action: rules.ActionBlock},
		{Key: "topic?id=free*", Action: rules.ActionExempt}})
	for _, target := range []string{"/topic?id=star", "/topic?id=star&id=x", "/topic?id=x&id=star",
		"/topic?id=free&id=star", "/topic?id=a&id=b&id=star&id=c"} {
		if v := b.get(target, "1.1.1.1"); v.Allowed || v.Reason != hottype.ReasonBlocked || v.Key != "topic?id=star" ||
			v.Rule != "shut" {
			t.Errorf("%s: %+v", target, v)
		}
	}
}

// TestEachKeyThatDeniesIsCounted checks that a request that two keys deny is denied by the first, and counts for each.
func TestEachKeyThatDeniesIsCounted(t *testing.T) {
	t.Parallel()
	b := build(t, severalRules, gate.Config{})
	b.hot("topic?id=1", "topic?id=2", "topic?id=3")
	for range 20 {
		b.get("/topic?id=1&id=2", "1.1.1.1")
	}
	b.get("/topic?id=1&id=2&id=3", "1.1.1.1")
	denied := map[hottype.Key]uint64{}
	for _, k := range b.Report(b.now).Keys {
		denied[k.Key] = k.Denied
	}
	if denied["topic?id=1"] != 1 || denied["topic?id=2"] != 1 || denied["topic?id=3"] != 0 {
		t.Errorf("%v", denied)
	}
}

// TestAnExemptValueAmongOthers checks that an exempt value exempts no other value.
func TestAnExemptValueAmongOthers(t *testing.T) {
	t.Parallel()
	b := build(t, severalRules, gate.Config{})
	b.hot("topic?id=star", "topic?id=free1")
	b.SetOverrides([]rules.Override{{ID: "free", Key: "topic?id=free*", Action: rules.ActionExempt}})
	if v := b.get("/topic?id=free1&id=star", "1.1.1.1"); v.Reason != hottype.ReasonHot || v.Key != "topic?id=star" ||
		v.Limit != 20 || v.Remaining != 19 {
		t.Errorf("beside a hot value: %+v", v)
	}
	if v := b.get("/topic?id=free1&id=x", "1.1.1.1"); v.Reason != hottype.ReasonCold || v.Rule != "ip_fixed" ||
		v.Remaining != 998 {
		t.Errorf("beside a cold value: %+v", v)
	}
	if v := b.get("/topic?id=free1&id=free2", "1.1.1.1"); v.Reason != hottype.ReasonExempt || v.Rule != "free" ||
		v.Limit != 0 {
		t.Errorf("all exempt: %+v", v)
	}
}

// TestAllKeysOrNone: a request is charged for all its keys or for no key, each by its own limit, and its client is
// charged once.
func TestAllKeysOrNone(t *testing.T) {
	t.Parallel()
	b := build(t, severalRules, gate.Config{})
	b.hot("topic?id=star", "topic?id=7")
	for i := range 5 {
		v := b.get("/topic?id=star&id=7", "1.1.1.1")
		if v.Allowed != (i < 2) || !v.Allowed && (v.Key != "topic?id=7" || v.Limit != 2) {
			t.Errorf("request %d: %+v", i, v)
		}
	}
	if v := b.get("/topic?id=star", "1.1.1.1"); v.Remaining != 17 {
		t.Errorf("the other key was charged for denied requests: %+v", v)
	}
	if v := b.get("/other", "1.1.1.1"); v.Remaining != 996 {
		t.Errorf("the client was charged more than once a request, or for denied ones: %+v", v)
	}
}

// TestTheHotValueIsChargedWhereverItStands: among up to four distinct values.
func TestTheHotValueIsChargedWhereverItStands(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := assemble(parse(t, severalRules), gate.Config{})
		b.hot("topic?id=star")
		left := int64(20)
		for range 25 {
			others := rapid.SliceOfNDistinct(rapid.StringMatching("[a-r]{1,2}"), 0, 3, rapid.ID[string]).
				Draw(t, "others")
			values := rapid.Permutation(append(others, "star", "%73tar")).Draw(t, "values")
			v := b.Decide(context.Background(), b.now, request("/topic?id="+strings.Join(values, "&id="), ""))
			if v.Allowed != (left > 0) || v.Key != "topic?id=star" {
				t.Fatalf("%q with %d left: %+v", values, left, v)
			}
			if left = max(0, left-1); v.Remaining != left {
				t.Fatalf("%q: %d remain, not %d", values, v.Remaining, left)
			}
		}
	})
}
