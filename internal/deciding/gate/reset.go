package gate

import (
	"maps"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// CountedSubjects returns the subjects under which limits count a key or a client, as charges without a cost.
func CountedSubjects(set *rules.Set, c report.Command) (list []limit.Charge) {
	if c.Key != "" {
		for _, space := range [...]string{spaceHot, spaceWatched, spaceShadow} {
			list = append(list, limit.Charge{Subject: limit.Subject{Space: space, Name: string(c.Key)}})
		}
		return list
	}
	add := func(space, name string, spec limit.Spec) {
		of := limit.Subject{Space: space, Name: name, Client: c.Client}
		list = append(list, limit.Charge{Subject: of, Spec: spec})
	}
	add(spaceClient, "", limit.Spec{})
	add(spaceShadow, "", limit.Spec{})
	st := new(Gate).newState(nil, set, rules.LiveOverrides{})
	usual := &st.defaultClass
	for _, cl := range append(slices.Collect(maps.Values(st.classes)), usual) {
		for i, w := range cl.windows {
			if w != nil && (cl == usual || w != usual.windows[i]) {
				add(w.space, "", w.spec)
				add(w.space+preflightSpace, "", w.spec)
			}
		}
	}
	for _, of := range st.ruleWindows {
		for _, byRule := range slices.Concat(of.usual, of.preflight) {
			if byRule == nil {
				continue
			}
			for _, w := range byRule.windows {
				if w != nil {
					add(w.space, w.name, w.spec)
				}
			}
		}
	}
	return list
}

// Reset deletes the use of limits by a key or a client in this process: its charges, the remembered denials, and the
// fair shares of the key's clients. Requests in flight keep their slots, and the shared store keeps its charges.
func (g *Gate) Reset(now time.Time, c report.Command) {
	st := g.cur.Load()
	for _, charge := range CountedSubjects(st.set, c) {
		g.cfg.Local.Reset(&charge.Subject)
		if g.cfg.Async != nil {
			g.cfg.Async.Reset(&charge.Subject)
		}
	}
	if c.Key != "" {
		g.denials.invalidateDenials(string(c.Key))
		g.eachLimit(st, now, c.Key, func(h *keyLimit) {
			if h.fair != nil {
				h.fair.key.Reset()
			}
		})
	}
}
