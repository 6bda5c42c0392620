package integration_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/transport/kafka"
)

// What docs/protocol.md shows: a person types one line of JSON.
func TestConsumer_ReadsJSONTypedByHand(t *testing.T) {
	c := start(t, 1)
	var mu sync.Mutex
	var got []hottype.Count
	consumer, err := kafka.NewConsumer(kafka.ConsumerConfig{Config: config(c), Handle: func(counts []hottype.Count) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, counts...)
	}})
	if err != nil {
		t.Fatal(err)
	}
	run(t, consumer.Run)
	await(t, "the topic", func() bool { return consumer.Stats().Partitions == 8 })
	typed := c.java(0, "kafka.tools.ConsoleProducer", "--bootstrap-server", c.address(0), "--topic", topic)
	typed.Stdin = strings.NewReader(`{"namespace":"news","counts":[{"key":"topic?id=42","n":3000}]}` + "\n")
	if out, err := typed.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	await(t, "the count", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(got) > 0
	})
	age := time.Since(time.Unix(got[0].Second, 0))
	if len(got) != 1 || got[0].Key != "topic?id=42" || got[0].N != 3000 || age < 0 || age > time.Minute {
		t.Errorf("got %+v", got)
	}
}
