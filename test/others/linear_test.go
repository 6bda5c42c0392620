package others

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/storage/redislimits"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

const sourceOfPorcupine = "github.com/anishathalye/porcupine"

// checkWithin is the time that porcupine may take for a history. It takes milliseconds for most.
const checkWithin = time.Minute

// limits is a store that answers the calls of a history.
type limits interface {
	do(c *call) (reply, error)
}

// record has several callers call their stores at the same time, and returns the history. The function next returns a
// call; it receives the refunds that its caller could make, and removes a refund that it returns.
func record(t *testing.T, stores []limits, callers, calls int, seed uint64,
	next func(r *rand.Rand, refunds *[]call) call) ([]porcupine.Operation, error) {
	t.Helper()
	began := time.Now()
	var mu sync.Mutex
	var history []porcupine.Operation
	var first error
	var group sync.WaitGroup
	start := make(chan struct{})
	for caller := range callers {
		group.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(caller)))
			store := stores[caller%len(stores)]
			var own []call
			<-start
			for range calls {
				if r.IntN(3) == 0 {
					runtime.Gosched()
				}
				c := next(r, &own)
				called := time.Since(began)
				answer, err := store.do(&c)
				op := porcupine.Operation{ClientId: caller % len(stores), Input: c, Output: answer, Call: int64(called),
					Return: int64(time.Since(began))}
				if answer.allowed && c.kind == take {
					c.kind, c.at = refund, answer.at
					own = append(own, c)
				}
				mu.Lock()
				history = append(history, op)
				if err != nil && first == nil {
					first = err
				}
				mu.Unlock()
			}
		})
	}
	close(start)
	group.Wait()
	return history, first
}

// nextCall returns a random call on up to three of some subjects. Of a history with resets nothing is refunded, because
// a refund of a charge before a reset returns nothing.
func nextCall(r *rand.Rand, own *[]call, subjects int, resets bool) call {
	if list := *own; len(list) > 0 && !resets && r.IntN(4) == 0 {
		i := r.IntN(len(list))
		last := len(list) - 1
		list[i], list[last] = list[last], list[i]
		*own = list[:last]
		return list[last]
	}
	if resets && r.IntN(12) == 0 {
		return call{kind: reset, subjects: []int{r.IntN(subjects)}}
	}
	c := call{subjects: r.Perm(subjects)[:1+r.IntN(min(3, subjects))]}
	for range c.subjects {
		c.costs = append(c.costs, int64(r.IntN(4))) // 0 peeks
	}
	return c
}

// judge checks a history and returns its fault.
func judge(model porcupine.Model, history []porcupine.Operation) error {
	result, info := porcupine.CheckOperationsVerbose(model, history, checkWithin)
	if result == porcupine.Ok {
		return nil
	}
	var text strings.Builder
	for i, op := range history {
		fmt.Fprintf(&text, "%d: caller %d [%d, %d] %+v: %+v\n", i, op.ClientId, op.Call, op.Return, op.Input, op.Output)
	}
	return fmt.Errorf("%s: longest linearizations %v of\n%s", result, info.PartialLinearizations(), text.String())
}

// memoryLimits is a store of one process.
type memoryLimits struct {
	m       *limit.Memory
	charges func(c *call) []limit.Charge
	now     time.Time // unless the call has its own
}

func (m *memoryLimits) do(c *call) (answer reply, err error) {
	charges := m.charges(c)
	now := m.now
	if !c.now.IsZero() {
		now = c.now
	}
	switch c.kind {
	case refund:
		m.m.RefundAt(now, charges)
		return reply{allowed: true}, nil
	case reset:
		m.m.Reset(&charges[0].Subject)
		return reply{allowed: true}, nil
	}
	answer.results = make([]limit.Result, len(charges))
	answer.at = slices.Repeat([]time.Time{now}, len(charges))
	answer.allowed, err = m.m.Take(context.Background(), now, charges, answer.results)
	return answer, err
}

// chargesOf returns a function that makes the charges of a call on subjects with specs.
func chargesOf(subjects []limit.Subject, specs []limit.Spec) func(c *call) []limit.Charge {
	return func(c *call) (list []limit.Charge) {
		for i, n := range c.subjects {
			charge := limit.Charge{Subject: subjects[n], Spec: specs[n]}
			if c.costs != nil {
				charge.Cost = c.costs[i]
			}
			list = append(list, charge)
		}
		return list
	}
}

// subjectsOf returns n subjects of a history: hot keys, or windows of clients.
func subjectsOf(history string, n int, clients bool) (list []limit.Subject) {
	for i := range n {
		s := limit.Subject{Space: "hot", Name: fmt.Sprint(history, " ", i)}
		if clients {
			s = limit.Subject{Space: "ip_fixed", Client: hottype.ParseClient(fmt.Sprint("client ", history, " ", i))}
		}
		list = append(list, s)
	}
	return list
}

// histories returns the number of histories: short, or whole at night.
func histories(short, whole int) int {
	if nightly() {
		return whole
	}
	return short
}

