package fleet

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// judgeBlocks judges overrides: an acknowledged override is in force within a second, and is never lost.
func (l *laws) judgeBlocks(now, calm time.Duration) {
	for _, limiter := range l.w.limiters {
		if limiter == nil || limiter.held.isFrozen() {
			continue
		}
		for _, b := range l.w.blocks {
			// Each second uses another client, which no window denies.
			client := 1000 + uint32(now.Seconds())
			v := limiter.Gate.Decide(context.Background(), limiter.clock.now(), request(b.id, client))
			known := limiter.name + " " + b.id
			due := calm > 2*time.Second && now-limiter.began > 2*time.Second
			switch {
			case b.put == 0 || b.lifting && b.lifted == 0:
			case b.lifted > 0:
				if due && now > b.lifted+time.Second && v.Reason == hottype.ReasonBlocked {
					l.breach("block-stays", "%s denies %s, lifted at %v", limiter.name, b.id, b.lifted)
				}
			case v.Reason == hottype.ReasonBlocked:
				l.blocking[known] = true
			case l.blocking[known]:
				l.breach("block-lost", "%s allowed %s, which it had blocked", limiter.name, b.id)
			case due && now > b.put+time.Second:
				l.breach("block-late", "%s allows %s, blocked at %v", limiter.name, b.id, b.put)
			}
		}
	}
}

// judgeStates judges the states that processes report, and that one aggregator publishes, or every aggregator if counts
// go by Kafka.
func (l *laws) judgeStates(now, calm time.Duration) {
	w, publishing, publishers := l.w, 0, 1
	// The programs restore rules that Redis has lost from their copy on disk, which the nodes here do not have.
	late := w.pushed > 0 && now > w.pushed+2*time.Second && calm > 2*time.Second &&
		!l.meets("lose-redis", w.pushed, runFor)
	for _, a := range w.aggregators {
		if a == nil {
			continue
		}
		if a.Feed.Stats().Publishing {
			publishing++
		}
		if late && now-a.began > 2*time.Second && a.rules.Load() == 0 {
			l.breach("rules-late", "%s runs the first rules; others were pushed at %v", a.name, w.pushed)
		}
		if calm > alarmWithin {
			if err := a.Aggregate.CheckSources(); err != nil {
				l.breach("alarm-stays", "%s: %v", a.name, err)
			}
			if err := a.Aggregate.CheckPublication(); err != nil {
				l.breach("alarm-stays", "%s: %v", a.name, err)
			}
		}
	}
	if w.kafka != nil {
		publishers = len(w.aggregators)
	}
	if calm > healWithin && now > healWithin && publishing != publishers {
		l.breach("leaders", "%d aggregators publish", publishing)
	}
	for _, limiter := range w.limiters {
		if limiter == nil {
			continue
		}
		if n := limiter.Gate.Stats().Panics; n > 0 {
			l.breach("panics", "%s: deciding panicked %d times", limiter.name, n)
		}
		if late && now-limiter.began > 2*time.Second && limiter.rules.Load() == 0 {
			l.breach("rules-late", "%s runs the first rules; others were pushed at %v", limiter.name, w.pushed)
		}
		if calm <= alarmWithin || now-limiter.began < alarmWithin {
			continue
		}
		if limiter.Gate.Stats().StoreOpen && !l.dialsSlowly(now-2*time.Second) {
			l.breach("alarm-stays", "%s: the breaker is open", limiter.name)
		}
		lately := w.start.Add(now - alarmWithin)
		if text, ok := limiter.sender.Status(); !ok && !w.net.missedDatagram(limiter.name, lately) {
			l.breach("alarm-stays", "%s: %s", limiter.name, text)
		}
		if st := limiter.Hot.Stats(limiter.clock.now()); st.StalePublishers+st.NoInputPublishers > 0 {
			l.breach("alarm-stays", "%s: %d publishers stale, %d without input", limiter.name, st.StalePublishers,
				st.NoInputPublishers)
		}
	}
}

