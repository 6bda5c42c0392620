package shared_test

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/shared"
)

// Many instances of a service share hot keys and limits by Redis; aggregators receive the counts of each instance. New
// needs no server to be up.
func Example() {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	defer rdb.Close()
	p, err := hotparam.New(hotparam.Config{Shared: shared.Config{Redis: rdb, StatsD: "127.0.0.1:8127"}})
	fmt.Println(p != nil, err)
	// Output: true <nil>
}
