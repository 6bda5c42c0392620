package statsd

import (
	"bytes"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
)

type sink map[hottype.Count]int64 // by key and second; N is 0 in the key

func (s sink) handle(counts []hottype.Count) {
	for _, c := range counts {
		s[hottype.Count{Key: c.Key, Second: c.Second}] += c.N
	}
}

func testReader(s sink, change func(*ListenerConfig)) *reader {
	cfg := ListenerConfig{
		Names:  canon.Names{Prefix: "hp.news"},
		Handle: s.handle,
		Now:    func() time.Time { return time.Unix(1000, 0) },
		Log:    slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&cfg)
	}
	cfg = cfg.withDefaults()
	return newReader(cfg, &rejectLog{log: cfg.Log}, nil, &flows{})
}

func (r *reader) statsNow() (s ListenerStats) {
	s.MalformedBy = map[string]MalformedStats{}
	got := r.lineCounters()
	got.addTo(&s)
	return s
}

func TestReader_CountsEachKindOfLine(t *testing.T) {
	t.Parallel()
	got := sink{}
	r := testReader(got, nil)
	r.readPacket([]byte("hp.news.topic.hot_param.id=42:3|c\r\n" +
		"\n" +
		"hp.news.topic.hot_param.id=42:1:1|c|@0.5|#x:y\n" +
		"hp.news.topic.hot_param.Ze:1|c\n" +
		"hp.news.topic.hot_param.id=42:9|g\n" +
		"hp.news.topic.hot_param.id=42:seen=3|s\n" +
		"hp.news.topic.hot_param.id=42:who|s\n" +
		"hp.news.topic.hot_param.id=42:1|c|T990\n" +
		"hp.news.topic.hot_param.id=42:1|c|T1000\n" +
		"hp.news.topic.hot_param.id=42:1|c|T1003\n" +
		"hp.news.topic.hot_param.id=42:1|c|T1100\n" +
		"_e{5,4}:title|text\n" +
		"_sc|db|0\n" +
		"api.users:17|s\n" +
		"api.latency:320|ms\n" +
		"some.counter:what ever\n" +
		"hp.newspaper.topic.hot_param.id=42:1|c\n" +
		"hp.news.alive:1|g\n" +
		"hp.news.alive.or.not:1|g\n" +
		"hp.newspaper.alive:1|g\n" +
		"hp.news.topic.hot_param.id=Zx:1|c\n" +
		"hp.news.topic.hot_param.id=42:-1|c\n" +
		"no colon\n" +
		":1|c\n" +
		strings.Repeat("x", 9000) + ":1|c"))
	r.finish()

	want := sink{{Key: "topic?id=42", Second: 1000}: 8, {Key: "topic?id=42", Second: 990}: 1,
		{Key: "topic", Second: 1000}: 1}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	s := r.statsNow()
	wantStats := ListenerStats{MalformedBy: map[string]MalformedStats{}, LineStats: LineStats{
		Packets: 1, Bytes: s.Bytes, Lines: 24, Counted: 5, Requests: 10, Alive: 1, Untimely: 2, Members: 1, Foreign: 6,
		IgnoredTypes: 3, Malformed: 6,
	}}
	for f := noFault + 1; f < faultCount; f++ {
		wantStats.MalformedBy[reasons[f].name] = MalformedStats{}
	}
	for _, f := range []string{"too_long", "member", "name", "value"} {
		wantStats.MalformedBy[f] = MalformedStats{Lines: 1}
	}
	wantStats.MalformedBy["no_name"] = MalformedStats{Lines: 2}
	if !cmp.Equal(s, wantStats) {
		t.Errorf("got %+v, want %+v", s, wantStats)
	}
}

// A line's own time is believed within bounds; beyond them it is no second of
// anything that is judged.
func TestReader_AcceptsALinesTimeWithinBounds(t *testing.T) {
	t.Parallel()
	const now = 1_000_000
	got := sink{}
	r := testReader(got, func(c *ListenerConfig) { c.Now = func() time.Time { return time.Unix(now, 0) } })
	for _, at := range []int64{now - 3601, now - 3600, now - 1, now, now + 2, now + 3, 0} {
		r.readPacket(fmt.Appendf(nil, "hp.news.t.hot_param.a=1:2|c|T%d", at))
	}
	r.finish()
	if s := r.statsNow(); s.Counted != 4 || s.Untimely != 3 || len(got) != 4 {
		t.Errorf("got %v, %+v", got, s)
	}
	for _, at := range []int64{now - 3600, now - 1, now, now + 2} {
		if got[hottype.Count{Key: "t?a=1", Second: at}] != 2 {
			t.Errorf("nothing at %d: %v", at, got)
		}
	}
}

