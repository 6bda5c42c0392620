package fleet

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"
)

var (
	firstSeed = flag.Uint64("seed", 1, "the first seed")
	seeds     = flag.Int("seeds", 3, "how many seeds are run, one after the other")
	exact     = flag.Bool("exact", false, "built with what fleet/overlay writes: a seed gives the same run to the byte")
	tracePath = flag.String("trace", "", "file that gets what happened, in virtual microseconds")
)

// TestFleet_ObeysTheLaws runs seeds and judges the laws.
func TestFleet_ObeysTheLaws(t *testing.T) {
	began := time.Now()
	if *exact {
		runtime.MemProfileRate = 0
		debug.SetGCPercent(-1) // garbage is collected while all wait
	} else {
		defer watchTime(t)()
	}
	n, planted := *seeds, os.Getenv("HOTPARAM_FLEET_SEEDS")
	if planted != "" { // there is a fault, and one seed that finds it is enough
		var err error
		if n, err = strconv.Atoi(planted); err != nil {
			t.Fatal(err)
		}
	}
	done := uint64(0)
	for ; done < uint64(n); done++ {
		if seed := *firstSeed + done; !runPlan(t, seed, newPlan(seed)) && planted != "" {
			break
		}
	}
	virtual, took := time.Duration(done)*runFor, time.Since(began)
	t.Logf("%d seeds, %v virtual in %.1f s: %.0f times real time", done, virtual, took.Seconds(),
		virtual.Seconds()/took.Seconds())
}

// TestSuccessor_ForgetsNoKeyInASilence kills both aggregators, and lets no counts through soon after they are back.
// They have no full window by the time they take over, and no key may be forgotten.
func TestSuccessor_ForgetsNoKeyInASilence(t *testing.T) {
	for seed := range uint64(10) {
		p, begin, silence := newPlan(seed), time.Duration(26950), time.Duration(27450)
		if seed < 3 { // before the first heartbeat, at a full second
			begin, silence = 26000, 26250+100*time.Duration(seed)
		}
		p.faults, p.sentinels, p.kafka = nil, nil, false
		for who := range 2 {
			p.faults = append(p.faults,
				fault{kind: "kill-aggregator", who: who, at: (begin - 1000) * time.Millisecond, took: time.Second},
				fault{kind: "no-input", who: who, at: silence * time.Millisecond, took: 6 * time.Second})
		}
		runPlan(t, seed, p)
	}
}

// TestAggregators_ForgetNoKeyWithoutReaders kills both aggregators. Their partitions of Kafka have no reader until the
// group has given them up, and no key may be forgotten.
func TestAggregators_ForgetNoKeyWithoutReaders(t *testing.T) {
	for _, seed := range []uint64{3, 7, 11} {
		p := newPlan(seed)
		p.static, p.faults = false, nil
		for who := range 2 {
			p.faults = append(p.faults, fault{kind: "kill-aggregator", who: who, at: 20 * time.Second, took: time.Second,
				after: sessionTimeout + kafkaNotices})
		}
		runPlan(t, seed, p)
	}
}

// TestStops_KeepHotKeysHot stops one process of each kind, for each way of counts: the keys that become hot are the
// keys that an exact count finds, no loop is invented, and hot keys stay hot.
func TestStops_KeepHotKeysHot(t *testing.T) {
	const statsd, byCollector, byKafka = 4, 6, 3 // seeds whose counts go that way
	for _, stop := range []struct {
		kind string
		seed uint64
	}{{"stop-limiter", statsd}, {"stop-aggregator", statsd}, {"stop-collector", byCollector}, {"stop-limiter", byKafka},
		{"stop-aggregator", byKafka}} {
		p := newPlan(stop.seed)
		p.faults = []fault{{kind: stop.kind, at: 20 * time.Second, took: 3200 * time.Millisecond}}
		if p.kafka != (stop.seed == byKafka) || p.collector != (stop.seed == byCollector) {
			t.Fatalf("the plan of seed %d: %v", stop.seed, p)
		}
		if p.kafka {
			p.faults[0].after = sessionTimeout + kafkaNotices
		}
		runPlan(t, stop.seed, p)
	}
}

// TestRedis_MaySetItsClockBack has Redis' clock set back by ten minutes and by two hours, before a key becomes viral
// and while it is: limiters find it, follow overrides and rules, keep it hot, and count no window twice. The aggregator
// that owns the lease dies with the old clock; later the other one does.
func TestRedis_MaySetItsClockBack(t *testing.T) {
	for _, c := range []struct{ back, viralFrom time.Duration }{{10 * time.Minute, 8 * time.Second},
		{10 * time.Minute, 20 * time.Second}, {2 * time.Hour, 8 * time.Second}, {2 * time.Hour, 20 * time.Second}} {
		p := newPlan(4)
		p.viralFrom = c.viralFrom
		rate := p.traffic[0].rate
		p.traffic[0].rate = func(t time.Duration) float64 {
			if t < c.viralFrom {
				return 0
			}
			return rate(t)
		}
		p.faults = []fault{{kind: "set-back-redis", at: 14 * time.Second, who: int(c.back.Seconds())},
			{kind: "kill-aggregator", at: 14*time.Second + time.Millisecond, took: time.Second},
			{kind: "kill-aggregator", at: 32 * time.Second, took: time.Second, who: 1}}
		runPlan(t, 4, p)
	}
}

// runPlan runs the plan of a seed.
func runPlan(t *testing.T, seed uint64, plan *plan) (ok bool) {
	cryptotest.SetGlobalRandom(t, seed)
	runtime.GC() // twice empties the pools of packages, which hold timers of the last bubble
	runtime.GC()
	var trace *bytes.Buffer
	if *tracePath != "" {
		trace = new(bytes.Buffer)
	}
	if trace != nil {
		defer func() {
			if err := os.WriteFile(*tracePath, trace.Bytes(), 0o600); err != nil {
				t.Error(err)
			}
		}()
	}
	return t.Run(fmt.Sprint(seed), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			if *exact {
				for range seed {
					rand.Uint64() // moves on the random numbers of this bubble
				}
			}
			w := simulate(t, plan, seed, writerOf(trace))
			t.Logf("seed %d: %d requests, trace %016x", seed, w.seen.requests, w.seen.trace.Sum64())
		})
	})
}

func writerOf(b *bytes.Buffer) io.Writer {
	if b == nil {
		return nil
	}
	return b
}

// simulate runs a plan in this bubble.
func simulate(t *testing.T, p *plan, seed uint64, trace io.Writer) *World {
	w := newWorld(p, seed, trace)
	l := newLaws(w, func(format string, args ...any) { t.Errorf("seed %d: "+format, append([]any{seed}, args...)...) })
	w.run(seed, func() {
		passed.Add(1)
		l.judge()
		if *exact {
			runtime.GC()
		}
	})
	w.stop()
	l.judgeEnd()
	w.redis.close()
	if t.Failed() {
		t.Logf("seed %d: broken: %v", seed, l)
		t.Logf("seed %d: %v", seed, p)
	}
	return w
}

// passed counts virtual seconds.
var passed atomic.Int64

// watchTime dumps all goroutines if virtual time stands still, because a goroutine waits for a mutex or for something
// outside of the bubble.
func watchTime(t *testing.T) (stop func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		last, since := passed.Load(), time.Now()
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Second):
			}
			if now := passed.Load(); now != last {
				last, since = now, time.Now()
			} else if time.Since(since) > time.Minute {
				fmt.Fprintf(os.Stderr, "fleet: virtual time stands still after %d s\n", last)
				_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
				os.Exit(3)
			}
		}
	}()
	return func() { close(done) }
}
