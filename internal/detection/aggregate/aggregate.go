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

// batch is the number of counts that Send adds before it checks its context.
const batch = 512

// Aggregator owns a detector. It may be used by any number of goroutines; Run is called once.
type Aggregator struct {
	cfg Config
	out *outbox

	// crossed holds one signal to judge now.
	crossed chan struct{}
	hot     atomic.Pointer[report.HotSet] // of the last tick
	batches atomic.Uint64
	counts  atomic.Uint64
	alarm   alarm
	full    fullAlarm
	rules   atomic.Pointer[rules.Set]
	log     changeLog // used by runTicks, and by Run after it
	sources *sourceMonitor

	detector *detect.Detector // safe for concurrent use

	mu      sync.Mutex      // guards all below
	changes []detect.Change // the last ones, oldest first; can exceed keepChanges for a while
}

// New returns an Aggregator. It starts no goroutines: see Run. It panics without rules.
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

// Send adds counts. It does no I/O. It returns an error only if ctx has ended; some of the counts may then have been
// added. Counts that cannot be used are dropped and counted in Stats. The keys that are kept are copied.
func (a *Aggregator) Send(ctx context.Context, counts []hottype.Count) error {
	a.batches.Add(1)
	for part := range slices.Chunk(counts, batch) {
		if err := ctx.Err(); err != nil {
			return err
		}
		a.counts.Add(uint64(len(part)))
		if a.detector.AddAll(a.cfg.Now(), part) {
			a.signalCrossing()
		}
	}
	return nil
}

func (a *Aggregator) signalCrossing() { wait.Signal(a.crossed) }

// SetRules replaces the rules; see detect.Detector.SetRules for the state that is kept.
func (a *Aggregator) SetRules(set *rules.Set) {
	a.detector.SetRules(set)
	a.rules.Store(set)
	a.signalCrossing()
}

// Forget drops the counts of the keys for which the function which returns true, because another aggregator counts them
// from now on; see detect.Detector.Forget for hot keys. When it returns, no count of them is left here. In the set of
// the next tick, which follows at once, they cool.
func (a *Aggregator) Forget(which func(hottype.Key) bool) {
	a.detector.Forget(a.cfg.Now(), which)
	a.signalCrossing()
}

// ForgetPast drops the baselines of all keys, because keys may have come from elsewhere; see
// detect.Detector.ForgetBaselines.
func (a *Aggregator) ForgetPast() { a.detector.ForgetBaselines() }

// Run judges and publishes until ctx ends, and returns nil after the last attempt to publish. Failures meanwhile are
// counted and retried.
func (a *Aggregator) Run(ctx context.Context) error {
	var loops sync.WaitGroup
	loops.Go(func() { a.runTicks(ctx) })
	loops.Go(func() { a.out.run(ctx) })
	loops.Wait()
	set, changes := a.runTick()
	set.Last = true
	a.out.publishFinal(context.WithoutCancel(ctx), set)
	a.publishChanges(changes)
	return nil
}

func (a *Aggregator) runTicks(ctx context.Context) {
	ticker := time.NewTicker(a.cfg.Tick)
	defer ticker.Stop()
	var put time.Time // when a set was last handed to the outbox
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-a.crossed:
		}
		was := a.hot.Load().NoInput
		set, changes := a.runTick()
		// Half a tick early is better than half a tick late.
		if len(changes) > 0 || set.NoInput != was || time.Since(put) >= a.cfg.refreshInterval()-a.cfg.Tick/2 {
			put = time.Now()
			a.out.putSet(set)
		}
		a.publishChanges(changes) // after put: publishing need not wait for it
	}
}

// publishChanges calls OnChange and logs the changes. Only judge calls it, and Run after judge has ended, so never two
// calls at once.
func (a *Aggregator) publishChanges(changes []detect.Change) {
	if len(changes) > 0 {
		a.cfg.OnChange(changes)
	}
	a.log.logChanges(changes)
}

func (a *Aggregator) runTick() (report.HotSet, []detect.Change) {
	now, v := a.sources.check(len(a.Hot()))
	if v.incomplete || v.failing {
		a.detector.MarkIncomplete(now)
	}
	if v.back { // counts that were missed would look like a low past
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

// Hot returns the hot set of the last tick, heaviest first. Do not change it.
func (a *Aggregator) Hot() []hottype.HotKey { return a.hot.Load().Keys }

// Loops returns the keys of the last tick that are over their threshold only because of one or a few clients, heaviest
// first. Do not change them.
func (a *Aggregator) Loops() []hottype.HotKey { return a.hot.Load().Loops }

// Heaviest returns the n keys of each cost with the greatest rates, hot or not. It visits every key: call it at most
// some times a minute.
func (a *Aggregator) Heaviest(n int) []hottype.HotKey { return a.detector.Heaviest(n) }

// Use returns the recorded use of each rule by requests.
func (a *Aggregator) Use() []report.RuleUse { return a.detector.Use() }

// MergeUse adds the use that other aggregators recorded, or this aggregator before a restart.
func (a *Aggregator) MergeUse(list []report.RuleUse) { a.detector.MergeUse(a.cfg.Now(), list) }

// Changes returns the last 1000 changes of the hot set, oldest first.
func (a *Aggregator) Changes() []detect.Change {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.changes[max(0, len(a.changes)-keepChanges):])
}
