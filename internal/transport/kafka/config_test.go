package kafka_test

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/transport/kafka"
)

// What needs a broker is tested in test/kafka.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The metrics library below the client has one ticker for the process.
		goleak.IgnoreAnyFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

func TestConfig_RefusesBadSettings(t *testing.T) {
	t.Parallel()
	good := kafka.Config{Brokers: []string{"127.0.0.1:9092"}, Topic: "counts", Group: "judges"}
	for name, change := range map[string]func(*kafka.Config){
		"no brokers":    func(c *kafka.Config) { c.Brokers = nil },
		"no port":       func(c *kafka.Config) { c.Brokers = []string{"localhost"} },
		"no topic":      func(c *kafka.Config) { c.Topic = "" },
		"bad topic":     func(c *kafka.Config) { c.Topic = "a b" },
		"half a login":  func(c *kafka.Config) { c.Login.Username = "u" },
		"long tenant":   func(c *kafka.Config) { c.Namespace = strings.Repeat("n", 300) },
		"few partition": func(c *kafka.Config) { c.Partitions = -1 },
	} {
		cfg := good
		change(&cfg)
		if _, err := kafka.NewProducer(kafka.ProducerConfig{Config: cfg}); err == nil {
			t.Errorf("%s: a producer", name)
		}
		if _, err := kafka.NewConsumer(kafka.ConsumerConfig{Config: cfg,
			Handle: func([]hottype.Count) {}}); err == nil {
			t.Errorf("%s: a consumer", name)
		}
	}
	cfg := good
	cfg.Group = ""
	if _, err := kafka.NewConsumer(kafka.ConsumerConfig{Config: cfg, Handle: func([]hottype.Count) {}}); err == nil {
		t.Error("a consumer without a group")
	}
}
