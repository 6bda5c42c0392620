package main

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/bench/internal/measure"
)

// flooders is the number of goroutines that request random values.
const flooders = 2

// pause is the interval between requests for the limited value: five times its limit. Sentinel remembers the last 4000
// values, so a flood erases the limit when more values than that pass in a pause.
const pause = 20 * time.Millisecond

// flood holds the results of one run of the flood.
type flood struct {
	asked, admitted int64
	took            time.Duration
	others          atomic.Int64
	slow            atomic.Int64 // checks over 1 ms
	slowest         atomic.Int64 // ns
}

// run requests the limited value once every pause, and random values all the time. limited and other make one check;
// limited reports whether the request was admitted.
func (f *flood) run(d time.Duration, limited func() bool, other func(id string)) {
	stop := make(chan struct{})
	var wait sync.WaitGroup
	for range flooders {
		wait.Go(func() { f.pour(stop, other) })
	}
	began := time.Now()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for time.Since(began) < d {
		<-tick.C
		t := time.Now()
		ok := limited()
		f.note(time.Since(t))
		f.asked++
		if ok {
			f.admitted++
		}
	}
	f.took = time.Since(began)
	close(stop)
	wait.Wait()
}

// pour requests random values until stop is closed.
func (f *flood) pour(stop <-chan struct{}, other func(id string)) {
	n := int64(0)
	defer func() { f.others.Add(n) }()
	for {
		select {
		case <-stop:
			return
		default:
		}
		for range 64 {
			id := strconv.FormatUint(rand.Uint64(), 36)
			t := time.Now()
			other(id)
			f.note(time.Since(t))
		}
		n += 64
		runtime.Gosched() // so that the limited value is requested in time
	}
}

func (f *flood) note(d time.Duration) {
	if d > time.Millisecond {
		f.slow.Add(1)
	}
	for old := f.slowest.Load(); int64(d) > old; old = f.slowest.Load() {
		if f.slowest.CompareAndSwap(old, int64(d)) {
			return
		}
	}
}

func (f *flood) add(sheet *measure.Sheet, who string) {
	allowed := limitPerSecond + limitPerSecond*f.took.Seconds()
	all := float64(f.others.Load() + f.asked)
	sheet.Add("one limited value in a flood", who, float64(f.admitted), float64(f.asked), float64(int(allowed)),
		float64(f.others.Load())/f.took.Seconds()/1e6, float64(f.slowest.Load())/1e6, float64(f.slow.Load())/all*1e6)
}

func floodCases(sheet *measure.Sheet, d time.Duration) []func() error {
	return []func() error{
		func() error { return floodOurs(sheet, d) },
		func() error { return floodTheirs(sheet, d) },
		func() error { return floodNobody(sheet, d) },
	}
}

// floodOurs lets the whole pipeline find the value hot before the flood, and keep it hot during the flood.
func floodOurs(sheet *measure.Sheet, d time.Duration) error {
	p, err := newPipeline(topicRule)
	if err != nil {
		return err
	}
	if !p.untilHot(hotTarget) {
		return fmt.Errorf("inprocess: %s did not become hot", hotTarget)
	}
	var f flood
	ctx, hot := context.Background(), request(hotTarget)
	f.run(d, func() bool { return p.gate.Decide(ctx, time.Now(), hot).Allowed },
		func(id string) { p.gate.Decide(ctx, time.Now(), request(target(id))) })
	f.add(sheet, measure.Ours)
	return p.stop()
}

func floodTheirs(sheet *measure.Sheet, d time.Duration) error {
	if err := loadSentinel(limitPerSecond); err != nil {
		return err
	}
	var f flood
	f.run(d, func() bool { return askSentinel("42", "en", "3") }, func(id string) { askSentinel(id, "en", "3") })
	f.add(sheet, peer)
	return nil
}

// floodNobody only hashes, for about as long as a check takes. Its slowest "check" shows the delays of the machine.
func floodNobody(sheet *measure.Sheet, d time.Duration) error {
	var f flood
	page, seed := make([]byte, 4096), maphash.MakeSeed()
	f.run(d, func() bool { return true }, func(string) { maphash.Bytes(seed, page) })
	f.add(sheet, "(no limiter: the machine's own pauses)")
	return nil
}
