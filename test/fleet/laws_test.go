package fleet

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// laws judges the observations of a run, once a virtual second. Laws of safety always hold. Laws that depend on a link
// that a fault cuts hold again a stated time after the last fault has ended.
type laws struct {
	w      *World
	broken map[string]int // how often, by law
	report func(format string, args ...any)

	held     []bool                   // by second: all limiters held the viral key hot
	differed map[string]time.Duration // since when a limiter does not know the truth
	blocking map[string]bool          // "process block" that was seen in force
	knew     map[string]bool          // processes that held the viral key hot
	commands uint64                   // of Redis, a second ago
	judged   int                      // warnings that were looked at
	notified int                      // and events
	verdicts []verdict                // of the last 21 s
	found    map[string]time.Duration // when an exact count found a value hot
	loops    map[string]time.Duration // when a limiter last took a key for a loop
}

func newLaws(w *World, report func(format string, args ...any)) *laws {
	return &laws{w: w, broken: map[string]int{}, report: report, differed: map[string]time.Duration{},
		blocking: map[string]bool{}, knew: map[string]bool{}, found: map[string]time.Duration{},
		loops: map[string]time.Duration{}}
}

// breach reports the first breaches of a law and counts all.
func (l *laws) breach(law, format string, args ...any) {
	if l.broken[law]++; l.broken[law] <= 2 {
		l.report("%s at %.2fs: %s", law, l.w.at().Seconds(), fmt.Sprintf(format, args...))
	}
}

// String names the laws that were broken.
func (l *laws) String() string {
	var all []string
	for law, n := range l.broken {
		all = append(all, fmt.Sprintf("%s %d", law, n))
	}
	sort.Strings(all)
	return strings.Join(all, ", ")
}

// calmSince returns the time at which the last fault ended, or now while there is a fault.
func (l *laws) calmSince() time.Duration {
	now, last := l.w.at(), time.Duration(0)
	for _, f := range l.w.plan.faults {
		if f.at <= now {
			last = max(last, min(f.end(), now))
		}
	}
	return last
}

// trouble returns the sum of the parts of the stretch in which faults last, each with two seconds after it, and the
// number of these faults.
func (l *laws) trouble(from, to time.Duration) (sum time.Duration, n int) {
	for _, f := range l.w.plan.faults {
		if d := min(to, f.end()+2*time.Second) - max(from, f.at); d > 0 {
			sum += d
			n++
		}
	}
	return sum, n
}

// judge is called while all nodes wait.
func (l *laws) judge() {
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	now, calm := w.at(), w.at()-l.calmSince()
	verdicts := w.seen.since(now - 21*time.Second)
	l.verdicts = verdicts
	l.judgeVerdicts(now, verdicts)
	l.judgeHot(now, calm)
	l.judgeBucket(now, calm, verdicts)
	l.judgeWindow(now, verdicts)
	l.judgeBlocks(now, calm)
	l.judgeStates(now, calm)
	l.judgeReadiness()
	l.judgeSentinels(now)
	l.judgeDeafness(now)
	l.judgeEvents(now)
	l.judgeWarnings(now)
	l.judgeCost(now, calm)
}

// judgeVerdicts judges single requests: cold keys are never denied, and no decision takes longer than the budget.
func (l *laws) judgeVerdicts(now time.Duration, verdicts []verdict) {
	for _, v := range verdicts {
		if v.at < now-time.Second {
			continue
		}
		if v.took > budget+5*time.Millisecond {
			l.breach("slow", "%s decided about %s after %v", v.limiter, v.id, v.took)
		}
		switch v.id {
		case viral, slow, flapping:
		case loop:
			if v.hot || !v.allowed && v.reason != hottype.ReasonIPFixed {
				l.breach("loop-limited", "%s: hot %v, allowed %v (%v)", v.limiter, v.hot, v.allowed, v.reason)
			}
		default:
			if (v.hot || !v.allowed) && !l.mayBeHot(v.id) {
				l.breach("cold-limited", "%s: %s: hot %v, allowed %v (%v)", v.limiter, v.id, v.hot, v.allowed, v.reason)
			}
		}
	}
}

// findWithin is the time for which a key at twice the threshold may stay unknown, and releaseWithin the time for which
// a key may stay hot when its requests have ended, while all links are open.
const (
	findWithin    = 3 * time.Second
	releaseWithin = hotWindow + cooldown + time.Second
	healWithin    = 5 * time.Second // after the last fault
	sayWithin     = 8 * time.Second // silence of an aggregator counts after 5 s
	unnoticed     = 2 * time.Second // silence of counts
	// alarmWithin is also the time for which a lost datagram may keep an alarm: it counts in the loss of 3 s, which has
	// to be low for 2 s, and senders, the collector and the aggregator report once a second each.
	alarmWithin = 10 * time.Second
)

