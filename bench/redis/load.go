package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// outcome is what one load gave.
type outcome struct {
	decisions, admitted, errors int
	took, p99                   time.Duration
	redisCPU                    time.Duration
	firstErr                    error
}

// load is how a limiter is asked.
type load struct {
	ask     ask
	callers int
	key     string
	d       time.Duration
}

// run has the callers ask as fast as answers come, and has rdb say what it cost.
func (l load) run(ctx context.Context, rdb *redis.Client) (outcome, error) {
	for i := range l.callers { // connections and scripts are there before it counts
		if _, err := l.ask(ctx, l.key+"-warm", address(i)); err != nil && i == 0 {
			return outcome{}, err
		}
	}
	before, err := redisCPU(ctx, rdb)
	if err != nil {
		return outcome{}, err
	}
	var all outcome
	var mu sync.Mutex // guards all and times
	var times []time.Duration
	var wait sync.WaitGroup
	began := time.Now()
	for i := range l.callers {
		wait.Go(func() {
			one, mine := l.call(ctx, i, began.Add(l.d))
			mu.Lock()
			defer mu.Unlock()
			all.add(one)
			times = append(times, mine...)
		})
	}
	wait.Wait()
	all.took = time.Since(began)
	after, err := redisCPU(ctx, rdb)
	if err != nil {
		return outcome{}, err
	}
	all.redisCPU = after - before
	if all.decisions == 0 {
		return outcome{}, fmt.Errorf("no decision at all: %w", all.firstErr)
	}
	slices.Sort(times)
	all.p99 = times[len(times)*99/100]
	return all, nil
}

// call is caller i. It keeps the time of every decision.
func (l load) call(ctx context.Context, i int, end time.Time) (o outcome, times []time.Duration) {
	times = make([]time.Duration, 0, 1<<14)
	for n := i * 31; ; n++ {
		t := time.Now()
		if t.After(end) {
			return o, times
		}
		ok, err := l.ask(ctx, l.key, address(n))
		if err != nil {
			o.errors++
			o.firstErr = err
			continue
		}
		times = append(times, time.Since(t))
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

// address is one of 1000 clients.
func address(n int) string {
	n %= 1000
	return "192.0." + strconv.Itoa(n/250) + "." + strconv.Itoa(n%250+1)
}

// redisCPU is the CPU time that the server has used.
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
