package hotparam

import (
	"context"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/wait"
)

// Event is a change that a Pipeline noticed, for Config.OnEvent.
type Event struct {
	At   time.Time
	Kind EventKind
	// Ended is true if the state is over: an override was removed or has ended, an aggregator receives counts again,
	// the shared store responds again.
	Ended bool
	// Hot is the key of EventHot and EventCold.
	Hot HotKey
	// Override is the override of EventOverride; its Action determines whether it blocks.
	Override rule.Override
	// Err of EventRules is the reason why rules were refused, or nil if the rules hold from now on.
	Err error
}

// EventKind is the kind of an event.
type EventKind string

// The kinds of events.
const (
	EventHot      EventKind = "hot"      // a key became hot
	EventCold     EventKind = "cold"     // a hot key is cold again
	EventOverride EventKind = "override" // a live override was set, changed or removed
	EventBlind    EventKind = "blind"    // the hot set is unknown: it does not come, or counts do not arrive
	EventStore    EventKind = "store"    // the shared store fails, so this process limits alone
	EventRules    EventKind = "rules"    // the rules were replaced, or WatchRules refused a file
)

// eventsEvery is the interval at which the state is compared with the state before.
const eventsEvery = 100 * time.Millisecond

// blindFor is the time for which a pipeline has to be blind before that is an event, because starts and elections take
// a second.
const blindFor = 3 * time.Second

// events finds events by comparing the state with the state before. Its memory is as large as the hot set and the
// overrides.
type events struct {
	p    *Pipeline
	call func(Event)
	live atomic.Pointer[rules.LiveOverrides] // as limiters have them

	changes   uint64    // of the hot set, at the time of the comparison
	compared  time.Time // time of that comparison
	hot       map[hottype.Key]HotKey
	overrides map[string]rules.Override
	blind     bool
	sighted   time.Time // last time at which it was not blind
	storeOpen bool

	mu    sync.Mutex
	rules []Event // EventRules that OnEvent has not received, guarded by mu
}

// mostRuleEvents is the number of EventRules that are kept while OnEvent blocks, or until Run is called; the oldest are
// dropped.
const mostRuleEvents = 100

// recordRules keeps an EventRules until the goroutine that calls OnEvent takes it. err is the reason for which rules
// were refused.
func (e *events) recordRules(err error) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rules = append(e.rules, Event{At: time.Now(), Kind: EventRules, Err: err})
	e.rules = e.rules[max(0, len(e.rules)-mostRuleEvents):]
}

func (e *events) takeRules() []Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	taken := e.rules
	e.rules = nil
	return taken
}

// emitEvents adds the part that calls OnEvent while p runs.
func (p *Pipeline) emitEvents(call func(Event)) {
	e := &events{p: p, call: call, hot: map[hottype.Key]HotKey{}, overrides: map[string]rules.Override{}}
	p.events = e
	p.parts.Overrides = func(live rules.LiveOverrides) { e.live.Store(&live) }
	p.parts.Add(lifecycle.Sinks, "events", func(ctx context.Context) error {
		wait.Every(ctx, eventsEvery, func() { e.compareState(time.Now()) })
		return nil
	})
}

func (e *events) compareState(now time.Time) {
	for _, rules := range e.takeRules() {
		e.call(rules)
	}
	if changes := e.p.parts.Hot.Changes(); changes != e.changes || now.Sub(e.compared) >= time.Second {
		e.changes, e.compared = changes, now
		e.compareHot(now)
	}
	e.compareOverrides(now)
	decided := e.p.parts.Gate.Stats()
	if e.sighted.IsZero() || !e.p.currentHealth(now, &decided).Blind() {
		e.sighted = now
	}
	if decided.StoreOpen != e.storeOpen {
		e.storeOpen = decided.StoreOpen
		e.call(Event{At: now, Kind: EventStore, Ended: !e.storeOpen})
	}
	if blind := now.Sub(e.sighted) >= blindFor; blind != e.blind {
		e.blind = blind
		e.call(Event{At: now, Kind: EventBlind, Ended: !blind})
	}
}

func (e *events) compareHot(now time.Time) {
	hot := map[hottype.Key]HotKey{}
	for _, h := range e.p.parts.Hot.Hot(now) {
		hot[h.Key] = h
		if _, was := e.hot[h.Key]; !was {
			e.call(Event{At: now, Kind: EventHot, Hot: h})
		}
	}
	for key, h := range e.hot {
		if _, is := hot[key]; !is {
			e.call(Event{At: now, Kind: EventCold, Hot: h})
		}
	}
	e.hot = hot
}

func (e *events) compareOverrides(now time.Time) {
	overrides, live := map[string]rules.Override{}, e.live.Load()
	if live == nil {
		return
	}
	for _, o := range live.All() {
		if o.Expired(now) {
			continue
		}
		overrides[o.ID] = o
		if was, found := e.overrides[o.ID]; !found || !reflect.DeepEqual(was, o) {
			e.call(Event{At: now, Kind: EventOverride, Override: rule.Override(o)})
		}
	}
	for id, o := range e.overrides {
		if _, is := overrides[id]; !is {
			e.call(Event{At: now, Kind: EventOverride, Ended: true, Override: rule.Override(o)})
		}
	}
	e.overrides = overrides
}