// Every history of the memory of one process is linearizable: several limits of all algorithms in one call, refunds and
// resets, and a bucket under a clock that callers read at different times.
func TestMemory_IsLinearizable(t *testing.T) {
	s := begin(t, "porcupine, memory", sourceOfPorcupine)
	r := s.seeded()
	now := time.Now()
	for n := range histories(500, 4000) {
		capacity := 2 + r.Int64N(6)
		specs, seed, resets := longSpecs(now, capacity), r.Uint64(), n%2 == 1
		store := &memoryLimits{m: limit.NewMemory(limit.MemoryConfig{}), now: now,
			charges: chargesOf(subjectsOf("memory", len(specs), false), specs)}
		history, err := record(t, []limits{store}, 6, 10, seed, func(r *rand.Rand, own *[]call) call {
			return nextCall(r, own, len(specs), resets)
		})
		if err == nil {
			err = judge(countersModel(capacities(specs)), history)
		}
		s.record(fmt.Sprintf("counters %d", n), err)
	}
	for n := range histories(500, 4000) {
		const burst = 6
		seed := r.Uint64()
		spec := limit.Spec{Algorithm: limit.TokenBucket, Limit: 1000, Window: time.Second, Burst: burst}
		store := &memoryLimits{m: limit.NewMemory(limit.MemoryConfig{}), charges: chargesOf(subjectsOf("memory", 1,
			false), []limit.Spec{spec})}
		start := now.Truncate(time.Millisecond)
		var clock atomic.Int64
		history, err := record(t, []limits{store}, 6, 10, seed, func(r *rand.Rand, _ *[]call) call {
			at := clock.Add(r.Int64N(2)) - r.Int64N(3) // late by some milliseconds
			return call{subjects: []int{0}, costs: []int64{r.Int64N(4)}, now: start.Add(time.Duration(max(0, at)) *
				time.Millisecond)}
		})
		if err == nil {
			err = judge(bucketModel(burst, start), history)
		}
		s.record(fmt.Sprintf("bucket %d", n), err)
	}
}

func capacities(specs []limit.Spec) (list []int64) {
	for i := range specs {
		list = append(list, specs[i].Capacity())
	}
	return list
}

// Porcupine finds the faults that these histories are to find: a store that judges and charges in two steps.
func TestPorcupine_FindsLostUpdates(t *testing.T) {
	spec := longSpecs(time.Now(), 3)[:1]
	for n := range uint64(1000) {
		store := &torn{memoryLimits{m: limit.NewMemory(limit.MemoryConfig{}), now: time.Now(),
			charges: chargesOf(subjectsOf("torn", 1, false), spec)}}
		history, err := record(t, []limits{store}, 4, 10, n, func(*rand.Rand, *[]call) call {
			return call{subjects: []int{0}, costs: []int64{1}}
		})
		if err != nil {
			t.Fatal(err)
		}
		if judge(countersModel(capacities(spec)), history) != nil {
			return
		}
	}
	t.Error("no history of a thousand is wrong")
}

// torn answers by a peek, and charges later.
type torn struct{ memoryLimits }

func (f *torn) do(c *call) (reply, error) {
	peek := *c
	peek.costs = []int64{0}
	answer, err := f.memoryLimits.do(&peek)
	runtime.Gosched()
	if _, err := f.memoryLimits.do(c); err != nil {
		return reply{}, err
	}
	answer.allowed = answer.results[0].Remaining > 0
	answer.results[0].Allowed = answer.allowed
	answer.results[0].Remaining = max(0, answer.results[0].Remaining-1)
	return answer, err
}

// redisLimits is a process that shares limits with others.
type redisLimits struct {
	l       *redislimits.Limiter
	charges func(c *call) []limit.Charge
}

func (p *redisLimits) do(c *call) (answer reply, err error) {
	charges := p.charges(c)
	results := make([]limit.Result, len(charges))
	switch c.kind {
	case refund:
		return reply{allowed: true}, p.l.RefundAt(context.Background(), c.at, charges, results)
	case reset:
		return reply{allowed: true}, p.l.Reset(context.Background(), &charges[0].Subject)
	}
	answer.results = results
	answer.allowed, answer.at, err = p.l.TakeAt(context.Background(), time.Time{}, charges, results)
	return answer, err
}

// openLimiters returns n processes that share limits.
func openLimiters(t *testing.T, n int, addrs ...string) (list []*redislimits.Limiter) {
	t.Helper()
	for range n {
		c, err := redisclient.Open(redisclient.Config{Addrs: addrs, Namespace: "others", Timeout: redistest.Patience})
		list = append(list, redislimits.New(redistest.MustOpen(t, c, err)))
	}
	return list
}

// limitsOf returns processes that call limits on subjects.
func limitsOf(processes []*redislimits.Limiter, subjects []limit.Subject, specs []limit.Spec) (list []limits) {
	for _, l := range processes {
		list = append(list, &redisLimits{l, chargesOf(subjects, specs)})
	}
	return list
}

