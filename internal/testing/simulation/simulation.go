// Package simulation plays clients with different behaviour against a limit that is divided fairly, or not, in virtual
// time. The tests of fairness judge the share of each client, and the picture in docs/limits.md shows it.
package simulation

import (
	"container/heap"
	"context"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/fairness"
)

// scenario describes clients, their limit and the limiters.
type scenario struct {
	rate, burst  int64
	limiters     int
	groups       []group
	seconds      float64
	stale, delay float64 // delay in seconds of a limiter's news, and of its calls
	cost         int64
	plain        bool // no fairness: the bucket alone
}

func bucket(rate, burst int64, seconds float64, groups ...group) scenario {
	return scenario{rate: rate, burst: burst, seconds: seconds, groups: groups}
}

// outcome is the result of a scenario.
type outcome struct {
	ratios   []float64 // ratios of clients' requests to their max-min shares, sorted
	light    float64   // the same for all light clients together
	use      float64   // ratio of the requests that the limit allowed to its maximum
	admitted int64
	denied   int64
}

func (o *outcome) min() float64 { return o.ratios[0] }
func (o *outcome) p5() float64  { return o.ratios[len(o.ratios)/20] }

// limiter is one process, with its part of fairness and its memory of denials.
type limiter struct {
	key    *fairness.Divider
	denied float64 // until this time the bucket is known to be empty
}

// event is an action at a time.
type event struct {
	at float64
	do func(now float64)
}

// queue is a heap.Interface with the earliest event first.
type queue []event

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].at < q[j].at }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(e any)        { *q = append(*q, e.(event)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// world is the state of a scenario that is played.
type world struct {
	scenario
	queue    queue
	random   *rand.Rand
	store    *limit.Memory
	charge   limit.Charge
	limiters []*limiter
	offered  []float64 // by client, after the warm-up
	got      []float64
	heavy    []bool
	out      outcome
	course   []Second
	warm     float64
}

var epoch = time.Unix(1_800_000_000, 0)

func clock(s float64) time.Time { return epoch.Add(time.Duration(s * 1e9)) }

// play plays a scenario. Its first warm seconds are not judged.
func (s scenario) play(seed uint64, warm float64) outcome {
	w := newWorld(s, seed, warm)
	w.run()
	w.judge()
	return w.out
}

func newWorld(s scenario, seed uint64, warm float64) *world {
	s.limiters, s.cost = max(s.limiters, 1), max(s.cost, 1)
	w := &world{scenario: s, random: rand.New(rand.NewPCG(seed, 7)), warm: warm}
	w.course = make([]Second, int(s.seconds)+2)
	w.store = limit.NewMemory(limit.MemoryConfig{})
	spec := limit.Spec{Algorithm: limit.TokenBucket, Limit: s.rate, Window: time.Second, Burst: s.burst}
	w.charge = limit.Charge{Subject: limit.Subject{Space: "hot", Name: "k"}, Spec: spec, Cost: s.cost}
	for range s.limiters {
		w.limiters = append(w.limiters, &limiter{key: fairness.NewDivider(spec)})
	}
	for _, g := range s.groups {
		for i := range g.n {
			w.client(g, i)
		}
	}
	return w
}

func (w *world) run() {
	for len(w.queue) > 0 {
		e := heap.Pop(&w.queue).(event)
		e.do(e.at)
	}
}

func (w *world) after(at float64, do func(now float64)) { heap.Push(&w.queue, event{at, do}) }

// client adds one client of a group and schedules its requests.
func (w *world) client(g group, i int) {
	id := len(w.offered)
	w.offered, w.got, w.heavy = append(w.offered, 0), append(w.got, 0), append(w.heavy, g.heavy)
	var asked int
	var ask func(float64)
	ask = func(now float64) {
		if now >= w.seconds {
			return
		}
		if now >= w.warm {
			w.offered[id] += float64(w.cost)
		}
		who := address(g.shift, i)
		if g.from != nil {
			who.Addr = g.from(asked)
		}
		asked++
		w.ask(now, id, who, w.pick(g.at))
		w.after(now+g.when(w.random, g.rate, now), ask)
	}
	w.after(g.when(w.random, g.rate, 0), ask)
}

// address returns the i-th address of a group. Each is in its own prefix, as far as there are enough.
func address(shift, i int) hottype.Client {
	return hottype.Client{Addr: netip.AddrFrom4([4]byte{byte(10 + shift), byte(i), byte(i >> 8), 1})}
}

func (w *world) pick(weights []float64) *limiter {
	if weights == nil {
		return w.limiters[w.random.IntN(len(w.limiters))]
	}
	at := w.random.Float64()
	for i, p := range weights {
		if at -= p; at < 0 {
			return w.limiters[i]
		}
	}
	return w.limiters[len(weights)-1]
}

// ask sends one request to one limiter, which handles it as the gate does.
func (w *world) ask(now float64, id int, who hottype.Client, l *limiter) {
	if now < l.denied && w.cost == 1 {
		w.done(now, id, false)
		return
	}
	var a fairness.Result
	if a.Allowed = true; !w.plain {
		a = l.key.Charge(clock(now), who, w.cost)
	}
	if !a.Allowed {
		w.done(now, id, false)
		return
	}
	if w.delay == 0 {
		w.take(now, id, who, l, a)
		return
	}
	w.after(now+w.delay, func(now float64) { w.take(now, id, who, l, a) })
}

func (w *world) take(now float64, id int, who hottype.Client, l *limiter, a fairness.Result) {
	results := make([]limit.Result, 1)
	ok, err := w.store.Take(context.Background(), clock(now), []limit.Charge{w.charge}, results)
	if err != nil {
		panic(err)
	}
	r := results[0]
	if !ok {
		l.denied = now + r.RetryAfter.Seconds()
	}
	w.done(now, id, ok)
	if w.plain {
		return
	}
	level := fairness.LevelOf(&w.charge.Spec, &r, int64(len(w.limiters)))
	w.after(now+w.stale, func(now float64) {
		if ok {
			l.key.RecordAllowed(clock(now), level)
		} else {
			l.key.RecordDenied(clock(now), level, who, w.cost, a)
		}
	})
}

func (w *world) done(now float64, id int, ok bool) {
	if ok && w.heavy[id] {
		w.course[int(now)].Heavy++
	} else if ok {
		w.course[int(now)].Light++
	}
	if now < w.warm {
		return
	}
	if !ok {
		w.out.denied++
		return
	}
	w.got[id] += float64(w.cost)
	w.out.admitted += w.cost
}

// judge compares the clients' requests with their max-min shares of the tokens that flow in after the warm-up.
func (w *world) judge() {
	flow := float64(w.rate) * (w.seconds - w.warm)
	fair := maxMin(w.offered, flow)
	var light, due float64
	for i, share := range fair {
		if share == 0 {
			continue
		}
		ratio := w.got[i] / share
		w.out.ratios = append(w.out.ratios, ratio)
		if !w.heavy[i] {
			light, due = light+w.got[i], due+share
		}
	}
	slices.Sort(w.out.ratios)
	w.out.light = light / due
	var offered float64
	for _, o := range w.offered {
		offered += o
	}
	w.out.use = float64(w.out.admitted) / min(offered, flow)
}

// maxMin is the oracle: each client gets as much as it asks for, up to a level at which everything is distributed.
func maxMin(asked []float64, total float64) []float64 {
	order := make([]int, len(asked))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return int(math.Copysign(1, asked[i]-asked[j])) })
	fair := make([]float64, len(asked))
	for k, i := range order {
		fair[i] = min(asked[i], total/float64(len(asked)-k))
		total -= fair[i]
	}
	return fair
}
