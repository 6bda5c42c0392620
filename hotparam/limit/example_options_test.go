package limit_test

import (
	"context"
	"fmt"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// start is the edge of a second.
var start = time.Unix(1_700_000_000, 0)

// ask takes one charge of one subject from a store.
func ask(store limit.Store, now time.Time, spec limit.Spec, cost int64) (limit.Charge, limit.Result) {
	charges := []limit.Charge{{Subject: limit.Subject{Space: "hot", Name: "topic?id=42"}, Spec: spec, Cost: cost}}
	results := make([]limit.Result, 1)
	if _, err := store.Take(context.Background(), now, charges, results); err != nil {
		fmt.Println(err)
	}
	return charges[0], results[0]
}

// Every algorithm at 10 a second: the calls that pass just before the edge of a second, and just after it.
func ExampleSpec() {
	for _, spec := range []limit.Spec{
		{Algorithm: limit.TokenBucket, Limit: 10, Window: time.Second, Burst: 10},
		{Algorithm: limit.GCRA, Limit: 10, Window: time.Second, Burst: 9},
		{Algorithm: limit.LeakyBucket, Limit: 10, Window: time.Second, Burst: 9},
		{Algorithm: limit.FixedWindow, Limit: 10, Window: time.Second},
		{Algorithm: limit.AnchoredWindow, Limit: 10, Window: time.Second},
		{Algorithm: limit.SlidingWindow, Limit: 10, Window: time.Second},
		{Algorithm: limit.SlidingLog, Limit: 10, Window: time.Second},
		{Algorithm: limit.BucketedWindow, Limit: 10, Window: time.Second, Buckets: 10},
	} {
		store, passed := limit.NewMemory(limit.MemoryConfig{}), map[time.Duration]int{}
		for _, at := range []time.Duration{900 * time.Millisecond, 1100 * time.Millisecond} {
			for range 25 {
				if _, r := ask(store, start.Add(at), spec, 1); r.Allowed {
					passed[at]++
				}
			}
		}
		_, r := ask(store, start.Add(1100*time.Millisecond), spec, 1)
		fmt.Printf("%-15s  %2d, %2d; retry after %v\n", spec.Algorithm, passed[900*time.Millisecond],
			passed[1100*time.Millisecond], r.RetryAfter)
	}
	// Output:
	// token_bucket     10,  2; retry after 100ms
	// gcra             10,  2; retry after 100ms
	// leaky_bucket     10,  2; retry after 100ms
	// fixed_window     10, 10; retry after 900ms
	// anchored_window  10,  0; retry after 800ms
	// sliding_window   10,  1; retry after 100ms
	// sliding_log      10,  0; retry after 800ms
	// bucketed_window  10,  0; retry after 900ms
}

// A call may have a cost above 1, and cost 0 peeks without taking.
func ExampleCharge() {
	store := limit.NewMemory(limit.MemoryConfig{})
	spec := limit.Spec{Algorithm: limit.TokenBucket, Limit: 10, Window: time.Second, Burst: 10}
	for _, cost := range []int64{7, 5, 0, 3, 11} {
		_, r := ask(store, start, spec, cost)
		fmt.Printf("cost %d: %v, %d left, retry after %v\n", cost, r.Allowed, r.Remaining, r.RetryAfter)
	}
	// Output:
	// cost 7: true, 3 left, retry after 0s
	// cost 5: false, 3 left, retry after 200ms
	// cost 0: true, 3 left, retry after 0s
	// cost 3: true, 0 left, retry after 0s
	// cost 11: false, 0 left, retry after -1ns
}

// With Wait a call that comes too early is allowed, with the time for which its caller has to hold it back. If that
// time would be longer than Wait, the call is denied at once.
func ExampleCharge_Wait() {
	store := limit.NewMemory(limit.MemoryConfig{})
	spec := limit.Spec{Algorithm: limit.TokenBucket, Limit: 10, Window: time.Second, Burst: 2,
		Wait: 200 * time.Millisecond}
	for range 5 {
		c, r := ask(store, start, spec, 1)
		fmt.Println(r.Allowed, c.Wait(&r), r.RetryAfter)
	}
	// Output:
	// true 0s 0s
	// true 0s 0s
	// true 100ms 0s
	// true 200ms 0s
	// false 0s 100ms
}

// A denied subject stays denied for a minute, and for twice as long if it comes back at once and is denied again.
func ExampleSpec_block() {
	store := limit.NewMemory(limit.MemoryConfig{})
	spec := limit.Spec{Algorithm: limit.FixedWindow, Limit: 1, Window: time.Second, Block: time.Minute,
		BlockMax: time.Hour}
	for _, at := range []time.Duration{0, 0, time.Minute, time.Minute} {
		_, r := ask(store, start.Add(at), spec, 1)
		fmt.Println(at, r.Allowed, r.RetryAfter)
	}
	// Output:
	// 0s true 0s
	// 0s false 1m0s
	// 1m0s true 0s
	// 1m0s false 2m0s
}

// Members and visitors share one bucket. Visitors leave half of it to the members, so a member is allowed although
// visitors ask for more than the rate.
func ExampleSpec_reserve() {
	store := limit.NewMemory(limit.MemoryConfig{})
	member := limit.Spec{Algorithm: limit.TokenBucket, Limit: 10, Window: time.Second, Burst: 6}
	visitor := member
	visitor.Reserve = 3
	for range 4 {
		_, r := ask(store, start, visitor, 1)
		fmt.Println("visitor", r.Allowed, r.Remaining, r.RetryAfter)
	}
	_, r := ask(store, start, member, 1)
	fmt.Println("member", r.Allowed, r.Remaining)
	// Output:
	// visitor true 2 0s
	// visitor true 1 0s
	// visitor true 0 0s
	// visitor false 0 100ms
	// member true 2
}

// A caller that can use less takes the tokens that are left.
func ExampleTakeUpTo() {
	store, ctx := limit.NewMemory(limit.MemoryConfig{}), context.Background()
	spec := limit.Spec{Algorithm: limit.TokenBucket, Limit: 10, Window: time.Second, Burst: 10}
	lines := limit.Charge{Subject: limit.Subject{Space: "lines", Name: "export"}, Spec: spec, Cost: 8}
	for range 3 {
		n, r, err := limit.TakeUpTo(ctx, store, start, lines)
		fmt.Println(n, r.RetryAfter, err)
	}
	// Output:
	// 8 0s <nil>
	// 2 0s <nil>
	// 0 100ms <nil>
}

// RefundAt refunds a charge that was made for nothing, and never more than that.
func ExampleMemory_RefundAt() {
	store := limit.NewMemory(limit.MemoryConfig{})
	spec := limit.Spec{Algorithm: limit.TokenBucket, Limit: 10, Window: time.Second, Burst: 10}
	c, r := ask(store, start, spec, 6)
	fmt.Println(r.Remaining)
	later := start.Add(200 * time.Millisecond) // two of the six tokens have returned by themselves
	store.RefundAt(start, []limit.Charge{c})
	_, r = ask(store, later, spec, 0)
	fmt.Println(r.Remaining)
	// Output:
	// 4
	// 10
}

// At most two exports run at a time. An export that never ends counts for a minute.
func ExampleNewInFlight() {
	exports, err := limit.NewInFlight(2, time.Minute)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range []string{"a", "b", "c"} {
		r := exports.Acquire(start, id)
		fmt.Println(id, r.Allowed, r.RetryAfter)
	}
	exports.Release(start, "a")
	fmt.Println("c", exports.Acquire(start, "c").Allowed)
	// Output:
	// a true 0s
	// b true 0s
	// c false 1m0s
	// c true
}

// The five numbers of redis-cell's CL.THROTTLE user123 15 30 60.
func ExampleResult_Throttle() {
	store := limit.NewMemory(limit.MemoryConfig{})
	_, r := ask(store, start, limit.Spec{Algorithm: limit.GCRA, Limit: 30, Window: time.Minute, Burst: 15}, 1)
	fmt.Printf("%+v\n", r.Throttle())
	// Output:
	// {Limited:false Limit:16 Remaining:15 RetryAfter:-1 ResetAfter:2}
}

// A server that has been idle is cold, and its load increases step by step.
func ExampleSpec_warmUp() {
	store, now := limit.NewMemory(limit.MemoryConfig{}), start
	spec := limit.Spec{Algorithm: limit.WarmingUp, Limit: 2, Window: time.Second, WarmUp: 4 * time.Second,
		Wait: 2 * time.Second}
	for range 6 {
		c, r := ask(store, now, spec, 1)
		wait := c.Wait(&r)
		fmt.Println(wait)
		now = now.Add(wait)
	}
	// Output:
	// 0s
	// 1.375s
	// 1.125s
	// 875ms
	// 625ms
	// 500ms
}
