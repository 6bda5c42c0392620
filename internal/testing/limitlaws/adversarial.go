package limitlaws

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
)

// AdversarialSubjects returns subjects of which no two may be confused. They are of any length and any bytes, and look
// like each other or like parts of a key in Redis.
func AdversarialSubjects() []limit.Subject {
	long := strings.Repeat("a", 64<<10)
	names := []string{
		"", "x", " x", "x ", "\x00", "x\x00", "x\ny", "x\r\n$3\r\nfoo", "\xff\xfe", "\xc3\x28", "{", "}", "{}",
		"{other}:x", "}{", "hp:{test}:limit:test:k:x",
		"%s%d%n", "a:192.0.2.7", "k:x", "h:x", "*", "?[a-z]", "192.0.2.7 x", long, long + "b", long[:512], long[:511],
	}
	var all []limit.Subject
	for _, n := range names {
		all = append(all, limit.Subject{Space: "test", Name: n})
	}
	addr := hottype.ClientFromAddr(netip.MustParseAddr("192.0.2.7"))
	return append(all,
		limit.Subject{Name: "x"}, limit.Subject{Space: "test:k", Name: "x"}, limit.Subject{Space: "test_k", Name: "x"},
		limit.Subject{Space: "{other}", Name: "x"},
		limit.Subject{Space: "test", Client: addr}, limit.Subject{Space: "test", Client: addr, Name: "x"},
		limit.Subject{Space: "test", Client: hottype.Client{Name: "x"}},
		limit.Subject{Space: "test", Client: hottype.Client{Name: "192.0.2.7"}},
		limit.Subject{Space: "test", Client: hottype.Client{Name: "1:x"}},
		limit.Subject{Space: "test", Client: hottype.Client{Name: long}},
		limit.Subject{Space: "test", Client: hottype.Client{Name: "x"}, Name: "x"},
		limit.Subject{Space: "test", Client: hottype.Client{Name: "xx"}},
	)
}

// testHostile checks that the answer is an error that charges nothing, or follows the law, for all names of subjects,
// costs and jumps of the clock.
func testHostile(t *testing.T, f Fixture) {
	subjects := AdversarialSubjects()
	check(t, 1, func(rt *rapid.T, steps int) {
		f.Reset()
		s, now := store{f, rt}, newClock(rt)
		oracles := map[limit.Subject]*oracle{}
		for _, sub := range subjects {
			oracles[sub] = &oracle{spec: drawSpec(rt)}
		}
		few := rapid.SliceOfNDistinct(rapid.SampledFrom(subjects), 4, 4, rapid.ID).Draw(rt, "subjects")
		for range steps {
			at := now.jump(rt, f.OverNodes)
			var charges []limit.Charge
			bad := false
			for range rapid.IntRange(1, 3).Draw(rt, "charges") {
				sub := rapid.SampledFrom(few).Draw(rt, "subject")
				spec := oracles[sub].spec
				cost := rapid.SampledFrom([]int64{0, 1, 1, 2, spec.Capacity(), spec.Capacity() + 1, 1<<53 - 1, 1 << 53,
					math.MaxInt64, -1, math.MinInt64}).Draw(rt, "cost")
				charges, bad = append(charges, limit.Charge{Subject: sub, Spec: spec, Cost: cost}), bad || cost < 0
			}
			if bad {
				_, err := s.Store.Take(context.Background(), time.UnixMicro(at), charges,
					make([]limit.Result, len(charges)))
				if !errors.Is(err, limit.ErrNegativeCost) {
					rt.Fatalf("%+v: error %v", charges, err)
				}
				continue
			}
			admitted, results := s.take(at, charges...)
			judge(rt, oracles, at, charges, admitted, results)
		}
	})
}

// jump draws a time anywhere, or near the last time.
func (c *clock) jump(rt *rapid.T, forward bool) int64 {
	next := rapid.OneOf(
		rapid.SampledFrom([]int64{0, 1, c.now, c.now, c.now, c.now + 1, latest - 1}),
		rapid.Int64Range(0, latest-1),
		rapid.Int64Range(max(0, c.now-100_000), c.now+100_000),
	).Draw(rt, "now")
	if !forward || next >= c.now {
		c.now = min(next, latest-1)
	}
	return c.now
}
