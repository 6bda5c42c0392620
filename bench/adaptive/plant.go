package main

import (
	"cmp"
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/adaptive"
	"github.com/hotparam/pipeline/internal/rules"
)

// site is an upstream with its clients and its limits. Times are seconds since the beginning.
type site struct {
	seconds int
	servers int
	service float64 // mean time of a request, lognormal
	sigma   float64
	queue   int     // largest number of requests that wait, or 0 if unbounded
	contend float64 // slowdown of a request for each request per server that waits

	cold, hot func(t float64) float64 // demand, requests a second
	slower    func(t float64) float64 // factor on the time of a request that begins at t, or nil for 1
	stalled   func(t float64) float64 // time at which a request begins that is due at t, or nil for t
	fails     func(t float64) float64 // fraction of requests that fail at once at any load, or nil for 0

	keys   []float64 // parts of the hot demand, with equal parts of the rate, or nil for one key
	beside *beside   // nil if there is one upstream

	limiters int
	skewed   bool                                        // the first limiter has half of the demand
	report   func(t float64, r *rand.Rand) (lag float64) // delay of a report, +Inf if it is lost, or nil for 0.6
	away     func(t float64) bool                        // whether the controller is away at t, or nil for never

	target      rules.UpstreamTarget
	least, most float64 // bounds of the rate of hot keys
}

// beside is a second upstream, whose requests are reported as requests of the first.
type beside struct {
	servers int
	part    float64 // fraction of all requests
}

// patience is the number of seconds after which a limiter gives up on a request. The upstream still works on it.
const patience = 2.0

// second holds the results of the requests that arrived in one second.
type second struct {
	latency               adaptive.Histogram
	beside                adaptive.Histogram // latency of the second upstream
	ok, failed            int                // of all admitted requests
	hot, refused          int
	cold, coldFailed      int
	rate, inFlight        float64
	limited, unreachable  bool
	demandHot, demandCold float64
}

// request is a request under way.
type request struct {
	end     float64 // as the limiter sees it
	limiter int
	hot, ok bool
	took    float64 // 0 if the upstream refused at once
}

// world is one run of a site.
type world struct {
	site
	rng    *rand.Rand
	shares []float64 // parts of the limiters in the demand

	pools    []pool                // servers, one pool for each upstream
	open     requests              // as limiters see them, by their ends
	inFlight []int                 // number of requests of each limiter
	coldOf   []float64             // cold requests per second of each limiter
	coming   []float64             // cold requests of each limiter in this second
	tokens   []float64             // tokens of the rate, for each key
	spare    float64               // tokens of the least rate
	last     float64               // time at which tokens were counted
	bound    hottype.UpstreamLimit // limit in force
	ctl      *adaptive.Controller  // nil without a controller
	seen     adaptive.Measurement  // measurement of this second
	area     float64               // requests under way, times seconds
	areaAt   float64
	late     []arriving
	out      []second
}

// pool holds the servers of an upstream.
type pool struct {
	free   floats // time at which each server is free
	inside floats // time at which each request in the upstream ends
}

// arriving is a report under way to the controller.
type arriving struct {
	at     float64
	report adaptive.Measurement
}

var epoch = time.Unix(1_000_000_000, 0)

func clock(t float64) time.Time { return epoch.Add(time.Duration(t * float64(time.Second))) }

// step is the number of seconds for which the demand is taken to be constant.
const step = 0.01

// simulate runs a site with a fixed limit for all hot keys together (+Inf for no limit), or with a controller.
func (s site) simulate(fixed float64, controlled bool, seed uint64) []second {
	w := &world{
		site: s, rng: rand.New(rand.NewPCG(seed, 7)), out: make([]second, s.seconds),
		pools: []pool{{free: make(floats, s.servers)}}, inFlight: make([]int, s.limiters),
		coldOf: make([]float64, s.limiters), coming: make([]float64, s.limiters),
		shares: make([]float64, s.limiters), tokens: make([]float64, max(1, len(s.keys))),
		bound: hottype.UpstreamLimit{Rate: fixed, InFlightCap: math.Inf(1)}, spare: 1,
	}
	if s.beside != nil {
		w.pools = append(w.pools, pool{free: make(floats, s.beside.servers)})
	}
	for i := range w.tokens {
		w.tokens[i] = 1
	}
	for i := range w.shares {
		w.shares[i] = 1 / float64(s.limiters)
		if s.skewed {
			w.shares[i] = 0.5 / float64(max(1, s.limiters-1))
		}
	}
	if s.skewed {
		w.shares[0] = 0.5
	}
	if controlled {
		w.ctl = adaptive.New(s.target, s.least, s.most)
		w.bound = w.ctl.Bound()
	}
	for i := range s.seconds {
		w.second(i)
	}
	return w.out
}

