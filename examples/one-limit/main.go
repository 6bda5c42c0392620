// Command one-limit sends mail, three a minute to each address, however many instances of it run: the limit is in
// Redis, and no other part of the pipeline is needed.
//
//	redis-server &
//	go run ./examples/one-limit anna@example.org bert@example.org anna@example.org
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/redislimit"
)

func main() {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", ContextTimeoutEnabled: true})
	defer rdb.Close()
	limits := redislimit.New(rdb)
	for _, address := range os.Args[1:] {
		result, err := limits.Allow(context.Background(), "mail:"+address, limit.PerMinute(3))
		switch {
		case err != nil:
			log.Printf("Redis does not answer, the mail is sent: %v", err)
		case !result.Allowed:
			fmt.Printf("%s: no, try again in %v\n", address, result.RetryAfter)
			continue
		}
		fmt.Printf("%s: sent, %d more this minute\n", address, result.Remaining)
	}
}
