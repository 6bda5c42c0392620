package kafkasink_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/kafkasink"
	"github.com/hotparam/pipeline/hotparam/shared"
)

// A sink that no broker has answered says so at once, and the counts that wait are neither delivered nor dropped.
func TestSink_IsDownWithoutBrokers(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer rdb.Close()
	sink, err := kafkasink.New(kafkasink.Config{Brokers: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := hotparam.New(hotparam.Config{Shared: shared.Config{Redis: rdb, Sink: sink}})
	if err != nil {
		t.Fatal(err)
	}
	if h := p.Stats().Health; !h.CountsDown || h.CountsLost != -1 || !h.Blind() {
		t.Errorf("%+v", h)
	}
}

func TestNew_RefusesZeroRules(t *testing.T) {
	t.Parallel()
	if _, err := kafkasink.New(kafkasink.Config{Brokers: []string{"a:1"}, Rules: new(hotparam.Rules)}); err == nil {
		t.Error("the zero Rules are taken")
	}
}