// Every history of three processes that share limits in one Redis is linearizable, with batches, refunds and resets.
func TestRedisLimits_AreLinearizable(t *testing.T) {
	s := begin(t, "porcupine, Redis", sourceOfPorcupine)
	r := s.seeded()
	processes := openLimiters(t, 3, redistest.Start(t).Addr())
	for n := range histories(150, 2000) {
		specs, seed, resets := longSpecs(time.Now(), 2+r.Int64N(6)), r.Uint64(), n%2 == 1
		stores := limitsOf(processes, subjectsOf(fmt.Sprint(n), len(specs), n%4 < 2), specs)
		history, err := record(t, stores, 9, 8, seed, func(r *rand.Rand, own *[]call) call {
			return nextCall(r, own, len(specs), resets)
		})
		if err == nil {
			err = judge(countersModel(capacities(specs)), history)
		}
		s.record(fmt.Sprintf("history %d", n), err)
	}
	batched := false
	for _, l := range processes {
		st := l.Stats()
		batched = batched || st.Calls < st.Decisions
	}
	if !batched {
		t.Error("no call had several decisions")
	}
}

// On a cluster each limit is linearizable by itself. A call on limits of several nodes that is denied may have charged
// some of them until it returned.
func TestClusterLimits_AreLinearizable(t *testing.T) {
	s := begin(t, "porcupine, Redis Cluster", sourceOfPorcupine)
	r := s.seeded()
	processes := openLimiters(t, 3, redistest.StartCluster(t).Addrs()...)
	for n := range histories(100, 1000) {
		specs, seed := longSpecs(time.Now(), 2+r.Int64N(6)), r.Uint64()
		stores := limitsOf(processes, subjectsOf(fmt.Sprint(n), len(specs), false), specs)
		history, err := record(t, stores, 6, 8, seed, func(r *rand.Rand, _ *[]call) call {
			return nextCall(r, new([]call), len(specs), false)
		})
		for i, one := range spreadHistories(history, len(specs)) {
			if err == nil {
				err = judge(spreadModel(i, specs[i].Capacity()), one)
			}
		}
		s.record(fmt.Sprintf("history %d", n), err)
	}
	if undone := processes[0].Stats().Refunds; undone == 0 {
		t.Error("no charge was undone")
	}
}

// Windows that three processes share by their sums allow no more than their limit and what two of them allow within one
// exchange, and deny nothing that fits. The time of an exchange is measured.
func TestSharedWindows_AreLinearizableWithinBound(t *testing.T) {
	s := begin(t, "porcupine, async windows", sourceOfPorcupine)
	r := s.seeded()
	const processes, callers, capacity = 3, 9, 300
	addr := redistest.Start(t).Addr()
	for n := range histories(3, 20) {
		var stores []limits
		var windows []*redislimits.Windows
		var stops []func()
		specs := longSpecs(time.Now(), capacity)[:1]
		charges := chargesOf(subjectsOf(fmt.Sprint(n), 1, true), specs)
		for _, l := range openLimiters(t, processes, addr) {
			w := l.Windows()
			windows, stops = append(windows, w), append(stops, redistest.Running(t, w.Run))
			stores = append(stores, &windowLimits{w, charges})
		}
		longest, stop := measureExchanges(windows)
		redistest.Eventually(t, "exchanges", func() bool { return windows[0].Stats().Exchanges > 1 })
		history, err := record(t, stores, callers, 2*capacity/callers, r.Uint64(), func(r *rand.Rand, _ *[]call) call {
			<-time.After(time.Duration(r.IntN(40)) * time.Millisecond) // the pace at which a client asks
			return call{subjects: []int{0}, costs: []int64{1}}
		})
		stop()
		for _, stop := range stops {
			stop()
		}
		late := min(mostWithin(history, processes, *longest), (processes-1)*capacity)
		if err == nil {
			err = judge(lateModel(capacity, late), history)
		}
		t.Logf("exchanges up to %v apart: %d calls beyond the limit of %d are within the bound", *longest, late, capacity)
		s.record(fmt.Sprintf("history %d", n), err)
	}
}

// windowLimits is one process with windows that are shared by sums.
type windowLimits struct {
	w       *redislimits.Windows
	charges func(c *call) []limit.Charge
}

func (p *windowLimits) do(c *call) (answer reply, err error) {
	answer.results = make([]limit.Result, len(c.subjects))
	answer.allowed, err = p.w.Take(context.Background(), time.Now(), p.charges(c), answer.results)
	return answer, err
}

// measureExchanges measures the longest time from the begin of an exchange of a process to the end of its next one,
// until stop.
func measureExchanges(windows []*redislimits.Windows) (longest *time.Duration, stop func()) {
	longest = new(time.Duration)
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		seen, began := make([]uint64, len(windows)), make([]time.Time, len(windows))
		for ctx.Err() == nil {
			for i, w := range windows {
				now, st := time.Now(), w.Stats()
				if !began[i].IsZero() && st.Exchanges == seen[i] {
					continue
				}
				if !began[i].IsZero() {
					*longest = max(*longest, now.Sub(began[i]))
				}
				seen[i], began[i] = st.Exchanges, now.Add(-st.Last)
			}
			<-time.After(time.Millisecond)
		}
	})
	return longest, func() { cancel(); group.Wait() }
}
