package limit_test

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
)

// One request is charged to a bucket for its hot key and to a window for its client. Both are charged, or neither is.
func Example() {
	store := limit.NewMemory(limit.MemoryConfig{})
	topic := limit.Spec{Algorithm: limit.TokenBucket, Limit: 100, Window: time.Second, Burst: 3}
	client := limit.Spec{Algorithm: limit.FixedWindow, Limit: 50, Window: time.Second}

	charges := []limit.Charge{
		{Subject: limit.Subject{Space: "hot", Name: "topic?id=42"}, Spec: topic, Cost: 1},
		{Subject: limit.Subject{Space: "ip_fixed", Client: hottype.ClientFromAddr(netip.MustParseAddr("192.0.2.7"))},
			Spec: client, Cost: 1},
	}
	results := make([]limit.Result, len(charges))
	now := time.Unix(1_700_000_000, 0)
	for range 4 {
		admitted, err := store.Take(context.Background(), now, charges, results)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%v: topic %d left, retry after %v; client %d left\n",
			admitted, results[0].Remaining, results[0].RetryAfter, results[1].Remaining)
	}
	// Output:
	// true: topic 2 left, retry after 0s; client 49 left
	// true: topic 1 left, retry after 0s; client 48 left
	// true: topic 0 left, retry after 0s; client 47 left
	// false: topic 0 left, retry after 10ms; client 47 left
}

// A spec that cannot be kept exactly is rejected with the reason.
func ExampleSpec_Validate() {
	hourly := limit.Spec{Algorithm: limit.SlidingWindow, Limit: 10_000_000, Window: time.Hour}
	fmt.Println(hourly.Validate())
	hourly.Limit = 1_000_000
	fmt.Println(hourly.Validate())
	// Output:
	// limit: sliding window of 10000000 per 1h0m0s: limit x microseconds must stay below 2^53
	// <nil>
}

// Ten requests a second, all at once or one each 100 ms.
func ExamplePerSecond() {
	fmt.Printf("%+v\n", limit.PerSecond(10).Capacity())
	fmt.Println(limit.PerSecond(10) == limit.Every(time.Second, 10))
	// Output:
	// 10
	// true
}

// A job continues when the limit allows it, but waits at most five seconds.
func ExampleMemory_Wait() {
	store := limit.NewMemory(limit.MemoryConfig{})
	fetch := []limit.Charge{{Subject: limit.Subject{Space: "crawl", Name: "example.org"}, Spec: limit.PerMinute(2),
		Cost: 1}}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for range 3 {
		fmt.Println(store.Wait(ctx, fetch))
	}
	// Output:
	// <nil>
	// <nil>
	// limit: wait: the wait would be longer than the context
}

// A store in process gets the time from its caller.
func ExampleNewMemory() {
	store := limit.NewMemory(limit.MemoryConfig{MaxSubjects: 10_000})
	charge := []limit.Charge{{Subject: limit.Subject{Space: "mail", Name: "anna"}, Spec: limit.PerMinute(1), Cost: 1}}
	result := make([]limit.Result, 1)
	now := time.Unix(1_700_000_000, 0)
	for _, at := range []time.Duration{0, 30 * time.Second, time.Minute} {
		allowed, err := store.Take(context.Background(), now.Add(at), charge, result)
		fmt.Println(at, allowed, result[0].RetryAfter, err)
	}
	// Output:
	// 0s true 0s <nil>
	// 30s false 30s <nil>
	// 1m0s true 0s <nil>
}
