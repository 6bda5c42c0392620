package miniredis_test

import (
	"context"
	"fmt"
	"log"

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
			log.Fatal(err) // or send it: what Redis does not know, you decide
		}
		fmt.Println(result.Allowed, result.Remaining)
	}
	// Output:
	// true 2
	// true 1
	// true 0
	// false 0
}

// A batch takes what is there, and gives back what it does not use.
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
