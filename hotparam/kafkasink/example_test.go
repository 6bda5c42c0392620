package kafkasink_test

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/kafkasink"
	"github.com/hotparam/pipeline/hotparam/shared"
)

// Many services send their counts to aggregators by Kafka. New needs no running server.
func Example() {
	sink, err := kafkasink.New(kafkasink.Config{Brokers: []string{"127.0.0.1:9092"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	defer rdb.Close()
	p, err := hotparam.New(hotparam.Config{Shared: shared.Config{Redis: rdb, Sink: sink}})
	fmt.Println(p != nil, err)
	// Output: true <nil>
}