// judgeHot compares the hot keys of limiters with the truth.
func (l *laws) judgeHot(now, calm time.Duration) {
	w, all := l.w, true
	wanted := now > w.plan.viralFrom+findWithin && now < w.plan.viralTo
	released := now > w.plan.viralTo+releaseWithin+time.Second
	for _, limiter := range w.limiters {
		if limiter == nil {
			all = false
			continue
		}
		if limiter.held.isFrozen() {
			all = false
			delete(l.differed, limiter.name)
			continue
		}
		l.judgeLoops(limiter)
		hot := false
		for _, k := range limiter.Hot.Hot(limiter.clock.now()) {
			switch k.Key {
			case keyOf(viral):
				hot = true
			case keyOf(slow), keyOf(flapping):
			default:
				if !l.mayBeHot(idOf(k.Key)) {
					l.breach("hot-without-cause", "%s holds %s hot", limiter.name, k.Key)
				}
			}
		}
		all = all && hot
		l.judgeKept(limiter, hot, wanted)
		wrong := wanted && !hot || released && hot
		since, differed := l.differed[limiter.name]
		switch {
		case !wrong:
			delete(l.differed, limiter.name)
		case !differed, l.w.kafka != nil && l.says(limiter): // then it takes findWithin
			l.differed[limiter.name] = now
		case now-since >= sayWithin && !l.says(limiter):
			l.breach("silent", "%s does not know since %v that %s is hot or over, and no state says so", limiter.name, since,
				viral)
		}
		if wrong && calm > healWithin && now-limiter.began > healWithin {
			l.breach("hot-wrong", "%s holds %s hot: %v; it is viral: %v", limiter.name, viral, hot, wanted)
		}
	}
	l.held = append(l.held, all)
}

// says reports whether a state of a limiter, or of an aggregator, shows that detection is disturbed.
func (l *laws) says(limiter *Limiter) bool {
	st := limiter.Feed.Stats().Hot
	if hot := limiter.Hot.Stats(limiter.clock.now()); st.Err != "" || st.AgeSeconds > 1 || hot.StalePublishers > 0 ||
		hot.NoInputPublishers > 0 || hot.Publishers == 0 {
		return true
	}
	if _, ok := limiter.sender.Status(); !ok || limiter.sender.loss() > 0.05 {
		return true
	}
	read := 0
	for _, a := range l.w.aggregators {
		if a != nil && a.held.isFrozen() {
			continue
		}
		if a == nil || a.Aggregate.CheckSources() != nil || a.Aggregate.CheckPublication() != nil {
			return true
		}
		if a.consumer != nil {
			read += int(a.consumer.Stats().Partitions)
		}
	}
	return l.w.kafka != nil && read < kafkaPartitions
}

// judgeBucket judges the allowed requests for the viral key in the last seconds, if all limiters held it hot.
func (l *laws) judgeBucket(now, calm time.Duration, verdicts []verdict) {
	for _, stretch := range []time.Duration{time.Second, 5 * time.Second, 20 * time.Second} {
		n := int(stretch / time.Second)
		if len(l.held) <= n || !allTrue(l.held[len(l.held)-n-1:]) {
			continue
		}
		from, allowed, wanted := now-stretch, 0, 0
		for _, v := range verdicts {
			if v.id == viral && v.at >= from {
				wanted++
				if v.allowed {
					allowed++
				}
			}
		}
		rate := float64(limitRate)
		least := rate
		if now > l.w.plan.push {
			rate = secondRate
		}
		trouble, faults := l.trouble(from, now)
		most := limitBurst + rate*stretch.Seconds() + float64(faults)*limitBurst + rate*trouble.Seconds()
		if l.dialsSlowly(from) {
			most += limitBurst + rate
		}
		if float64(allowed) > most {
			l.breach("overshoot", "%d of %s allowed in %v, at most %.0f", allowed, viral, stretch, most)
		}
		if l.happened(l.w.plan.viralFrom, now, "set-back-redis") {
			continue // time never runs backwards for a key: docs/limits.md
		}
		if wish := 0.9*min(least*stretch.Seconds(), float64(wanted)) - 3; calm > stretch+healWithin &&
			now < l.w.plan.viralTo && float64(allowed) < wish {
			l.breach("undershoot", "%d of %d for %s allowed in %v, at least %.0f", allowed, wanted, viral, stretch,
				wish)
		}
	}
}

func allTrue(list []bool) bool {
	for _, b := range list {
		if !b {
			return false
		}
	}
	return true
}

// judgeWindow judges each window of the clock of the client that sends the loop.
func (l *laws) judgeWindow(now time.Duration, verdicts []verdict) {
	if now%ipWindow != 0 || now <= ipWindow {
		return
	}
	from, allowed := now-ipWindow, 0
	for _, v := range verdicts {
		if v.id == loop && v.allowed && v.at >= from && v.at < now {
			allowed++
		}
	}
	n := l.w.plan.limiters
	const loopRate, exchange = 50, 0.15 // s: an interval, and a round trip
	most := ipLimit + float64(n-1)*loopRate*exchange + 3
	if _, faults := l.trouble(from-2*time.Second, now); faults > 0 || l.dialsSlowly(from) {
		most = float64(n+faults) * ipLimit
	}
	if float64(allowed) > most {
		l.breach("window", "%d requests of one client allowed in a window, at most %.0f", allowed, most)
	}
	if allowed < ipLimit*9/10 && l.w.plan.traffic[2].only >= 0 && now-l.calmSince() > ipWindow+healWithin {
		l.breach("window-low", "%d requests of one client allowed in a window of %d", allowed, ipLimit)
	}
}
