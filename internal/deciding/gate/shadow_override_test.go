package gate_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

const triedRules = `
rules:
  - {name: here, match: {path: /here}, params: [id], hot: {rate: 10}, limit: {rate: 1/h, burst: 4, scope: instance}}
  - {name: all, match: {path: /all}, params: [id], hot: {rate: 10}, limit: {rate: 1/h, burst: 4}}
  - {name: kept, match: {path: /kept}, params: [id], hot: {rate: 10}, limit: {rate: 1/h, burst: 4}, cache: {ttl: 2s}}
classes: [{name: bot, match: {header: User-Agent, pattern: "bot"}}]
`

func shadowLimit(key string, burst int64) rules.Override {
	return rules.Override{ID: "tried", Key: key, Action: rules.ActionLimit, Rate: 0.0001, Burst: burst,
		Mode: hottype.ModeShadow}
}

// hits are the counts of the override "tried" in the report: requests it applies to, and those it would deny.
func (b *bundle) hits(t *testing.T) (met, would uint64) {
	t.Helper()
	for _, h := range b.Report(b.now).OverrideHits {
		if h.ID == "tried" {
			return h.N, h.WouldDeny
		}
	}
	return 0, 0
}

// An override in shadow mode leaves enforced limits unchanged, is judged for each request, also for denied requests,
// and takes no token of the enforced limits, or of itself when it is enforced later.
func TestLimitInShadowMode(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{"here", "all"} {
		key := rule + "?id=1"
		b := build(t, triedRules, gate.Config{})
		tried := shadowLimit(key, 2)
		b.SetOverrides([]rules.Override{tried})
		b.hot(hottype.Key(key))
		for i := range 6 {
			v := b.get("/"+key, "1.1.1.1")
			if v.Allowed != (i < 4) || v.WouldDeny != (i == 2 || i == 3) ||
				v.WouldDeny && v.WouldDenyReason != hottype.ReasonOverride {
				t.Errorf("%s: request %d: %+v", rule, i, v)
			}
		}
		if met, would := b.hits(t); met != 6 || would != 4 {
			t.Errorf("%s: met %d, would have denied %d", rule, met, would)
		}
		if s := b.Stats(); s.WouldDeny != 2 || s.Denied[hottype.ReasonHot] != 2 ||
			s.Denied[hottype.ReasonOverride] != 0 {
			t.Errorf("%s: %+v", rule, s)
		}
		for _, row := range b.Report(b.now).Keys {
			if want := (report.KeyDecisions{Key: hottype.Key(key), Allowed: 4, Denied: 2, WouldDeny: 2}); row != want {
				t.Errorf("%s: %+v", rule, row)
			}
		}
		b.hot() // cold: nothing else holds it
		if v := b.get("/"+key, "1.1.1.1"); !v.Allowed || !v.WouldDeny || v.Reason != hottype.ReasonCold {
			t.Errorf("%s: cold: %+v", rule, v)
		}
		tried.Mode = ""
		b.SetOverrides([]rules.Override{tried})
		b.hot(hottype.Key(key))
		b.Reset(b.now, report.Command{Key: hottype.Key(key)})
		b.shared.Reset(&limit.Subject{Space: "hot", Name: key})
		for i := range 3 {
			if v := b.get("/"+key, "1.1.1.1"); v.Allowed != (i < 2) || v.WouldDeny {
				t.Errorf("%s: enforced: request %d: %+v", rule, i, v)
			}
		}
	}
}

// Every target can be tried in shadow mode, and its denials are counted.
func TestTargetsInShadowMode(t *testing.T) {
	t.Parallel()
	for _, o := range []rules.Override{
		{Key: "all?id=1"}, {Key: "all?id=*"}, {Resource: "all"}, {Client: "203.0.113.9"}, {CIDR: "203.0.113.0/24"},
		{Class: "bot"},
	} {
		b := build(t, triedRules, gate.Config{})
		for _, action := range []rules.Action{rules.ActionBlock, rules.ActionLimit} {
			o.ID, o.Action, o.Mode = "tried", action, hottype.ModeShadow
			want, reason := uint64(4), hottype.ReasonBlocked
			if action == rules.ActionLimit {
				o.Rate, o.Burst, want, reason = 0.0001, 1, 3, hottype.ReasonOverride
			}
			b.SetOverrides(nil)
			b.SetOverrides([]rules.Override{o})
			for i := range 4 {
				req := request("/all?id=1", "203.0.113.9")
				req.Header = http.Header{"User-Agent": {"bot"}}
				v := b.Decide(t.Context(), b.now, req)
				denies := uint64(i) >= 4-want
				if !v.Allowed || v.WouldDeny != denies || denies && v.WouldDenyReason != reason {
					t.Errorf("%s %s: request %d: %+v", action, o.Target(), i, v)
				}
			}
			if met, would := b.hits(t); met != 4 || would != want {
				t.Errorf("%s %s: met %d, would have denied %d", action, o.Target(), met, would)
			}
			if v := b.get("/here?id=1", "198.51.100.1"); v.WouldDeny { // another key, another client
				t.Errorf("%s %s: meets what it does not match: %+v", action, o.Target(), v)
			}
		}
	}
}

