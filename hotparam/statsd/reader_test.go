package statsd

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/canon"
)

type sink map[hotparam.Count]int64 // by key and second; N is 0 in the key

func (s sink) handle(counts []hotparam.Count) {
	for _, c := range counts {
		s[hotparam.Count{Key: c.Key, Second: c.Second}] += c.N
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
	return newReader(cfg.withDefaults())
}

func TestPacket(t *testing.T) {
	t.Parallel()
	got := sink{}
	r := testReader(got, nil)
	r.packet([]byte("hp.news.topic.hot_param.id=42:3|c\r\n" +
		"\n" +
		"hp.news.topic.hot_param.id=42:1:1|c|@0.5|#x:y\n" +
		"hp.news.topic.hot_param.Ze:1|c\n" +
		"hp.news.topic.hot_param.id=42:9|g\n" +
		"api.latency:320|ms\n" +
		"some.counter:what ever\n" +
		"hp.newspaper.topic.hot_param.id=42:1|c\n" +
		"hp.news.topic.hot_param.id=Zx:1|c\n" +
		"hp.news.topic.hot_param.id=42:-1|c\n" +
		"no colon\n" +
		":1|c\n" +
		strings.Repeat("x", 9000) + ":1|c"))
	r.finish()

	want := sink{{Key: "topic?id=42", Second: 1000}: 7, {Key: "topic", Second: 1000}: 1}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	s := r.stats.read()
	wantStats := ListenerStats{Packets: 1, Bytes: s.Bytes, Lines: 12, Counted: 3, Requests: 8,
		Foreign: 3, OtherTypes: 1, Malformed: 5}
	if s != wantStats {
		t.Errorf("got %+v, want %+v", s, wantStats)
	}
}

// Names are forgotten when there are too many; the counts are not.
func TestManyNamesLoseNothing(t *testing.T) {
	t.Parallel()
	got := sink{}
	r := testReader(got, func(c *ListenerConfig) { c.MaxNames = 10 })
	for range 3 {
		for i := range 25 {
			r.packet(fmt.Appendf(nil, "hp.news.topic.hot_param.id=%d:1|c", i))
		}
	}
	r.finish()
	if len(got) != 25 || len(r.batch.entries) != 0 {
		t.Fatalf("%d keys, %d still remembered", len(got), len(r.batch.entries))
	}
	for c, n := range got {
		if n != 3 {
			t.Errorf("%v: %d", c, n)
		}
	}
}

// A count is placed in the second in which it arrived, also when that second
// is over before the flush.
func TestSecondsAreKeptApart(t *testing.T) {
	t.Parallel()
	got, second := sink{}, int64(1000)
	r := testReader(got, func(c *ListenerConfig) { c.Now = func() time.Time { return time.Unix(second, 0) } })
	for ; second < 1003; second++ {
		r.packet([]byte("hp.news.t.hot_param.a=1:2|c"))
	}
	r.finish()
	if len(got) != 3 || got[hotparam.Count{Key: "t?a=1", Second: 1001}] != 2 {
		t.Errorf("got %v", got)
	}
}

func TestFlushTimes(t *testing.T) {
	t.Parallel()
	got := sink{}
	r := testReader(got, nil)
	now := time.Now()
	if due := r.flush(now); !due.IsZero() {
		t.Errorf("empty batch is due at %v", due)
	}
	r.packet([]byte("hp.news.t.hot_param.a=1:2|c"))
	if due := r.flush(now); due.Sub(now) != r.cfg.Flush {
		t.Errorf("due in %v, want %v", due.Sub(now), r.cfg.Flush)
	}
	if r.flush(now.Add(r.cfg.Flush)); len(got) != 1 {
		t.Error("not handed over when due")
	}
	if r.flush(now.Add(r.cfg.Remember + time.Second)); len(r.batch.entries) != 0 {
		t.Error("name not forgotten")
	}
}

func TestMalformedLinesAreLoggedOnceAndHarmless(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := testReader(sink{}, func(c *ListenerConfig) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	for range 100 {
		r.packet([]byte("\x1b[2Jevil\x00\xff" + strings.Repeat("A", 500)))
	}
	out := log.String()
	if strings.Count(out, "\n") != 1 || strings.ContainsFunc(out, func(c rune) bool { return c < ' ' && c != '\n' || c > '~' && c != '…' }) || len(out) > 500 {
		t.Errorf("logged %q", out)
	}
}

func TestForeignAndKnownLinesDoNotAllocate(t *testing.T) {
	r := testReader(sink{}, nil)
	p := []byte("api.latency:320|ms\nhp.news.t.hot_param.a=1:2|c\nother.thing:1|c|#a:b")
	r.packet(p)
	if n := testing.AllocsPerRun(1000, func() { r.packet(p) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzPacket(f *testing.F) {
	f.Add([]byte("hp.news.topic.hot_param.id=42:3|c\r\napi.x:1|ms\n\n:|"))
	f.Add([]byte("hp_news_topic_hot_param_id_42:1|c|@0.3\nhp.news.Zh.hot_param.Zh:1|c"))
	f.Fuzz(func(t *testing.T, p []byte) {
		got := sink{}
		r := testReader(got, nil)
		r.packet(p)
		r.finish()
		s := r.stats.read()
		if s.Lines != s.Counted+s.Foreign+s.OtherTypes+s.Malformed {
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
	for _, names := range []int{24, 20000} {
		b.Run(fmt.Sprint(names, "names"), func(b *testing.B) {
			var packets [][]byte
			for i := 0; i < names; i += lines {
				var p []byte
				for j := range lines {
					p = fmt.Appendf(p, "hp.news.topic.hot_param.id=%d-lang=en:1|c\n", i+j)
				}
				packets = append(packets, p)
			}
			r := testReader(sink{}, nil)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r.packet(packets[i%len(packets)])
			}
			b.ReportMetric(lines*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mmetrics/s")
		})
	}
}
