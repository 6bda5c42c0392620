package miniredis_test

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/storage/redislimits"
)

// redis runs a server for an example, whose clock stands still.
func redis() (*miniredis.Miniredis, error) {
	server, err := miniredis.Run()
	if err == nil {
		server.SetTime(time.Unix(1_700_000_000, 0))
	}
	return server, err
}

// At most one export at a time, in all processes. If its process dies the place
// is free again after a minute.
func Example_inFlight() {
	server, err := redis()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	client, err := redisclient.Open(redisclient.Config{Addrs: []string{server.Addr()}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	exports, err := redislimits.New(client).InFlight("export", 1, time.Minute)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	for _, id := range []string{"one", "two"} {
		r, err := exports.Acquire(ctx, id)
		fmt.Println(id, r.Allowed, r.RetryAfter, err)
	}
	fmt.Println(exports.Release(ctx, "one"))
	r, err := exports.Acquire(ctx, "two")
	fmt.Println("two", r.Allowed, err)
	// Output:
	// one true 0s <nil>
	// two false 1m0s <nil>
	// true <nil>
	// two true <nil>
}

// A charge for a mail that was not sent is refunded. The variable at is the time of the charge, by the clock of Redis.
func Example_refund() {
	server, err := redis()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	client, err := redisclient.Open(redisclient.Config{Addrs: []string{server.Addr()}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	limiter := redislimits.New(client)
	spec := limit.Spec{Algorithm: limit.FixedWindow, Limit: 5, Window: time.Hour}
	charges := []limit.Charge{{Subject: limit.Subject{Space: "mail", Name: "anna"}, Spec: spec, Cost: 4}}
	ctx, results := context.Background(), make([]limit.Result, 1)
	_, at, err := limiter.TakeAt(ctx, time.Now(), charges, results)
	fmt.Println(results[0].Remaining, err)
	err = limiter.RefundAt(ctx, at, charges, results)
	fmt.Println(results[0].Remaining, err)
	// Output:
	// 1 <nil>
	// 5 <nil>
}
