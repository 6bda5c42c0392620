package redislimit_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/redislimit"
)

// Examples that need a Redis are compiled only; test/miniredis runs similar code.

// Anna gets three mails a minute, whichever process sends them.
func Example() {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", ContextTimeoutEnabled: true})
	defer rdb.Close()

	limits := redislimit.New(rdb)
	result, err := limits.Allow(context.Background(), "mail:anna", limit.PerMinute(3))
	switch {
	case err != nil:
		log.Print(err) // without a verdict the service decides
	case result.Allowed:
		fmt.Printf("sent, %d more this minute\n", result.Remaining)
	default:
		fmt.Printf("not sent, try again in %v\n", result.RetryAfter)
	}
}

// A batch takes the calls that remain, and refunds the calls that it does not use.
func ExampleLimiter_AllowUpTo() {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", ContextTimeoutEnabled: true})
	defer rdb.Close()

	limits, ctx := redislimit.New(rdb), context.Background()
	result, err := limits.AllowUpTo(ctx, "export", limit.PerHour(100), 500)
	fmt.Println(result.Taken, err) // at most 100
	_, err = limits.Refund(ctx, result)
	fmt.Println(err)
}

// A job continues when the limit allows it, but waits at most five seconds.
func ExampleLimiter_Wait() {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", ContextTimeoutEnabled: true})
	defer rdb.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := redislimit.New(rdb).Wait(ctx, "crawl:example.org", limit.PerSecond(10))
	fmt.Println(err)
}

// New takes a client of one server, of Sentinel, or of a cluster. Without Redis a call returns an error, and the caller
// decides.
func ExampleNew() {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, ContextTimeoutEnabled: true})
	defer rdb.Close()
	limits := redislimit.New(rdb)

	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	result, err := limits.Allow(ctx, "mail:anna", limit.PerMinute(3))
	if err != nil {
		fmt.Println("no verdict: the mail is sent all the same")
		return
	}
	fmt.Println(result.Allowed)
	// Output: no verdict: the mail is sent all the same
}
