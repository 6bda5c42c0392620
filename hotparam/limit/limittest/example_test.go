package limittest_test

import (
	"testing"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/limit/limittest"
)

// yourStore is a store of your own; in this example it is the store of one process.
type yourStore struct{ limit.Store }

func (s *yourStore) forget() { s.Store = limit.NewMemory(limit.MemoryConfig{}) }

func ExampleRun() {
	_ = func(t *testing.T) {
		limittest.Run(t, func(testing.TB) limittest.Fixture {
			store := &yourStore{}
			store.forget()
			return limittest.Fixture{Store: store, Reset: store.forget}
		})
	}
}
