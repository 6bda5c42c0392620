package limit_test

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
)

var (
	hot     = limit.Subject{Space: "hot", Name: "topic?id=4242"}
	client  = hottype.ClientFromAddr(netip.MustParseAddr("2001:db8::1"))
	bucket  = limit.Spec{Algorithm: limit.TokenBucket, Limit: 100, Window: time.Second, Burst: 200}
	fixed   = limit.Spec{Algorithm: limit.FixedWindow, Limit: 50, Window: time.Second}
	sliding = limit.Spec{Algorithm: limit.SlidingWindow, Limit: 1000, Window: time.Minute}
	logged  = limit.Spec{Algorithm: limit.SlidingLog, Limit: 10_000, Window: time.Minute}
	request = []limit.Charge{
		{Subject: hot, Spec: bucket, Cost: 1},
		{Subject: limit.Subject{Space: "ip_fixed", Client: client}, Spec: fixed, Cost: 1},
		{Subject: limit.Subject{Space: "ip_sliding", Client: client}, Spec: sliding, Cost: 1},
	}
)

// run takes the charges b.N times while the clock moves by step per call.
func run(b *testing.B, charges []limit.Charge, step time.Duration) {
	m, ctx := limit.NewMemory(limit.MemoryConfig{}), context.Background()
	results := make([]limit.Result, len(charges))
	now := time.Unix(1_700_000_000, 0)
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(step)
		if _, err := m.Take(ctx, now, charges, results); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMemoryDenial(b *testing.B)  { run(b, request[:1], 0) }
func BenchmarkMemoryAllow(b *testing.B)   { run(b, request[:1], 10*time.Millisecond) }
func BenchmarkMemoryFixed(b *testing.B)   { run(b, request[1:2], 100*time.Millisecond) }
func BenchmarkMemorySliding(b *testing.B) { run(b, request[2:], 100*time.Millisecond) }

// BenchmarkMemoryLog calls a log of 10,000 that is always full of ticks.
func BenchmarkMemoryLog(b *testing.B) {
	run(b, []limit.Charge{{Subject: hot, Spec: logged, Cost: 1}}, 6*time.Millisecond)
}

func BenchmarkMemoryThreeAllow(b *testing.B)  { run(b, request, 100*time.Millisecond) }
func BenchmarkMemoryThreeDenial(b *testing.B) { run(b, request, 0) }

// BenchmarkMemoryDenialParallel calls one hot key from both cores, which is the worst case for its lock.
func BenchmarkMemoryDenialParallel(b *testing.B) {
	m, now := limit.NewMemory(limit.MemoryConfig{}), time.Unix(1_700_000_000, 0)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		results := make([]limit.Result, 1)
		for pb.Next() {
			m.Take(context.Background(), now, request[:1], results)
		}
	})
}

// BenchmarkMemoryFlood brings an unknown subject in every call, into full tables.
func BenchmarkMemoryFlood(b *testing.B) {
	m, ctx := limit.NewMemory(limit.MemoryConfig{MaxSubjects: 1 << 16}), context.Background()
	names := make([]string, 1<<20)
	for i := range names {
		names[i] = "topic?id=" + strconv.FormatUint(rand.Uint64(), 36)
	}
	charges := []limit.Charge{{Subject: hot, Spec: bucket, Cost: 1}}
	results := make([]limit.Result, 1)
	now, i := time.Unix(1_700_000_000, 0), 0
	b.ReportAllocs()
	for b.Loop() {
		now, i = now.Add(time.Microsecond), i+1
		charges[0].Subject.Name = names[i&(len(names)-1)]
		m.Take(ctx, now, charges, results)
	}
}
