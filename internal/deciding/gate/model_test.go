package gate_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/rules"
)

// Two rules count a request, each value of id by itself, so that it has two keys or
// four. Scopes are mixed, so that decisions span both stores.
const modelRules = `
rules:
  - {name: one, match: {path: /t}, params: [id], continue: true, hot: {rate: 10}, limit: {rate: 2, burst: 4, scope: cluster}}
  - {name: two, match: {path: /t}, params: [id], hot: {rate: 10}, limit: {algorithm: fixed_window, limit: 3, window: 2s, scope: instance}}
  - {name: try, match: {path: /try}, params: [id], hot: {rate: 10}, limit: {rate: 1, burst: 2, scope: cluster, mode: shadow}}
ip:
  fixed: {limit: 4, window: 1s, scope: cluster}
  sliding: {limit: 12, window: 5s, scope: instance}
classes:
  - {name: crawler, match: {header: User-Agent, pattern: "bot"}, ip: {fixed: {limit: 2, window: 1s, scope: instance}}}
`

// model decides as the package comment says, word for word, with one store for
// everything and no care for speed.
type model struct {
	set   *rules.Set
	store *limit.Memory
	hot   []hottype.Key
	over  []rules.Override
	tried []rules.Override // limits and blocks in shadow mode
}

// due is one charge with its meaning for the verdict.
type due struct {
	limit.Charge
	reason string
	rule   string
	local  bool
	shadow bool
}

func (m *model) override(key hottype.Key) rules.Action {
	for _, o := range m.over {
		if o.Key == string(key) {
			return o.Action
		}
	}
	return ""
}

// exempts reports whether all keys under one rule are exempt.
func (m *model) exempts(keys []hottype.Key, ruleOf []*rules.Rule) bool {
	return slices.ContainsFunc(ruleOf, func(r *rules.Rule) bool { return m.exempt(r, keys, ruleOf) })
}

func (m *model) exempt(r *rules.Rule, keys []hottype.Key, ruleOf []*rules.Rule) bool {
	for i, k := range keys {
		if ruleOf[i] == r && m.override(k) != rules.ActionExempt {
			return false
		}
	}
	return true
}

func (m *model) dues(req *hottype.Request, keys []hottype.Key, ruleOf []*rules.Rule, crawler bool) (list []due) {
	if !m.exempts(keys, ruleOf) {
		fixed, space, sliding := m.set.IP.Fixed, "ip_fixed", m.set.IP.Sliding
		if crawler {
			fixed, space = m.set.Classes[0].Fixed, "ip_fixed:crawler"
		}
		list = append(list,
			due{limit.Charge{Subject: limit.Subject{Space: space, Client: req.Client}, Spec: fixed.Spec}, "ip_fixed",
				"ip_fixed", fixed.Scope == "instance", false},
			due{limit.Charge{Subject: limit.Subject{Space: "ip_sliding", Client: req.Client}, Spec: sliding.Spec},
				"ip_sliding", "ip_sliding", sliding.Scope == "instance", false})
	}
	for i, key := range keys {
		l := ruleOf[i].Limit
		d := due{limit.Charge{Subject: limit.Subject{Space: "hot", Name: string(key)}, Spec: l.Spec}, "hot",
			ruleOf[i].Name, l.Scope == "instance", l.Mode == "shadow"}
		switch action := m.override(key); {
		case action == rules.ActionLimit:
			o := m.over[slices.IndexFunc(m.over, func(o rules.Override) bool { return o.Key == string(key) })]
			d.Spec, d.reason, d.rule, d.shadow = o.Spec(""), "override", o.ID, false
		case action == rules.ActionExempt, !slices.Contains(m.hot, key):
			continue
		case action == rules.ActionShadow:
			d.shadow = true
		}
		list = append(list, d)
	}
	return list
}

// take charges all or nothing. It returns the charges that denied, local charges before shared ones, and the longest
// wait that they require.
func (m *model) take(now time.Time, list []due) (denied []due, retry time.Duration, results []limit.Result) {
	charges := make([]limit.Charge, len(list))
	results = make([]limit.Result, len(list))
	for i := range list {
		charges[i] = list[i].Charge
	}
	if ok, err := m.store.Take(context.Background(), now, charges, results); ok || err != nil {
		return nil, 0, results
	}
	for _, local := range []bool{true, false} {
		for i := range list {
			if list[i].local == local && !results[i].Allowed {
				denied = append(denied, list[i])
				if r := results[i].RetryAfter; r == hottype.Never || retry != hottype.Never && r > retry {
					retry = r
				}
			}
		}
		if denied != nil {
			return denied, retry, results
		}
	}
	return nil, 0, results
}

