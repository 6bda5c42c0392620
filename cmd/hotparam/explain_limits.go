package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/limitcore"
	"github.com/hotparam/pipeline/internal/rules"
)

// keyLimits returns a text for each override and limit that applies to a key, in the order of precedence.
func keyLimits(set *rules.Set, r *rules.Rule, key hottype.Key) []string {
	var out []string
	lim := r.LimitFor(key)
	index, now := rules.NewOverrides(set.Overrides, nil), time.Now()
	for _, of := range []*rules.Overrides{index, index.WithShadow()} {
		if o := of.Find([]byte(key), now); o != nil && o.InShadow() == (of != index) {
			out = append(out, overrideText(o, string(key), ", hot or not"))
		}
	}
	text := fmt.Sprintf("rule %s: hot from %s, then", r.Name, r.Hot)
	if key.Params() == canon.Malformed {
		text = fmt.Sprintf("rule %s: malformed requests, hot or not:", r.Name)
		if r.Malformed != rules.MalformedLimit {
			return append(out, text+" "+string(r.Malformed))
		}
	}
	if f := lim.InFlight; f != nil {
		return append(out, fmt.Sprintf("%s at most %d in flight, leases of %v (%s)", text, f.Limit, f.Lease, f.Scope))
	}
	if !lim.Set {
		return append(out, strings.TrimSuffix(text, " then")+" never limited")
	}
	text += fmt.Sprintf(" %s (%s, %s)", specText(lim.Spec), lim.Scope, lim.Mode)
	if lim.Adaptive != nil {
		text += ", " + lim.Adaptive.String()
	}
	if lim.Fair {
		text += ", shared fairly by " + cmp.Or(lim.ClientHeader, "client")
	}
	return append(out, text)
}

func clientOverride(set *rules.Set, client hottype.Client, class string) []string {
	index, now := rules.NewOverrides(set.Overrides, nil), time.Now()
	var out []string
	for _, of := range []*rules.Overrides{index, index.WithShadow()} {
		o := cmp.Or(of.FindClient(client.Addr, now), of.FindClass(class, now))
		if o != nil && o.InShadow() == (of != index) {
			out = append(out, overrideText(o, "", ", in the place of the windows below"))
		}
	}
	return out
}

// overrideText describes the effect of an override. It names the override's target if that differs from key.
func overrideText(o *rules.Override, key, instead string) string {
	text := fmt.Sprintf("override %s: %s", cmp.Or(o.ID, o.DefaultID()), o.Action)
	if of := o.Target().String(); of != key {
		text += " of " + of
	}
	if o.Action == rules.ActionLimit {
		text += " " + specText(o.Spec()) + instead
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
	for _, w := range []*rules.IPWindow{fixed, sliding} {
		if w == nil {
			continue
		}
		text := fmt.Sprintf("%s: %s", who, specText(w.Spec))
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

func specText(s limit.Spec) string {
	return fmt.Sprintf("%s %d per %v", s.Algorithm, s.Limit, s.Window) + limitcore.Spec(s).Options()
}
