package fleet

import (
	"fmt"
	"time"
)

// cause causes a fault.
func (w *World) cause(f fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.note("fault %v", f)
	l, a := f.who%len(w.limiters), f.who%len(w.aggregators)
	limiter, aggregator := w.limiters[l], w.aggregators[a]
	switch f.kind {
	case "freeze-redis":
		w.redis.Freeze(f.took)
	case "set-back-redis":
		w.redis.SetBack(time.Duration(f.who) * time.Second)
	case "lose-redis", "restart-redis":
		if f.kind == "lose-redis" {
			w.redis.Lose()
		}
		w.net.Kill(redisNode)
		w.after(f.back(), func() { w.net.Revive(redisNode) })
	case "cut-webhook":
		w.net.Kill(webhookNode)
		w.after(f.back(), func() { w.net.Revive(webhookNode) })
	case "cut-limiter":
		if limiter != nil {
			w.net.CutBoth(limiter.name, redisNode, f.took)
		}
	case "cut-aggregator":
		if aggregator != nil {
			w.net.CutBoth(aggregator.name, redisNode, f.took)
		}
	case "kill-limiter":
		if limiter != nil {
			limiter.kill()
			w.over = append(w.over, &limiter.process)
			w.limiters[l] = nil
			w.after(f.back(), func() { w.locked(func() { w.startLimiter(l) }) })
		}
	case "kill-aggregator", "hand-over":
		if aggregator == nil {
			return
		}
		if f.kind == "hand-over" {
			aggregator.stop()
		} else {
			aggregator.kill()
			w.net.Kill(aggregatorNode(a))
			w.net.Revive(aggregatorNode(a))
		}
		w.over = append(w.over, &aggregator.process)
		w.aggregators[a] = nil
		w.after(f.back(), func() {
			<-aggregator.ended
			w.locked(func() { w.startAggregator(a) })
		})
	case "stop-limiter":
		if limiter != nil {
			limiter.halt(f.took)
		}
	case "stop-aggregator":
		if aggregator != nil {
			aggregator.halt(f.took)
		}
	case "stop-collector":
		w.collector.halt(f.took)
	case "freeze-kafka":
		w.kafka.Freeze(f.took)
	case "restart-kafka":
		w.net.Kill(kafkaNode)
		w.after(f.back(), func() { w.net.Revive(kafkaNode) })
	case "leaderless":
		w.kafka.Leaderless(f.who%kafkaPartitions, f.took)
	case "deaf", "storm", "no-input":
		if w.kafka != nil && f.kind != "storm" {
			for _, way := range w.countWays(f) {
				w.net.CutBoth(way[0], way[1], f.took)
			}
			return
		}
		set := func(l Link) {
			for _, way := range w.countWays(f) {
				w.net.Set(way[0], way[1], l)
			}
		}
		bad := w.silence()
		if f.kind == "storm" {
			bad = Link{Delay: 50 * time.Millisecond, Jitter: 100 * time.Millisecond, Loss: 0.4, Double: 0.2, Late: 0.5}
		}
		set(bad)
		good := w.plan.datagrams
		if w.kafka != nil {
			good = w.plan.link
		}
		w.after(f.back(), func() { set(good) })
	case "clock-drift", "clock-jump":
		nodes := []string{fmt.Sprintf("limiter%d", l+1), aggregatorNode(a)}
		c := w.clocks[nodes[f.who/7%2]]
		by := time.Duration(f.who%700-350) * time.Millisecond / 200 // up to 1.75 s
		if f.kind == "clock-jump" {
			c.ahead.Store(int64(by))
			w.after(f.back(), func() { c.ahead.Store(0) })
			return
		}
		const steps = 50
		for i := range steps {
			w.after(f.at+f.took*time.Duration(i+1)/steps,
				func() { c.ahead.Store(int64(by) * int64(steps-1-i) / steps) })
		}
	}
}

func (w *World) aggregatorOf(f fault) string { return aggregatorNode(f.who % len(w.aggregators)) }

// silence is a way that loses all counts.
func (w *World) silence() Link { return Link{Delay: w.plan.datagrams.Delay, Loss: 1} }

// countsTo is the way of counts to an aggregator from a limiter that starts: a fault that all share is its too.
func (w *World) countsTo(aggregator string) Link {
	for _, f := range w.plan.faults {
		if f.kind == "no-input" && w.at() >= f.at && w.at() < f.back() && w.aggregatorOf(f) == aggregator {
			return w.silence()
		}
	}
	return w.plan.datagrams
}

// countWays are the ways of counts that a fault is about: from one process to one, or from all to an aggregator.
func (w *World) countWays(f fault) (ways [][2]string) {
	to := w.aggregatorOf(f)
	switch {
	case w.kafka != nil && f.kind == "no-input":
		if a := w.aggregators[f.who%len(w.aggregators)]; a != nil {
			ways = append(ways, [2]string{a.name, kafkaNode})
		}
		return ways
	case w.kafka != nil:
		to = kafkaNode
	case f.kind == "no-input" && w.plan.collector:
		return [][2]string{{w.collector.name, to}}
	case w.plan.collector:
		to = "collector"
	}
	for i, limiter := range w.limiters {
		if limiter != nil && (f.kind == "no-input" || i == f.who%len(w.limiters)) {
			ways = append(ways, [2]string{limiter.name, to})
		}
	}
	return ways
}

func (w *World) locked(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}
