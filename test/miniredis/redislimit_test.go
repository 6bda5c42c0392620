package miniredis_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/redislimit"
)

// Anna gets three mails a minute, whichever process sends them.
func Example_oneLimit() {
	server, err := miniredis.Run() // yours is a real one
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	rdb := goredis.NewClient(&goredis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true})
	defer rdb.Close()

	limits := redislimit.New(rdb)
	for range 4 {
		result, err := limits.Allow(context.Background(), "mail:anna", limit.PerMinute(3))
		if err != nil {
			log.Fatal(err) // or send it: you decide when Redis does not
		}
		fmt.Println(result.Allowed, result.Remaining)
	}
	// Output:
	// true 2
	// true 1
	// true 0
	// false 0
}

// A batch takes all tokens that are left, and refunds the tokens that it does not use.
func Example_upTo() {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	rdb := goredis.NewClient(&goredis.Options{Addr: server.Addr()})
	defer rdb.Close()

	limits, ctx, hourly := redislimit.New(rdb), context.Background(), limit.PerHour(100)
	result, err := limits.AllowUpTo(ctx, "export", hourly, 500)
	fmt.Println(result.Taken, err)
	back, err := limits.Refund(ctx, result)
	fmt.Println(back, err)
	// Output:
	// 100 <nil>
	// true <nil>
}

// Two limits of one call are charged together or not at all.
func Example_store() {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	rdb := goredis.NewClient(&goredis.Options{Addr: server.Addr()})
	defer rdb.Close()

	charges := []limit.Charge{
		{Subject: limit.Subject{Space: "mail", Name: "anna"}, Spec: limit.PerHour(5), Cost: 1},
		{Subject: limit.Subject{Space: "mail", Name: "all"}, Spec: limit.PerHour(2), Cost: 1},
	}
	results := make([]limit.Result, len(charges))
	for process := range 3 {
		store := redislimit.New(rdb).Store()
		admitted, err := store.Take(context.Background(), time.Now(), charges, results)
		fmt.Println(process, admitted, results[0].Remaining, results[1].Remaining, err)
	}
	// Output:
	// 0 true 4 1 <nil>
	// 1 true 3 0 <nil>
	// 2 false 3 0 <nil>
}

// What redis-cell's CL.THROTTLE user123 15 30 60 answers, on a Redis without it.
func Example_throttle() {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	rdb := goredis.NewClient(&goredis.Options{Addr: server.Addr()})
	defer rdb.Close()

	reply, err := redislimit.New(rdb).Throttle(context.Background(), "user123", 15, 30, time.Minute, 1)
	fmt.Printf("%+v %v\n", reply, err)
	// Output:
	// {Limited:false Limit:16 Remaining:15 RetryAfter:-1 ResetAfter:2} <nil>
}

// At most one export at a time, in all processes. If its process dies the place is
// free again after a minute.
func Example_placesInFlight() {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	rdb := goredis.NewClient(&goredis.Options{Addr: server.Addr()})
	defer rdb.Close()

	ctx, exports := context.Background(), redislimit.New(rdb).InFlight("export", 1, time.Minute)
	first, err := exports.Acquire(ctx, "job 1")
	fmt.Println(first.Allowed, err)
	second, err := exports.Acquire(ctx, "job 2")
	fmt.Println(second.Allowed, err)
	had, err := exports.Release(ctx, "job 1")
	fmt.Println(had, err)
	// Output:
	// true <nil>
	// false <nil>
	// true <nil>
}
