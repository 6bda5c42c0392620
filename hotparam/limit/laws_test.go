package limit_test

import (
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/limit/limittest"
)

func TestMemoryLaws(t *testing.T) {
	t.Parallel()
	limittest.Run(t, func(testing.TB) limittest.Fixture {
		m := limit.NewMemory(limit.MemoryConfig{})
		return limittest.Fixture{
			Store:  m,
			Reset:  func() { m.Sweep(time.Unix(1<<40, 0)) },
			Expire: func(now time.Time) { m.Sweep(now) },
			Dump:   m.Dump,
		}
	})
}
