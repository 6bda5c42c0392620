package gate

import (
	"slices"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/rules"
)

// RuleTooMany is the rule that denies a request which matches more rules with per_client than are charged, as
// malformed. Servers read such a request in different ways.
const RuleTooMany = "per_client"

// ruleWindows holds the windows that the clients of a class have for the requests of one rule. A subject of these
// windows has the names of rule and class beside the client, so that the windows of all rules have two spaces, and a
// limit.Memory bounds them together.
type ruleWindows struct {
	windows [2]*boundLimit       // fixed and sliding; nil if there is no such window
	local   *limit.ClientWindows // the same, if this process keeps all, or nil if they are charged singly
}

// classRuleWindows holds the windows of a class by the index of their rule, and for preflights. A rule without windows
// has nil.
type classRuleWindows struct{ usual, preflight []*ruleWindows }

// compileRuleWindows compiles the windows of clients of all rules, for each class that has windows of its own, and for
// all others under the name "". It returns nil if no rule has windows.
func (st *state) compileRuleWindows() map[string]classRuleWindows {
	if !st.set.LimitsClientsByRule() {
		return nil
	}
	all := map[string]classRuleWindows{"": st.compileClassRuleWindows(nil)}
	for _, c := range st.set.Classes {
		if c.PerClient != nil {
			all[c.Name] = st.compileClassRuleWindows(c)
		}
	}
	return all
}

func (st *state) compileClassRuleWindows(c *rules.Class) (of classRuleWindows) {
	of.usual, of.preflight = make([]*ruleWindows, len(st.set.Rules)), make([]*ruleWindows, len(st.set.Rules))
	for i, r := range st.set.Rules {
		if w := r.WindowsFor(c); w != nil {
			name := r.Name
			if c != nil {
				name += ":" + c.Name
			}
			of.usual[i] = st.bindRuleWindows(w, r, name)
			of.preflight[i] = st.bindRuleWindows(w, r, name+preflightSpace)
		}
	}
	return of
}

func (st *state) bindRuleWindows(of *rules.PerClient, r *rules.Rule, name string) *ruleWindows {
	w := &ruleWindows{}
	for i, one := range []*rules.ClientWindow{of.Fixed, of.Sliding} {
		if one == nil {
			continue
		}
		reason := [...]hottype.Reason{hottype.ReasonClientFixed, hottype.ReasonClientSliding}[i]
		b := st.compileWindow(one, reason, "")
		b.name, b.rule, b.of = name, r.Name, r
		w.windows[i] = b
	}
	if st.local != nil {
		w.local = st.localWindows(w.windows)
	}
	return w
}

// ruleWindowsOf returns the windows of a class by rule. A class without windows of its own shares the windows, and
// their counts, with all clients without a class.
func (st *state) ruleWindowsOf(class string) classRuleWindows {
	if own, ok := st.ruleWindows[class]; ok {
		return own
	}
	return st.ruleWindows[""]
}

// findRuleWindows finds the windows of the client for the requests of the rules that match the request, each once.
func (d *decision) findRuleWindows() {
	for i := range d.matches {
		w := d.class.byRule[d.matches[i].Rule.Index]
		switch {
		case w == nil || slices.Contains(d.perClient, w):
		case len(d.perClient) == rules.MaxClientRules:
			d.tooManyRules = true
		default:
			d.perClient = append(d.perClient, w)
		}
	}
}

// chargeRuleWindows adds the windows of the client for the requests of the matched rules.
func (d *decision) chargeRuleWindows(shadow bool) {
	for _, of := range d.perClient {
		for _, w := range of.windows {
			if w != nil {
				d.chargeWindow(w, shadow)
			}
		}
	}
}

// takeRuleWindows takes a request from the windows of one rule and from the windows of all requests, if this process
// keeps both. Otherwise, and if any denies, it takes nothing.
func (d *decision) takeRuleWindows(v *verdict.Verdict) bool {
	c, of := d.class, d.perClient[0]
	hasOthers := c.windows != [2]*boundLimit{}
	if len(d.perClient) > 1 || of.local == nil || hasOthers && c.local == nil {
		return false
	}
	if !hasOthers {
		var results [limit.MaxClientWindows]limit.Result
		if !of.local.Take(d.now, &d.client, d.cost, results[:]) {
			return false
		}
		d.reportWindows(v, &of.windows, results[:])
		return true
	}
	var results [2 * limit.MaxClientWindows]limit.Result
	if !c.local.TakeBoth(d.now, &d.client, of.local, d.cost, results[:]) {
		return false
	}
	n := d.reportWindows(v, &c.windows, results[:])
	d.reportWindows(v, &of.windows, results[n:])
	return true
}

// reportWindows fills in the numbers of windows that allowed the request, and returns the number of windows.
func (d *decision) reportWindows(v *verdict.Verdict, windows *[2]*boundLimit, results []limit.Result) (n int) {
	for _, w := range windows {
		if w != nil {
			d.reportLimit(v, w, &results[n])
			n++
		}
	}
	return n
}

// keyUnder returns the first key of the request under a rule, or the first key of the request.
func (d *decision) keyUnder(r *rules.Rule) hottype.Key {
	for i := range d.keys {
		if d.matches[i].Rule == r {
			return d.keyName(i)
		}
	}
	return d.keyFor(-1)
}