// second advances the time by one second.
func (w *world) second(i int) {
	w.out[i].demandHot, w.out[i].demandCold = w.hot(float64(i)), w.cold(float64(i))
	for k := range int(1 / step) {
		t := float64(i) + float64(k)*step
		w.deliver(t)
		type arrival struct {
			at  float64
			hot bool
		}
		var all []arrival
		for range w.poisson(w.hot(t) * step) {
			all = append(all, arrival{t + step*w.rng.Float64(), true})
		}
		for range w.poisson(w.cold(t) * step) {
			all = append(all, arrival{t + step*w.rng.Float64(), false})
		}
		slices.SortFunc(all, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
		for _, a := range all {
			w.complete(a.at)
			w.arrive(a.at, a.hot, &w.out[i])
		}
	}
	end := float64(i + 1)
	w.complete(end)
	w.send(end)
	o := &w.out[i]
	o.rate, o.inFlight = w.bound.Rate, w.bound.InFlightCap
	o.limited, o.unreachable = w.bound.Saturated, w.bound.Unreachable
}

// poisson draws the number of events from a Poisson distribution with this mean.
func (w *world) poisson(mean float64) int {
	n, p, stop := 0, w.rng.Float64(), math.Exp(-mean)
	for ; p > stop; n++ {
		p *= w.rng.Float64()
	}
	return n
}

func (w *world) arrive(t float64, hot bool, o *second) {
	limiter := w.pick(w.shares)
	if hot {
		o.hot++
		if !w.admit(t, limiter) {
			o.refused++
			w.seen.Denied++
			return
		}
		w.seen.Hot++
	} else {
		o.cold++
		w.seen.Cold++
		w.coming[limiter]++
	}
	w.inFlight[limiter]++
	at := w.pick([]float64{1})
	if w.beside != nil {
		at = w.pick([]float64{1 - w.beside.part, w.beside.part})
	}
	took, ok := w.serve(&w.pools[at], t)
	if ok {
		o.ok++
	} else if o.failed++; !hot {
		o.coldFailed++
	}
	if took > 0 && at == 0 {
		o.latency.Add(time.Duration(took * float64(time.Second)))
	} else if took > 0 {
		o.beside.Add(time.Duration(took * float64(time.Second)))
	}
	w.since(t)
	heap.Push(&w.open, request{end: t + took, limiter: limiter, hot: hot, ok: ok, took: took})
}

// pick draws an index, with parts as the probabilities.
func (w *world) pick(parts []float64) int {
	if len(parts) < 2 {
		return 0
	}
	x := w.rng.Float64()
	for i, s := range parts {
		if x -= s; x < 0 {
			return i
		}
	}
	return 0
}

// admit decides like the limiters: they share the rate, each has its part of the cap, and a token of the least rate
// passes the cap.
func (w *world) admit(t float64, limiter int) bool {
	if math.IsInf(w.bound.Rate, 1) {
		return true
	}
	dt := t - w.last
	w.last = t
	rate := w.bound.Rate / float64(len(w.tokens))
	for i, n := range w.tokens {
		w.tokens[i] = min(n+dt*rate, max(1, rate/10))
	}
	w.spare = min(w.spare+dt*w.least, 1)
	key := w.pick(w.keys)
	if w.tokens[key] < 1 {
		return false
	}
	places := w.bound.InFlightCap*w.shares[limiter] + w.coldOf[limiter]*w.bound.TargetMeanSeconds
	if float64(w.inFlight[limiter]) >= max(1, places) {
		if w.spare < 1 {
			return false
		}
		w.spare--
	}
	w.tokens[key]--
	return true
}

// serve sends a request to the upstream. It returns how long the limiter waits, and whether the upstream answers in
// time.
func (w *world) serve(p *pool, t float64) (took float64, ok bool) {
	for len(p.inside) > 0 && p.inside[0] <= t {
		heap.Pop(&p.inside)
	}
	if w.fails != nil && w.rng.Float64() < w.fails(t) {
		return 0, false
	}
	servers := len(p.free)
	waiting := len(p.inside) - servers
	if w.queue > 0 && waiting >= w.queue {
		return 0, false
	}
	begin := max(t, p.free[0])
	if w.stalled != nil {
		begin = w.stalled(begin)
	}
	d := w.service * math.Exp(w.sigma*w.rng.NormFloat64()-w.sigma*w.sigma/2)
	if w.slower != nil {
		d *= w.slower(begin)
	}
	d *= 1 + w.contend*max(0, float64(waiting))/float64(servers)
	end := begin + d
	p.free[0] = end
	heap.Fix(&p.free, 0)
	heap.Push(&p.inside, end)
	return min(end-t, patience), end-t < patience
}
