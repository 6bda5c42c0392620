package statsd

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
)

// Names are forgotten when there are too many; the counts are not.
func TestReader_LosesNoCountWithManyNames(t *testing.T) {
	t.Parallel()
	got := sink{}
	r := testReader(got, func(c *ListenerConfig) { c.MaxNames = 10 })
	for range 3 {
		for i := range 25 {
			r.readPacket(fmt.Appendf(nil, "hp.news.topic.hot_param.id=%d:1|c", i))
		}
	}
	r.finish()
	if len(got) != 25 || len(r.sums.entries) != 0 {
		t.Fatalf("%d keys, %d still remembered", len(got), len(r.sums.entries))
	}
	for c, n := range got {
		if n != 3 {
			t.Errorf("%v: %d", c, n)
		}
	}
}

// Any names take a bounded number of bytes, and no count is lost. The test is not parallel, because it measures the
// memory of the whole process.
func TestReader_BoundsBytesOfLongNames(t *testing.T) {
	var total, most uint64
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	r := testReader(sink{}, func(c *ListenerConfig) {
		c.Names.Style = canon.StylePlain
		c.Handle = func(counts []hottype.Count) {
			for _, n := range counts {
				total += uint64(n.N)
			}
		}
	})
	const names = 30_000 // which would take 420 MB
	before, line := heap(), []byte{}
	for i := range names {
		line = fmt.Appendf(line[:0], "hp.news.topic.hot_param.id=%d", i)
		line = append(line, bytes.Repeat([]byte{'x'}, 7000)...)
		n := len(line)
		r.readPacket(append(line, ":seen=1|s"...))
		r.readPacket(append(line[:n], ":1|c"...))
		if i%1000 == 999 {
			most = max(most, heap()-before)
		}
	}
	r.finish()
	t.Logf("%d names of 7 KB: at most %d MB", names, most>>20)
	if s := r.statsNow(); most > 48<<20 || total != names || s.NamesFull < 10 {
		t.Errorf("%d MB for %d names, %d counted, %+v", most>>20, names, total, s)
	}
}

// The client sketches of known names take room too, and a flood of members alone is bounded as names are.
func TestReader_BoundsBytesOfClientSketches(t *testing.T) {
	t.Parallel()
	got := sink{}
	r := testReader(got, func(c *ListenerConfig) { c.MaxNameBytes = 64 << 10 })
	for range 3 {
		for i := range 200 {
			r.readPacket(fmt.Appendf(nil, "hp.news.t.hot_param.a=%d:1|c", i))
		}
		for i := range 200 {
			r.readPacket(fmt.Appendf(nil, "hp.news.t.hot_param.a=%d:seen=1|s", i))
			if r.sums.bytes > 66<<10 {
				t.Fatalf("%d bytes", r.sums.bytes)
			}
		}
	}
	r.finish()
	for c, n := range got {
		if n != 3 {
			t.Errorf("%v: %d", c, n)
		}
	}
	if len(got) != 200 || r.statsNow().NamesFull == 0 {
		t.Errorf("%d keys, %d times full", len(got), r.statsNow().NamesFull)
	}
}
