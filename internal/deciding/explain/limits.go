package explain

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/limitcore"
	"github.com/hotparam/pipeline/internal/rules"
)

// keyLimits returns the override that is in force for a key, or nil, and a text for each override and limit that
// applies to the key, in the order of precedence.
func (s *State) keyLimits(index *rules.Overrides, r *rules.Rule, key hottype.Key) (*rules.Override, []string) {
	lim := r.LimitFor(key)
	o, out := find(index, func(of *rules.Overrides) *rules.Override { return of.Find([]byte(key), s.At) },
		r.Cost, string(key), ", hot or not")
	text := fmt.Sprintf("rule %s: hot from %s, then", r.Name, r.DescribeHot())
	if key.Params() == canon.Malformed {
		text = fmt.Sprintf("rule %s: malformed requests, hot or not:", r.Name)
		if r.Malformed != rules.MalformedLimit {
			return o, append(out, text+" "+string(r.Malformed))
		}
	} else if r.MinCount() == 0 {
		return o, append(out, fmt.Sprintf("rule %s: no key is hot, because the rule has no hot", r.Name))
	}
	if r.Cost != "" && lim.Set {
		text += fmt.Sprintf(" %s, %s (%s, %s)", specText(r.Cost, lim.Spec), inFlightText(lim.InFlight),
			lim.Scope, lim.Mode)
		return o, append(out, text)
	}
	if f := lim.InFlight; f != nil {
		text += fmt.Sprintf(" at most %d in flight, leases of %v (%s)", f.Limit, f.Lease, f.Scope)
		return o, append(out, text)
	}
	if !lim.Set {
		return o, append(out, strings.TrimSuffix(text, " then")+" never limited")
	}
	text += fmt.Sprintf(" %s (%s, %s)", specText("", lim.Spec), lim.Scope, lim.Mode)
	if lim.Adaptive != nil {
		text += ", " + lim.Adaptive.String()
	}
	if lim.Fair {
		text += ", shared fairly by " + cmp.Or(lim.ClientHeader, "client")
	}
	if len(lim.Priority) > 0 && key.Params() != canon.Malformed {
		text += ", " + "first " + strings.Join(lim.Priority, ", then ")
	}
	return o, append(out, text)
}

// inFlightText describes the bound of requests in flight beside a limit by cost.
func inFlightText(f *rules.InFlight) string {
	if f.Limit == 0 {
		return "as many in flight as the burst holds at the mean cost of the key"
	}
	return fmt.Sprintf("at most %d in flight", f.Limit)
}

// clientOverride returns the override that is in force for a client, or nil, with its text and the text of an override
// in shadow mode.
func (s *State) clientOverride(index *rules.Overrides, client hottype.Client, class string) (*rules.Override,
	[]string) {
	return find(index, func(of *rules.Overrides) *rules.Override {
		return cmp.Or(of.FindClient(client.Addr, s.At), of.FindClass(class, s.At))
	}, "", "", ", in the place of the windows below")
}

// find returns the override that is in force, its text, and the text of the override in shadow mode that would be in
// force if it were enforced. in looks an override up.
func find(index *rules.Overrides, in func(*rules.Overrides) *rules.Override, cost hottype.Cost, key,
	instead string) (o *rules.Override, texts []string) {
	if o = in(index); o != nil {
		texts = append(texts, overrideText(o, cost, key, instead))
	}
	if tried := in(index.WithShadow()); tried != nil && tried.InShadow() {
		texts = append(texts, overrideText(tried, cost, key, instead))
	}
	return o, texts
}

// overrideText describes the effect of an override. It names the override's target if that differs from key.
func overrideText(o *rules.Override, cost hottype.Cost, key, instead string) string {
	text := fmt.Sprintf("override %s: %s", idOf(o), o.Action)
	if of := o.Target().String(); of != key {
		text += " of " + of
	}
	if o.Action == rules.ActionLimit {
		text += " " + specText(cost, o.Spec(cost)) + instead
	}
	if o.InShadow() {
		text += ", in shadow mode: only counted"
	}
	if o.Reason != "" {
		text += " (" + o.Reason + ")"
	}
	return text
}

func clientLimits(set *rules.Set, class *rules.Class) []string {
	fixed, sliding, running, who := set.IP.Fixed, set.IP.Sliding, set.IP.InFlight, "every client"
	if class != nil {
		who = "class " + class.Name
		if class.Fixed != nil {
			fixed = class.Fixed
		}
		if class.Sliding != nil {
			sliding = class.Sliding
		}
		running = cmp.Or(class.InFlight, running)
	}
	var out []string
	if running != nil {
		out = append(out, fmt.Sprintf("%s: at most %d in flight, leases of %v (%s)", who, running.Limit, running.Lease,
			running.Scope))
	}
	return append(out, windowTexts(who, fixed, sliding)...)
}

// ruleWindowTexts describes the windows that a client of a class, which may be nil, has for the requests of a rule.
func ruleWindowTexts(r *rules.Rule, class *rules.Class) []string {
	of := r.WindowsFor(class)
	if of == nil {
		return nil
	}
	who := "every client"
	if of != r.PerClient {
		who = "every client of class " + class.Name
	}
	return windowTexts("rule "+r.Name+": hot or not, "+who, of.Fixed, of.Sliding)
}

func windowTexts(who string, windows ...*rules.ClientWindow) (out []string) {
	for _, w := range windows {
		if w == nil {
			continue
		}
		text := fmt.Sprintf("%s: %s", who, specText("", w.Spec))
		if w.Field != nil {
			text += ", by " + w.Field.Header + " of trusted peers"
		}
		if w.Consistency == rules.Async {
			text += ", async"
		}
		if w.Mode == hottype.ModeShadow {
			text += ", shadow: no request is denied"
		}
		out = append(out, text)
	}
	return out
}

// specText describes a limit of a rule with a cost, or of requests if the cost is "".
func specText(cost hottype.Cost, s limit.Spec) string {
	if cost != "" {
		return rules.DescribeCostLimit(cost, s)
	}
	return fmt.Sprintf("%s %d per %v", s.Algorithm, s.Limit, s.Window) + limitcore.Spec(s).Options()
}