// answer holds the fields in which model and gate have to agree.
type answer struct {
	Allowed, Shadowed bool
	Reason            string
	Rule              string
	Left              int64
	Retry             time.Duration
}

// ask returns the answer, and evaluates limits in shadow mode for requests that reach their keys.
func (m *model) ask(now time.Time, req *hottype.Request, keys []hottype.Key, ruleOf []*rules.Rule, crawler bool,
	spared *answer) answer {
	a := m.decide(now, req, keys, ruleOf, crawler, spared)
	if a.Reason == "ip_fixed" || a.Reason == "ip_sliding" {
		return a
	}
	for _, key := range keys {
		i := slices.IndexFunc(m.tried, func(o rules.Override) bool { return o.Key == string(key) })
		if i < 0 {
			continue
		}
		denies := m.tried[i].Action == rules.ActionBlock
		if !denies {
			c := limit.Charge{Subject: limit.Subject{Space: "shadow", Name: string(key)}, Spec: m.tried[i].Spec(""),
				Cost: max(req.Cost, 1)}
			denied, _, _ := m.take(now, []due{{Charge: c}})
			denies = denied != nil
		}
		a.Shadowed = a.Shadowed || denies && a.Allowed
	}
	return a
}

// decide returns the answer by the limits that are enforced. spared is the answer of the gate if it called no store: it
// then need not have found the first limit that denies, but has to have found a limit of some store that denies.
func (m *model) decide(now time.Time, req *hottype.Request, keys []hottype.Key, ruleOf []*rules.Rule, crawler bool,
	spared *answer) answer {
	for i, key := range keys {
		if m.override(key) == rules.ActionBlock {
			return answer{Reason: "blocked", Retry: hottype.Never,
				Rule: m.over[slices.IndexFunc(m.over,
					func(o rules.Override) bool { return o.Key == string(keys[i]) })].ID}
		}
	}
	var enforced, shadow []due
	for _, d := range m.dues(req, keys, ruleOf, crawler) {
		if d.Cost = max(req.Cost, 1); d.shadow {
			shadow = append(shadow, d)
		} else {
			enforced = append(enforced, d)
		}
	}
	denied, retry, results := m.take(now, enforced)
	for i, d := range enforced {
		a := answer{Reason: d.reason, Rule: d.rule, Retry: results[i].RetryAfter}
		if denied != nil && !results[i].Allowed && spared != nil {
			// While another override was in force, requests under another limit may have used more of the key's state
			// than the remembered denial knows.
			a.Retry = min(a.Retry, spared.Retry)
			if spared.Retry > 0 && *spared == a {
				return a
			}
		}
	}
	if denied != nil {
		return answer{Reason: denied[0].reason, Rule: denied[0].rule, Retry: retry}
	}
	wouldDeny := false
	for _, d := range shadow { // each by itself, and apart from the enforced limits
		d.Subject.Space = "watched"
		denied, _, _ := m.take(now, []due{d})
		wouldDeny = wouldDeny || denied != nil
	}
	a := answer{Allowed: true, Shadowed: wouldDeny, Reason: "cold"}
	for i, key := range keys {
		switch action := m.override(key); {
		case a.Reason != "cold":
		case action == rules.ActionLimit:
			a.Reason = "override"
		case action == rules.ActionExempt && !m.exempt(ruleOf[i], keys, ruleOf):
		case action == rules.ActionExempt:
			a.Reason = "exempt"
		case slices.Contains(m.hot, key):
			a.Reason = "hot"
		}
	}
	for i := range results {
		if i == 0 || results[i].Remaining < a.Left {
			a.Left = results[i].Remaining
		}
	}
	return a
}

func TestGateAgreesWithModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		set, err := rules.Parse("model.yaml", []byte(modelRules))
		if err != nil {
			t.Fatal(err)
		}
		m := &model{set: set, store: limit.NewMemory(limit.MemoryConfig{})}
		b := assemble(set, gate.Config{})
		ids := []string{"1", "2"}
		all := []hottype.Key{"one?id=1", "one?id=2", "two?id=1", "two?id=2", "try?id=1", "try?id=2"}
		t.Repeat(map[string]func(*rapid.T){
			"ask": func(t *rapid.T) {
				asked, crawler := rapid.SampledFrom([]string{"1", "2", "1 2", "2 1 2"}).Draw(t, "ids"),
					rapid.Bool().Draw(t, "crawler")
				path, counting := "/t?", set.Rules[:2]
				if rapid.Bool().Draw(t, "try") {
					path, counting = "/try?", set.Rules[2:]
				}
				var keys []hottype.Key
				var ruleOf []*rules.Rule
				for _, r := range counting {
					for _, id := range ids {
						if strings.Contains(asked, id) {
							keys, ruleOf = append(keys, hottype.Key(r.Name+"?id="+id)), append(ruleOf, r)
						}
					}
				}
				req := request(path+"id="+strings.ReplaceAll(asked, " ", "&id="),
					rapid.SampledFrom([]string{"1.1.1.1", "2.2.2.2"}).Draw(t, "client"))
				req.Cost = rapid.Int64Range(0, 3).Draw(t, "cost")
				if crawler {
					req.Header = http.Header{"User-Agent": {"bot"}}
				}
				for range rapid.IntRange(1, 9).Draw(t, "times") {
					b.compare(t, m, req, keys, ruleOf, crawler)
				}
			},
			"time": func(t *rapid.T) {
				b.now = b.now.Add(time.Duration(rapid.IntRange(1, 1500).Draw(t, "ms")) * time.Millisecond)
			},
			"hot": func(t *rapid.T) {
				m.hot = rapid.SliceOfDistinct(rapid.SampledFrom(all), rapid.ID[hottype.Key]).Draw(t, "hot")
				b.hot(m.hot...)
			},
			"override": func(t *rapid.T) {
				m.over = nil
				for _, key := range rapid.SliceOfDistinct(rapid.SampledFrom(all), rapid.ID[hottype.Key]).
					Draw(t, "overridden") {
					actions := []rules.Action{rules.ActionExempt, rules.ActionBlock, rules.ActionShadow,
						rules.ActionLimit}
					if key.Resource() == "two" {
						actions = actions[:3] // a refund after a change of the limit may give back less
					}
					m.over = append(m.over, rules.Override{
						ID: rules.OverrideID(string(key)), Key: string(key), Rate: 1, Burst: 2,
						Action: rapid.SampledFrom(actions).Draw(t, "action"),
					})
				}
				b.SetOverrides(slices.Concat(m.tried, m.over))
			},
			"try": func(t *rapid.T) {
				m.tried = nil
				keys := rapid.SliceOfDistinct(rapid.SampledFrom(all), rapid.ID[hottype.Key])
				for _, key := range keys.Draw(t, "tried") {
					o := rules.Override{ID: "tried-" + rules.OverrideID(string(key)), Key: string(key),
						Action: rules.ActionBlock, Mode: hottype.ModeShadow}
					if rapid.Bool().Draw(t, "limit") {
						o.Action, o.Rate, o.Burst = rules.ActionLimit, 1, 3
					}
					m.tried = append(m.tried, o)
				}
				b.SetOverrides(slices.Concat(m.tried, m.over))
			},
		})
	})
}

// compare puts a request to both.
func (b *bundle) compare(t *rapid.T, m *model, req *hottype.Request, keys []hottype.Key, ruleOf []*rules.Rule,
	crawler bool) {
	before := b.Stats().CachedDenials
	v := b.Decide(t.Context(), b.now, req)
	got := answer{v.Allowed, v.WouldDeny, v.Reason.String(), v.Rule, v.Remaining, v.RetryAfter}
	if !v.Allowed || v.Mode == hottype.ModeShadow {
		got.Left = 0 // of a denial, or of nothing that is enforced
	}
	if v.Allowed {
		got.Rule = ""
	}
	var spared *answer
	if b.Stats().CachedDenials > before {
		spared = &got
	}
	if diff := cmp.Diff(m.ask(b.now, req, keys, ruleOf, crawler, spared), got); diff != "" {
		t.Fatalf("%s: %s", req.Target, diff)
	}
}
