package main

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/hotparam/pipeline/bench/internal/counters"
	"github.com/hotparam/pipeline/bench/internal/measure"
	"github.com/hotparam/pipeline/bench/internal/trace"
)

// cost holds the CPU time that a contender takes for a trace.
type cost struct {
	Trace     string `json:"trace"`
	Contender string `json:"contender"`
	// Updates is millions of updates per CPU second, with the judgements: median, minimum and maximum of the rounds.
	Updates [3]float64 `json:"m_updates_per_cpu_second"`
	// Alone is the same without the judgements, median.
	Alone float64 `json:"m_updates_alone"`
	// Ours is the median of the ratios of the rounds: how many times as many updates hotparam makes.
	Ours float64 `json:"ours_times"`

	all, alone []float64 // by round
}

// measureCosts lets all contenders play some traces in each round, in turning order.
func measureCosts(all []*trace.Trace, seed uint64, rounds int) ([]cost, error) {
	var costs []cost
	for _, t := range all {
		for _, c := range counters.Contenders() {
			costs = append(costs, cost{Trace: t.Name, Contender: c.Name})
		}
	}
	var cases []func() error
	for i, t := range all {
		requests := requestsOf(t)
		for k, c := range counters.Contenders() {
			of := &costs[i*len(counters.Contenders())+k]
			cases = append(cases, func() error {
				add, judge := play(requests, c.New(configOf(t, budget, seed)))
				n := float64(len(requests)) / 1e6
				of.all = append(of.all, n/(add+judge).Seconds())
				of.alone = append(of.alone, n/add.Seconds())
				return nil
			})
		}
	}
	if err := measure.Rounds(rounds, cases...); err != nil {
		return nil, fmt.Errorf("hot: %w", err)
	}
	for i := range costs {
		costs[i].summarize(costs[i-i%len(counters.Contenders())].all)
	}
	return costs, nil
}

// summarize takes the medians over the rounds. ours holds the rounds of hotparam on the same trace.
func (c *cost) summarize(ours []float64) {
	c.Updates = [3]float64{measure.Median(c.all), slices.Min(c.all), slices.Max(c.all)}
	c.Alone = measure.Median(c.alone)
	ratios := make([]float64, len(ours))
	for i := range ours {
		ratios[i] = ours[i] / c.all[i]
	}
	c.Ours = measure.Median(ratios)
}

// play plays a trace, with a judgement at each tick, and returns the CPU time of the process for each of the two.
func play(requests []counters.Request, c counters.Counter) (add, judge time.Duration) {
	var list []counters.Count
	at := measure.CPU()
	for now := int64(trace.Tick); len(requests) > 0; now += trace.Tick {
		n := before(requests, now)
		c.Add(requests[:n])
		requests = requests[n:]
		added := measure.CPU()
		list = c.Hot(now, list[:0])
		judged := measure.CPU()
		add, judge, at = add+added-at, judge+judged-added, judged
	}
	return add, judge
}

// requestsOf returns the requests of a trace as contenders take them.
func requestsOf(t *trace.Trace) []counters.Request {
	requests := make([]counters.Request, len(t.Requests))
	for i, r := range t.Requests {
		requests[i] = counters.Request{At: int64(r.At), Key: t.Keys[r.Key]}
	}
	return requests
}

// configOf returns the task of a contender on a trace.
func configOf(t *trace.Trace, budget int, seed uint64) counters.Config {
	return counters.Config{Hot: t.Hot, Budget: budget, Peak: t.Peak(), Seed: seed}
}

// heap returns the bytes that the collector leaves.
func heap() int {
	runtime.GC()
	runtime.GC() // the second collection frees the contents of pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