// An override in shadow mode does not hide an enforced override of the same target, set by a person or by the file; it
// is not judged if it would not decide when it were enforced.
func TestShadowModeHidesNothing(t *testing.T) {
	t.Parallel()
	const file = triedRules + `
overrides:
  - {id: shut, key: "all?id=file", action: block}
  - {id: tried, key: "all?id=under", action: block, mode: shadow}
`
	b := build(t, file, gate.Config{})
	block := rules.Override{ID: "shut", Action: rules.ActionBlock}
	live, over, client := block, block, block
	live.Key, over.Key, client.Client = "all?id=live", "all?id=under", "192.0.2.1"
	loose, file2 := shadowLimit("all?id=live", 1), shadowLimit("all?id=file", 1)
	tight := rules.Override{ID: "tried", Client: "192.0.2.1", Action: rules.ActionLimit, Rate: 0.0001, Burst: 1,
		Mode: hottype.ModeShadow}
	for name, c := range map[string]struct {
		list           []rules.Override
		target, client string
		want           [2]uint64
	}{
		"live":             {[]rules.Override{loose, live}, "/all?id=live", "1.1.1.1", [2]uint64{3, 2}},
		"file":             {[]rules.Override{file2}, "/all?id=file", "1.1.1.1", [2]uint64{3, 2}},
		"of the file":      {[]rules.Override{over}, "/all?id=under", "1.1.1.1", [2]uint64{}},
		"client":           {[]rules.Override{tight, client}, "/all?id=1", "192.0.2.1", [2]uint64{3, 2}},
		"behind its block": {[]rules.Override{loose, client}, "/all?id=live", "192.0.2.1", [2]uint64{}},
	} {
		b.SetOverrides(nil)
		b.SetOverrides(c.list)
		for i := range 3 {
			if v := b.get(c.target, c.client); v.Allowed || v.WouldDeny || v.Reason != hottype.ReasonBlocked {
				t.Errorf("%s: request %d: %+v", name, i, v)
			}
		}
		met, would := b.hits(t)
		if diff := cmp.Diff(c.want, [2]uint64{met, would}); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A request for a key that a response cache answers is tried once, in the step in which it would be denied.
func TestShadowModeBeforeACache(t *testing.T) {
	t.Parallel()
	for _, action := range []rules.Action{rules.ActionBlock, rules.ActionLimit} {
		b := build(t, triedRules, gate.Config{})
		o := shadowLimit("kept?id=1", 1)
		if o.Action = action; action == rules.ActionBlock {
			o.Rate, o.Burst = 0, 0
		}
		b.SetOverrides([]rules.Override{o})
		b.hot("kept?id=1")
		for range 3 {
			v := b.served("GET", "/kept?id=1", "1.1.1.1")
			if v.Cache == nil || v.WouldDeny != (action == rules.ActionBlock) {
				t.Fatalf("%s: %+v", action, v)
			}
		}
		before, _ := b.hits(t)
		if v := b.ChargeKeys(t.Context(), b.now, request("/kept?id=1", "1.1.1.1")); !v.Allowed {
			t.Errorf("%s: %+v", action, v)
		}
		after, _ := b.hits(t)
		if want := map[rules.Action][2]uint64{rules.ActionBlock: {3, 3}, rules.ActionLimit: {0, 1}}[action]; want !=
			[2]uint64{before, after} {
			t.Errorf("%s: met %d, after the upstream was asked %d", action, before, after)
		}
	}
}

// A limit in shadow mode on a pattern counts each key by itself.
func TestShadowModeOfAPattern(t *testing.T) {
	t.Parallel()
	b := build(t, triedRules, gate.Config{})
	b.SetOverrides([]rules.Override{shadowLimit("here?*", 1)})
	for i, target := range []string{"/here?id=1", "/here?id=2", "/here?id=1", "/here?id=2"} {
		if v := b.get(target, "1.1.1.1"); !v.Allowed || v.WouldDeny != (i > 1) {
			t.Errorf("request %d: %+v", i, v)
		}
	}
}

// A limit in shadow mode is judged by this process's share, even if the store fails, and never calls the store.
func TestShadowModeWithoutItsStore(t *testing.T) {
	t.Parallel()
	store := newUnreliable(failing)
	b := build(t, triedRules, gate.Config{Shared: store, Limiters: func() int { return 2 }})
	b.SetOverrides([]rules.Override{shadowLimit("all?id=1", 4)})
	for i := range 9 {
		if v := b.get("/all?id=1", "1.1.1.1"); !v.Allowed || v.WouldDeny != (i > 1) || v.Reason != hottype.ReasonCold {
			t.Errorf("request %d: %+v", i, v)
		}
	}
	if met, would := b.hits(t); met != 9 || would != 7 || store.calls.Load() != 0 {
		t.Errorf("met %d, would have denied %d, %d calls of the store", met, would, store.calls.Load())
	}
}

// A request that is denied because of its client does not count for an override in shadow mode of its key.
func TestShadowModeOfAKeyLeavesOutDeniedClients(t *testing.T) {
	t.Parallel()
	for _, action := range []rules.Action{rules.ActionLimit, rules.ActionBlock} {
		b := build(t, triedRules, gate.Config{})
		tried := shadowLimit("here?id=1", 1)
		if tried.Action = action; action == rules.ActionBlock {
			tried.Rate, tried.Burst = 0, 0
		}
		b.SetOverrides([]rules.Override{tried, {ID: "bad", Client: "1.1.1.1", Action: rules.ActionBlock}})
		b.hot("here?id=1")
		for i := range 6 {
			if v := b.get("/here?id=1", "1.1.1.1"); v.Allowed || v.WouldDeny || v.Reason != hottype.ReasonBlocked {
				t.Errorf("%s: request %d: %+v", action, i, v)
			}
		}
		if met, would := b.hits(t); met != 0 || would != 0 {
			t.Errorf("%s: met %d, would have denied %d", action, met, would)
		}
		for range 2 {
			b.get("/here?id=1", "1.1.1.2")
		}
		want := uint64(1)
		if action == rules.ActionBlock {
			want = 2
		}
		if met, would := b.hits(t); met != 2 || would != want {
			t.Errorf("%s: met %d, would have denied %d, want %d", action, met, would, want)
		}
	}
}
