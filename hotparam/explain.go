package hotparam

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/explain"
)

// Explain returns how and why the rules and overrides judge a request now: one Explanation for each of its keys, or one
// Explanation without a rule if no rule matches. It counts and charges nothing, so it is for logs and for people who
// ask why a request was denied. It reads no counter of a limit: Verdict has those counters.
func (p *Pipeline) Explain(r Request) []Explanation {
	p.mustBeBuilt()
	gate, now := p.parts.Gate, time.Now()
	set, live := gate.RulesAndLive()
	state := explain.State{Rules: set, Live: live, At: now,
		IsHot:    func(key hottype.Key) bool { return gate.IsHot(now, key) },
		Verified: func(domains string) bool { return gate.IsVerified(now, &r, domains) },
	}
	return state.Explain(&r)
}