// Whatever a sender or a foreign relay writes behind T, and how often, no request counts outside the accepted seconds,
// none counts twice, and each line that does not count has its counter.
func TestReader_CountsOnlyInAcceptedSeconds(t *testing.T) {
	t.Parallel()
	const now = 1_000_000
	section := rapid.OneOf(
		rapid.Map(rapid.Int64Range(-now, 2*now), func(at int64) string { return fmt.Sprint("|T", at) }),
		rapid.Map(rapid.Int64Range(now-oldest-2, now-oldest+2), func(at int64) string { return fmt.Sprint("|T", at) }),
		rapid.Map(rapid.Int64Range(now-4, now+4), func(at int64) string { return fmt.Sprint("|T", at) }),
		rapid.SampledFrom([]string{"|T", "|T1e6", "|T0x1", "|T+1", "|T 1", "|T9223372036854775807",
			"|T18446744073709551616", "|#T:1000000", "|@1", "|t1000000"}))
	rapid.Check(t, func(t *rapid.T) {
		got := sink{}
		r := testReader(got, func(c *ListenerConfig) { c.Now = func() time.Time { return time.Unix(now, 0) } })
		lines := rapid.SliceOfN(rapid.SliceOfN(section, 0, 3), 1, 20).Draw(t, "sections of lines")
		for _, sections := range lines {
			r.readPacket([]byte("hp.news.t.hot_param.a=1:1|c" + strings.Join(sections, "")))
		}
		r.finish()
		s, counted := r.statsNow(), uint64(0)
		for c, n := range got {
			if c.Second < now-3600 || c.Second > now+2 {
				t.Fatalf("%d counted in second %d", n, c.Second)
			}
			counted += uint64(n)
		}
		bad := s.MalformedBy["time"].Lines + s.MalformedBy["rate"].Lines
		if counted != s.Counted || s.Counted+s.Untimely+bad != uint64(len(lines)) {
			t.Fatalf("%d counted of %d: %+v", counted, len(lines), s)
		}
	})
}

// A line above statsd.max_count is refused whole, also if several values or a sample rate exceed it; a line at the
// bound counts.
func TestReader_RefusesLinesAboveMaxCount(t *testing.T) {
	t.Parallel()
	got := sink{}
	r := testReader(got, func(c *ListenerConfig) { c.MaxCount = 1000 })
	for _, line := range []string{"1000|c", "500:500|c", "100|c|@0.1", "1001|c", "500:501|c", "101|c|@0.1",
		"1000000|c"} {
		r.readPacket([]byte("hp.news.t.hot_param.a=1:" + line))
	}
	r.finish()
	if s := r.statsNow(); s.Counted != 3 || s.Malformed != 4 || got[hottype.Count{Key: "t?a=1", Second: 1000}] != 3000 {
		t.Errorf("got %v, %+v", got, s)
	}
}

// The number of times of one name that are summed at once is bounded; no count is lost.
func TestReader_BoundsTimesOfAName(t *testing.T) {
	t.Parallel()
	got := sink{}
	r := testReader(got, func(c *ListenerConfig) { c.MaxNames = 10 })
	for at := range 50 {
		r.readPacket(fmt.Appendf(nil, "hp.news.t.hot_param.a=1:1|c|T%d", 900+at))
		if n := len(r.sums.stamped); n > 10 {
			t.Fatalf("%d times are held", n)
		}
	}
	r.finish()
	if len(got) != 50 {
		t.Errorf("%d of 50 times", len(got))
	}
}

// A count is placed in the second in which it arrived, also when that second
// is over before the flush.
func TestReader_KeepsSecondsApart(t *testing.T) {
	t.Parallel()
	got, second := sink{}, int64(1000)
	r := testReader(got, func(c *ListenerConfig) { c.Now = func() time.Time { return time.Unix(second, 0) } })
	for ; second < 1003; second++ {
		r.readPacket([]byte("hp.news.t.hot_param.a=1:2|c"))
	}
	r.finish()
	if len(got) != 3 || got[hottype.Count{Key: "t?a=1", Second: 1001}] != 2 {
		t.Errorf("got %v", got)
	}
}

func TestReader_FlushReturnsWhenNextIsDue(t *testing.T) {
	t.Parallel()
	got := sink{}
	r := testReader(got, nil)
	now := time.Now()
	if due := r.flush(now); !due.IsZero() {
		t.Errorf("empty batch is due at %v", due)
	}
	r.readPacket([]byte("hp.news.t.hot_param.a=1:2|c"))
	if due := r.flush(now); due.Sub(now) != r.cfg.Flush {
		t.Errorf("due in %v, want %v", due.Sub(now), r.cfg.Flush)
	}
	if r.flush(now.Add(r.cfg.Flush)); len(got) != 1 {
		t.Error("not handed over when due")
	}
	if r.flush(now.Add(nameTTL + time.Second)); len(r.sums.entries) != 0 {
		t.Error("name not forgotten")
	}
}

