package detect

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

// SetRules replaces the rules. A rule is identified by its name. If its window is unchanged, its counts are kept and
// judged by the new thresholds. If its window has changed, counting begins again, and hot keys stay hot until they
// cool. Hot keys of removed rules, and keys that now belong to another rule, leave with the next Tick. SetRules visits
// every key that is counted.
func (d *Detector) SetRules(set *rules.Set) {
	d.judging.Lock()
	defer d.judging.Unlock()
	d.rules.Lock()
	defer d.rules.Unlock()
	for _, l := range d.shards {
		if !l.now.IsZero() { // seconds until now are judged by the old rules
			l.advance(time.Unix(0, d.clock.Load()))
		}
	}
	before, old := d.routes, d.traffic
	d.routes, d.traffic, d.uses = newRoutes(set), nil, rules.NewUses(set, d.uses)
	d.span = wholeSeconds(d.opts.Future) + 1
	all := make([]*compiledRule, len(set.Rules))
	for i, r := range set.Rules {
		all[i] = compileRule(r)
		d.span = max(d.span, wholeSeconds(d.opts.Future)+all[i].window)
		d.traffic = append(d.traffic, d.keptTraffic(all[i], before, old))
	}
	for _, l := range d.shards {
		l.setRules(all, before)
	}
}

// keptTraffic returns the traffic of a rule: the old one if the rule's window is unchanged, or else an empty one.
func (d *Detector) keptTraffic(t *compiledRule, before *routes, old []*traffic) *traffic {
	if i, ok := before.byName[t.rule.Name]; ok && old[i].cfg.Window == t.window {
		return old[i]
	}
	return newTraffic(t, d.opts, d.seed, time.Unix(0, d.clock.Load()).Unix())
}

// setRules replaces the rule states of a shard. The Detector must already have its new routes.
func (l *shard) setRules(all []*compiledRule, before *routes) {
	now := time.Unix(l.second, 0)
	old := l.states
	for _, h := range old {
		h.recheckCandidates(now) // by the old rules
	}
	l.states = nil
	uses := l.d.uses // captured, because a replaced state asks the uses of its rules once more
	for i, t := range all {
		var h *ruleState
		withholds := func(key hottype.Key) bool { return uses.Withholds(i, l.second, key) }
		if k, ok := before.byName[t.rule.Name]; ok {
			h, old[k] = old[k], nil
			l.dropMovedKeys(h, i)
			h.traffic, h.withholds = l.d.traffic[i], withholds
			h.applyRule(t, l.second, func(key hottype.Key) bool { return l.d.routes.ruleFor(key) == i })
			for _, c := range h.candidates {
				if c != nil { // keys that the new rules make hot are hot from the next Tick on
					c.seen = true
				}
			}
		} else {
			h = &ruleState{opts: l.d.opts, clients: newClientSketches(t.window, l.budget), traffic: l.d.traffic[i],
				withholds: withholds}
			h.setRule(t)
			h.restartCounts(l.second)
		}
		l.states = append(l.states, h)
	}
	for _, h := range old {
		if h != nil {
			l.dropMovedKeys(h, -1)
			h.clients.clear()
		}
	}
}

func (h *ruleState) applyRule(t *compiledRule, second int64, owns func(hottype.Key) bool) {
	now := time.Unix(second, 0)
	if t.window != h.compiled.window {
		h.clients.clear()
		h.clients = newClientSketches(t.window, h.clients.budget)
		h.setRule(t)
		h.restartCounts(second)
		return
	}
	h.setRule(t)
	h.recheckCandidates(now)
	for _, c := range h.candidates {
		if c != nil && !c.isHot() {
			h.counts.SetThreshold(c.watch, t.rateThreshold())
		}
	}
	h.addUnwatched(now, owns)
}

// dropMovedKeys removes the candidates of h that the rule at a position no longer judges.
func (l *shard) dropMovedKeys(h *ruleState, rule int) {
	for _, c := range h.candidates {
		if c == nil || l.d.routes.ruleFor(c.key) == rule && rule >= 0 {
			continue
		}
		hot := h.hotOf(c, h.counts.Read(c.watch), l.now)
		if c.inHotSet {
			l.pendingChanges = append(l.pendingChanges, Change{Kind: Cooled, Hot: hot})
		}
		if c.loop.inLoops {
			l.pendingChanges = append(l.pendingChanges, Change{Kind: LoopEnded, Hot: hot})
		}
		h.removeCandidate(c)
	}
}

// Forget drops the counts of the keys for which the function which returns true, because another aggregator counts them
// from now on. Hot keys among them cool at rate 0: they stay in the hot set for their rule's cooling time, in which the
// other aggregator finds them. Forget visits every key that is counted.
func (d *Detector) Forget(now time.Time, which func(hottype.Key) bool) {
	defer d.lockState()()
	now = d.advanceClock(now)
	for _, l := range d.shards {
		l.mu.Lock()
		now := l.advance(now)
		for _, h := range l.states {
			h.counts.Forget(func(key string) bool { return which(hottype.Key(key)) })
			h.recheckCandidates(now)
		}
		l.mu.Unlock()
	}
}
