package gate

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/deciding/adaptive"
	"github.com/hotparam/pipeline/internal/rules"
)

// CountedSubjects are the subjects under which limits count what a key or a client uses, as
// charges of no cost.
func CountedSubjects(set *rules.Set, c hottype.Command) []limit.Charge {
	if c.Key != "" {
		return []limit.Charge{
			{Subject: limit.Subject{Space: spaceHot, Name: string(c.Key)}},
			{Subject: limit.Subject{Space: spaceWatched, Name: string(c.Key)}},
			{Subject: limit.Subject{Space: spaceCandidate, Name: string(c.Key)}},
			{Subject: limit.Subject{Space: spaceShadow, Name: string(c.Key)}},
		}
	}
	st := newState(nil, set, nil, sharing{}, new(adaptive.Upstreams))
	list := []limit.Charge{
		{Subject: limit.Subject{Space: spaceClient, Client: c.Client}},
		{Subject: limit.Subject{Space: spaceShadow, Client: c.Client}},
	}
	add := func(cl *class) {
		for i, w := range cl.windows {
			if w == nil || cl != &st.everybody && w == st.everybody.windows[i] {
				continue
			}
			list = append(list, limit.Charge{Subject: limit.Subject{Space: w.space, Client: c.Client}, Spec: w.spec})
		}
	}
	add(&st.everybody)
	for _, cl := range st.classes {
		add(cl)
	}
	return list
}

// Reset forgets in this process what a key or a client has used: what is charged to it
// here, refusals that are remembered, and among which clients the key's limit is
// divided. Requests in flight keep their places. What the shared store knows is not
// its matter.
func (g *Gate) Reset(now time.Time, c hottype.Command) {
	st := g.cur.Load()
	for _, charge := range CountedSubjects(st.set, c) {
		g.local.Reset(&charge.Subject)
		if g.async != nil {
			g.async.Reset(&charge.Subject)
		}
	}
	if c.Key != "" {
		g.denials.refund(string(c.Key))
		g.eachLimit(st, now, c.Key, func(h *keyLimit) {
			if h.fair != nil {
				h.fair.key.Reset()
			}
		})
	}
}

// eachLimit calls f with what is remembered of the limits of a key, hot or not.
func (g *Gate) eachLimit(st *state, now time.Time, key hottype.Key, f func(*keyLimit)) {
	names := [][]byte{[]byte(key)}
	if alias, ok := canon.Alias([]byte(key), nil); ok {
		names = append(names, alias)
	}
	for _, name := range names {
		if e := g.hot.Lookup(name, now); e != nil {
			if memo := e.Memo.Load(); memo != nil {
				if h, ok := memo.Value.(*keyLimit); ok {
					f(h)
				}
			}
		}
	}
	for _, o := range st.overrideStates {
		if memo := o.memo.Load(); memo != nil && o.key == key {
			f(memo.h)
		}
	}
	for _, h := range st.malformed {
		if h.malformedKey == key {
			f(h)
		}
	}
}