// judgeDeafness judges that processes report counts that do not arrive: the senders, and the receivers that get none.
func (l *laws) judgeDeafness(now time.Duration) {
	w := l.w
	if len(w.plan.faults) != 1 {
		return
	}
	f := w.plan.faults[0]
	if w.kafka != nil {
		l.judgeOutage(f)
		return
	}
	if f.kind != "deaf" && f.kind != "no-input" || now <= f.at+sayWithin || now >= f.end() {
		return
	}
	aggregator := w.aggregators[f.who%len(w.aggregators)]
	if f.kind == "no-input" && aggregator.Aggregate.CheckSources() == nil {
		l.breach("deaf", "%s does not say that it has no input", aggregator.name)
	}
	if f.kind == "no-input" && w.plan.collector || !w.plan.collector && !aggregator.Feed.Stats().Publishing {
		return // limiters do not know; a standby's input is not reported
	}
	for i, limiter := range w.limiters {
		if f.kind == "deaf" && i != f.who%len(w.limiters) {
			continue
		}
		if text, ok := limiter.sender.Status(); ok {
			l.breach("deaf", "nothing that %s sends arrives, and it says: %s", limiter.name, text)
		}
	}
}

// judgeOutage judges the same as judgeDeafness if counts go through Kafka. Readers do not notice that one producer is
// away, and limiters do not notice that a reader is away.
func (l *laws) judgeOutage(f fault) {
	if l.w.at() <= f.at+sayWithin || l.w.at() >= f.back() {
		return
	}
	all := f.kind == "freeze-kafka" || f.kind == "restart-kafka"
	for i, a := range l.w.aggregators {
		of := all || f.kind == "no-input" && i == f.who%len(l.w.aggregators)
		if of && a.Aggregate.CheckSources() == nil {
			l.breach("deaf", "%s does not say that it has no input", a.name)
		}
	}
	for i, limiter := range l.w.limiters {
		of := all || f.kind == "deaf" && i == f.who%len(l.w.limiters)
		if text, ok := limiter.sender.Status(); ok && of {
			l.breach("deaf", "nothing that %s sends arrives, and it says: %s", limiter.name, text)
		}
	}
}

// judgeWarnings judges the logs: a warning has a cause, and ends with it.
func (l *laws) judgeWarnings(now time.Duration) {
	s := l.w.seen
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, warn := range s.warnings[l.judged:] {
		caused := warn.at < time.Second || warn.at > runFor ||
			l.w.net.lostSegment(warn.who, l.w.start.Add(warn.at-time.Second)) ||
			l.w.net.missedDatagram(warn.who, l.w.start.Add(warn.at-alarmWithin))
		for _, f := range l.w.plan.faults {
			caused = caused || warn.at >= f.at && warn.at <= f.end()+alarmWithin
		}
		if strings.Contains(warn.text, "Sentinel") {
			caused = caused || l.w.plan.causedBySentinels(warn.at)
		}
		if !caused {
			l.breach("alarm-without-cause", "%s at %v: %s", warn.who, warn.at, warn.text)
		}
	}
	l.judged = len(s.warnings)
	for who, n := range s.lines {
		if float64(n) > 20+2*now.Seconds() {
			l.breach("log-lines", "%s wrote %d lines", who, n)
			s.lines[who] = 0
		}
	}
}

// judgeCost judges the number of commands to Redis in a second without faults.
func (l *laws) judgeCost(now, calm time.Duration) {
	l.w.redis.mu.Lock()
	commands := l.w.redis.commands
	l.w.redis.mu.Unlock()
	asked := commands - l.commands
	l.commands = commands
	if now < 2*time.Second || calm < 2*time.Second {
		return
	}
	if most := uint64(60*(len(l.w.limiters)+len(l.w.aggregators)) + 3*hotRate*6); asked > most {
		l.breach("redis-commands", "%d commands in a second, at most %d", asked, most)
	}
}

// judgeEnd judges the errors of all ended processes and the keys that are left in Redis.
func (l *laws) judgeEnd() {
	for _, p := range l.w.over {
		if p.err != nil && !p.quiet.Load() {
			l.breach("stop", "%s ended with %v", p.name, p.err)
		}
	}
	time.Sleep(25 * time.Hour)
	l.w.redis.mu.Lock() // connections end without a word to this goroutine
	l.w.redis.expire()
	left, err := l.w.redis.call([]string{"KEYS", "*"})
	l.w.redis.mu.Unlock()
	if err != nil {
		l.breach("left-over", "%v", err)
	}
	keys, _ := left.([]any)
	for _, k := range keys {
		key := fmt.Sprintf("%s", k)
		if !strings.Contains(key, "override") && !strings.Contains(key, "rules") && !strings.Contains(key, "audit") {
			l.breach("left-over", "Redis still has %s a day later", key)
		}
	}
}