func TestReader_LogsMalformedLinesOnceAndQuoted(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := testReader(sink{}, func(c *ListenerConfig) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	for range 100 {
		r.readPacket([]byte("\x1b[2Jevil\x00\xff" + strings.Repeat("A", 500)))
	}
	out := log.String()
	if strings.Count(out, "\n") != 1 || strings.ContainsFunc(out,
		func(c rune) bool { return c < ' ' && c != '\n' || c > '~' && c != '…' }) || len(out) > 500 {
		t.Errorf("logged %q", out)
	}
}

func TestReader_DoesNotAllocateForForeignAndKnownLines(t *testing.T) {
	r := testReader(sink{}, nil)
	p := []byte("api.latency:320|ms\nhp.news.t.hot_param.a=1:2|c\nother.thing:1|c|#a:b")
	r.readPacket(p)
	if n := testing.AllocsPerRun(1000, func() { r.readPacket(p) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// memoryOf returns the number of bytes that f allocates, its garbage included.
func memoryOf(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// readBounded reads a datagram. Whatever it contains, that takes at most 64 KiB and 64 bytes for each of its bytes.
func readBounded(t *testing.T, r *reader, p []byte) {
	t.Helper()
	allocated := memoryOf(func() {
		r.readPacket(p)
		r.finish()
	})
	if most := uint64(1<<16 + 64*len(p)); allocated > most {
		t.Errorf("%d bytes allocated for %d, want at most %d", allocated, len(p), most)
	}
}

// It is not parallel: the memory of the whole process is looked at.
func TestReader_BoundsMemoryOfHugePackets(t *testing.T) {
	for _, line := range []string{
		":", "\n", "|", "\xff", "a", "hp.news.t.hot_param.", "x:1|c\n", "hp.news.t.hot_param.Z:1|c\n",
		"hp.news.t.hot_param.a=1:1|c|T1\n",
		"hp.news.t.hot_param.\xc0\x80:1|c\n", "hp.news.t.hot_param.a=1:0badf00d|s\n", "hp.news.t.hot_param.a=1:0|c|@\n",
		"_e{1,1}:a|b\n",
	} {
		readBounded(t, testReader(sink{}, nil), bytes.Repeat([]byte(line), maxRead/len(line)))
	}
	var many []byte
	for i := 0; len(many) < maxRead; i++ {
		many = fmt.Appendf(many, "hp.news.t.hot_param.a=%d:1|c|T%d\n", i, 900+i%100)
	}
	readBounded(t, testReader(sink{}, nil), many)
}

// The kinds of lines add up to the number of lines.
func FuzzPacket(f *testing.F) {
	f.Add([]byte("hp.news.topic.hot_param.id=42:3|c\r\napi.x:1|ms\n\n:|"))
	f.Add([]byte("hp_news_topic_hot_param_id_42:1|c|@0.3\nhp.news.Zh.hot_param.Zh:1|c"))
	f.Add(
		[]byte(
			"hp.news.t.hot_param.a=1:04c0000201=9|s\nhp.news.t.hot_param.a=1:1|c|T990\n_e{1,1}:a|b\nhp.news.t.hot_param.\xff\xc0\x80:1|c"))
	f.Fuzz(func(t *testing.T, p []byte) {
		got := sink{}
		r := testReader(got, nil)
		readBounded(t, r, p)
		s := r.statsNow()
		if s.Lines != s.Counted+s.Untimely+s.Members+s.Foreign+s.IgnoredTypes+s.Malformed {
			t.Fatalf("lines do not add up: %+v", s)
		}
		var total int64
		for c, n := range got {
			if n <= 0 || c.Key == "" {
				t.Fatalf("handed over %v %d", c, n)
			}
			total += n
		}
		if uint64(total) != s.Requests {
			t.Fatalf("handed over %d, counted %d", total, s.Requests)
		}
	})
}

func BenchmarkPacket(b *testing.B) {
	const lines = 24
	for _, of := range []struct {
		names  int
		second string // that lines say
	}{{24, ""}, {20000, ""}, {20000, "|T1000"}} {
		b.Run(fmt.Sprint(of.names, "names", of.second), func(b *testing.B) {
			var packets [][]byte
			for i := 0; i < of.names; i += lines {
				var p []byte
				for j := range lines {
					p = fmt.Appendf(p, "hp.news.topic.hot_param.id=%d-lang=en:1|c%s\n", i+j, of.second)
				}
				packets = append(packets, p)
			}
			r := testReader(sink{}, nil)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r.readPacket(packets[i%len(packets)])
			}
			b.ReportMetric(lines*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mmetrics/s")
		})
	}
}
