package aggregate

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/wait"
)

const keepChanges = 1000

// batch is how many counts Send places before it looks at its context.
const batch = 512

// Aggregator owns a detector. It may be used by any number of goroutines; Run
// is called once.
type Aggregator struct {
	cfg Config
	out *outbox

	// crossed holds one signal: judge now.
	crossed chan struct{}
	hot     atomic.Pointer[report.HotSet] // of the last tick
	batches atomic.Uint64
	counts  atomic.Uint64
	alarm   alarm
	full    fullAlarm
	rules   atomic.Pointer[rules.Set]
	log     changeLog // of judge, and of Run after it
	sources *sourceMonitor

	detector *detect.Detector // safe for all

	mu      sync.Mutex      // guards all below
	changes []detect.Change // the last ones, oldest first; may be over keepChanges a while
}

// New builds an Aggregator. It starts nothing: see Run. It panics without rules.
func New(cfg Config) *Aggregator {
	if cfg.Rules == nil {
		panic("aggregate: New without rules")
	}
	cfg = cfg.withDefaults()
	a := &Aggregator{
		cfg:     cfg,
		out:     newOutbox(cfg),
		crossed: make(chan struct{}, 1),
		alarm:   alarm{log: cfg.Log, on: make(map[string]bool)},
		full:    fullAlarm{log: cfg.Log, last: make(map[string]time.Time)},
		sources: newSourceMonitor(cfg),
		detector: detect.New(cfg.Rules, detect.Options{
			Counters: cfg.Counters, Shards: cfg.Shards, MaxRate: cfg.MaxRate,
			Lateness: cfg.Lateness, Future: cfg.Future, HotTTL: cfg.HotTTL,
			NoClients: cfg.NoClients, WholeSeconds: cfg.WholeSeconds,
		}),
	}
	a.rules.Store(cfg.Rules)
	a.log = changeLog{cfg.Log, a.rules.Load}
	a.hot.Store(&report.HotSet{})
	return a
}

// Send takes counts. It blocks for no I/O. The only error is that of a ctx that
// has ended, before which some of counts may have been taken; counts that are
// of no use are dropped and counted in Stats. The keys that are kept are copied.
func (a *Aggregator) Send(ctx context.Context, counts []hottype.Count) error {
	a.batches.Add(1)
	for part := range slices.Chunk(counts, batch) {
		if err := ctx.Err(); err != nil {
			return err
		}
		a.counts.Add(uint64(len(part)))
		if a.detector.AddAll(a.cfg.Now(), part) {
			a.wake()
		}
	}
	return nil
}

func (a *Aggregator) wake() { wait.Signal(a.crossed) }

// SetRules judges by other rules from now on; see detect.Detector.SetRules for
// what is kept.
func (a *Aggregator) SetRules(set *rules.Set) {
	a.detector.SetRules(set)
	a.rules.Store(set)
	a.wake()
}

// Forget drops what was counted of the keys that which says, because another
// aggregator counts them from now on; see detect.Detector.Forget for
// hot ones. When it returns nothing of them is left here; the set of
// the next tick, which follows at once, has them cool.
func (a *Aggregator) Forget(which func(hottype.Key) bool) {
	a.detector.Forget(a.cfg.Now(), which)
	a.wake()
}

// ForgetPast drops what keys used to have, because others may have come; see
// detect.Detector.ForgetBaselines.
func (a *Aggregator) ForgetPast() { a.detector.ForgetBaselines() }

// Run judges and publishes until ctx ends, and returns nil after the last
// attempt to publish: what can fail on the way is counted and retried.
func (a *Aggregator) Run(ctx context.Context) error {
	var loops sync.WaitGroup
	loops.Go(func() { a.judge(ctx) })
	loops.Go(func() { a.out.run(ctx) })
	loops.Wait()
	set, changes := a.tick()
	set.Last = true
	a.out.publishFinal(context.WithoutCancel(ctx), set)
	a.publishChanges(changes)
	return nil
}

func (a *Aggregator) judge(ctx context.Context) {
	ticker := time.NewTicker(a.cfg.Tick)
	defer ticker.Stop()
	var put time.Time // when a set was last handed out
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-a.crossed:
		}
		was := a.hot.Load().NoInput
		set, changes := a.tick()
		// Half a tick early is better than half a tick late.
		if len(changes) > 0 || set.NoInput != was || time.Since(put) >= a.cfg.refresh()-a.cfg.Tick/2 {
			put = time.Now()
			a.out.put(set)
		}
		a.publishChanges(changes) // after put: publishing need not wait for it
	}
}

// publishChanges calls OnChange and logs: from judge, and after it has ended from Run, so never
// twice at once.
func (a *Aggregator) publishChanges(changes []detect.Change) {
	if len(changes) > 0 {
		a.cfg.OnChange(changes)
	}
	a.log.note(changes)
}

func (a *Aggregator) tick() (report.HotSet, []detect.Change) {
	now := a.cfg.Now()
	v := a.sources.check(now, len(a.Hot()))
	if v.incomplete || v.failing {
		a.detector.MarkIncomplete(now)
	}
	if v.back { // what was not counted would look like a low past
		a.detector.ForgetBaselines()
	}
	set, changes := a.detector.Tick(now)
	set.NoInput = v.noInput
	a.hot.Store(&set)
	a.alarm.check(now, a.detector.Errors)
	a.full.check(now, a.detector.Full())
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changes = append(a.changes, changes...)
	if over := len(a.changes) - keepChanges; over > keepChanges {
		a.changes = append(a.changes[:0], a.changes[over:]...)
	}
	return set, changes
}

// Hot is the hot set of the last tick, heaviest first. Not to be changed.
func (a *Aggregator) Hot() []hottype.HotKey { return a.hot.Load().Keys }

// Loops are the keys of the last tick that would be hot were it not for one or
// a few clients, heaviest first. Not to be changed.
func (a *Aggregator) Loops() []hottype.HotKey { return a.hot.Load().Loops }

// Heaviest are the n keys with the greatest rates, hot or not, heaviest first. It costs a look at every
// key: call it some times a minute.
func (a *Aggregator) Heaviest(n int) []hottype.HotKey { return a.detector.Heaviest(n) }

// Use returns what was seen of the requests of each rule.
func (a *Aggregator) Use() []report.RuleUse { return a.detector.Use() }

// MergeUse takes what other aggregators have seen, or this one before it started anew.
func (a *Aggregator) MergeUse(list []report.RuleUse) { a.detector.MergeUse(a.cfg.Now(), list) }

// Changes are the last 1000 changes of the hot set, oldest first.
func (a *Aggregator) Changes() []detect.Change {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.changes[max(0, len(a.changes)-keepChanges):])
}
