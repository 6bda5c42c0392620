package kafkasink_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/kafkasink"
	"github.com/hotparam/pipeline/hotparam/shared"
)

// A sink to which no broker has responded reports that it is down at once, and the counts that wait are neither
// delivered nor dropped.
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

// Methods of a Sink that New has not made do not dereference nil; their errors tell the caller to use New.
func TestSink_ZeroValueSaysToUseNew(t *testing.T) {
	t.Parallel()
	for _, sink := range []*kafkasink.Sink{nil, {}} {
		for name, call := range map[string]func() error{
			"Send":      func() error { return sink.Send(t.Context(), nil) },
			"Run":       func() error { return sink.Run(t.Context()) },
			"Delivered": panics(func() { sink.Delivered() }),
			"Down":      panics(func() { sink.Down() }),
		} {
			if err := call(); err == nil || !strings.Contains(err.Error(), "make it with New") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// panics returns a function that returns the error with which f panics.
func panics(f func()) func() error {
	return func() (err error) {
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("%v", r)
			}
		}()
		f()
		return nil
	}
}
