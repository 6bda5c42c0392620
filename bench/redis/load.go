package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/bench/internal/measure"
)

// outcome holds the results of one load.
type outcome struct {
	decisions, admitted, errors int
	took, p50, p99              time.Duration
	cpu, redisCPU               time.Duration
	firstErr                    error
	// over is the number of decisions admitted beyond the limit of the key, the lead-in included.
	over int
}

// load describes the way in which a limiter is asked.
type load struct {
	limiter   *limiter
	callers   int
	keys      []string // asked for in turn
	perSecond int
	d         time.Duration
}

// warm makes a key of its own, to open connections with.
const warm = "-warm"

// run lets the callers ask as fast as answers arrive, and reads the cost from rdb. It begins to count after a lead-in,
// when the load is steady.
func (l load) run(ctx context.Context, rdb *redis.Client) (outcome, error) {
	for i := range l.callers { // opens connections and loads scripts before it counts
		if _, err := l.limiter.ask(ctx, l.keys[0]+warm, i); err != nil && i == 0 {
			return outcome{}, err
		}
	}
	began := time.Now()
	lead := l.drive(ctx, l.d/2)
	before, err := redisCPU(ctx, rdb)
	if err != nil {
		return outcome{}, err
	}
	cpu := measure.CPU()
	all := l.drive(ctx, l.d)
	all.cpu = measure.CPU() - cpu
	after, err := redisCPU(ctx, rdb)
	if err != nil {
		return outcome{}, err
	}
	all.redisCPU = after - before
	if all.decisions == 0 {
		return outcome{}, fmt.Errorf("no decision at all: %w", all.firstErr)
	}
	all.over = max(0, lead.admitted+all.admitted-l.allowed(time.Since(began)))
	return all, nil
}

// allowed returns the largest number that may be admitted in d.
func (l load) allowed(d time.Duration) int {
	if l.limiter.windows {
		return len(l.keys) * l.perSecond * (2 + int(d/time.Second))
	}
	return len(l.keys) * (l.perSecond + int(math.Ceil(float64(l.perSecond)*d.Seconds())))
}

// drive lets the callers ask for d.
func (l load) drive(ctx context.Context, d time.Duration) (all outcome) {
	var mu sync.Mutex // guards all and times
	var times []time.Duration
	var wait sync.WaitGroup
	began := time.Now()
	for i := range l.callers {
		wait.Go(func() {
			one, mine := l.call(ctx, i, began.Add(d))
			mu.Lock()
			defer mu.Unlock()
			all.add(one)
			times = append(times, mine...)
		})
	}
	wait.Wait()
	all.took = time.Since(began)
	if slices.Sort(times); len(times) > 0 {
		all.p50, all.p99 = times[len(times)/2], times[len(times)*99/100]
	}
	return all
}

// call is caller i. It keeps the time of every eighth decision.
func (l load) call(ctx context.Context, i int, end time.Time) (o outcome, times []time.Duration) {
	times = make([]time.Duration, 0, 1<<14)
	for n := i * 31; ; n++ {
		key, client := l.keys[n%len(l.keys)], n%nClients
		var t time.Time
		if n%8 == 0 {
			if t = time.Now(); t.After(end) {
				return o, times
			}
		}
		ok, err := l.limiter.ask(ctx, key, client)
		if err != nil {
			o.errors++
			o.firstErr = err
			continue
		}
		if n%8 == 0 {
			times = append(times, time.Since(t))
		}
		o.decisions++
		if ok {
			o.admitted++
		}
	}
}

func (o *outcome) add(p outcome) {
	o.decisions += p.decisions
	o.admitted += p.admitted
	o.errors += p.errors
	if o.firstErr == nil {
		o.firstErr = p.firstErr
	}
}

// redisCPU returns the CPU time that the server has used.
func redisCPU(ctx context.Context, rdb *redis.Client) (time.Duration, error) {
	info, err := rdb.Info(ctx, "cpu").Result()
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "used_cpu_sys" && name != "used_cpu_user" {
			continue
		}
		seconds, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("INFO cpu: %s: %w", name, err)
		}
		sum += seconds
	}
	return time.Duration(sum * float64(time.Second)), nil
}
