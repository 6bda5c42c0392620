package statsd

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// feed passes a stream to a reader in pieces of the given lengths; the last piece is the rest.
func feed(r *reader, stream []byte, pieces []int) {
	s := newSplitter(r.cfg.MaxLine, r.readLines, r.countCut)
	for i := 0; len(stream) > 0; i++ {
		n := len(stream)
		if i < len(pieces) {
			n = pieces[i]
		}
		n = copy(s.freeSpace(), stream[:min(n, len(stream))])
		s.processBytes(n)
		stream = stream[n:]
	}
	s.processRest(true)
}

var someLines = []string{
	"hp.news.topic.hot_param.id=42:3|c", "hp.news.topic.hot_param.id=43:1:2|c|@0.5\r", "", "\r",
	"hp.news.topic.hot_param.id=42:seen=2|s", "hp.news.topic.hot_param.id=42:1|c|T990",
	"hp.news.topic.hot_param.id=42:nan|c",
	"api.latency:320|ms", "_e{1,1}:a|b", "no colon", ":1|c", strings.Repeat("x", 63) + ":",
	strings.Repeat("x", 64) + ":",
	strings.Repeat("y", 64) + "\r", strings.Repeat("z", 65) + "\r", strings.Repeat("w", 40_000),
}

// However a stream is cut into segments, and its lines into datagrams, the
// same is counted.
func TestSplitter_TotalsDoNotDependOnTheCut(t *testing.T) {
	t.Parallel()
	change := func(c *ListenerConfig) { c.MaxLine = 64 }
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.SampledFrom(someLines), 1, 30).Draw(t, "lines")
		whole := []byte(strings.Join(lines, "\n"))
		want, got, split := sink{}, sink{}, sink{}
		one, stream, many := testReader(want, change), testReader(got, change), testReader(split, change)

		one.readPacket(whole)
		one.finish()
		feed(stream, whole, rapid.SliceOfN(rapid.IntRange(1, 300), 0, 200).Draw(t, "pieces"))
		stream.finish()
		for rest := lines; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "in one datagram")
			many.readPacket([]byte(strings.Join(rest[:n], "\n")))
			rest = rest[n:]
		}
		many.finish()

		if !cmp.Equal(got, want) || !cmp.Equal(split, want) {
			t.Fatalf("stream: %s\ndatagrams: %s", cmp.Diff(want, got), cmp.Diff(want, split))
		}
		for _, r := range []*reader{stream, many} {
			a, b := one.statsNow(), r.statsNow()
			a.Packets, a.Bytes, b.Packets, b.Bytes = 0, 0, 0, 0
			if !cmp.Equal(a, b) {
				t.Fatal(cmp.Diff(a, b))
			}
		}
	})
}

// A line that a dying sender did not finish could read as another number.
func TestSplitter_DoesNotCountACutLine(t *testing.T) {
	t.Parallel()
	for _, whole := range []bool{true, false} {
		got := sink{}
		r := testReader(got, nil)
		s := newSplitter(r.cfg.MaxLine, r.readLines, r.countCut)
		s.processBytes(copy(s.freeSpace(), "hp.news.t.hot_param.a=1:1|c\nhp.news.t.hot_param.a=1:1|c|@0.1"))
		s.processRest(whole)
		r.finish()
		st := r.statsNow()
		if whole && st.Requests != 11 || !whole && (st.Requests != 1 || st.Malformed != 1) {
			t.Errorf("whole %v: %+v", whole, st)
		}
	}
}

// A stream holds a buffer of a fixed size, however long its lines, and the same
// is read from it as from a datagram.
func FuzzStream(f *testing.F) {
	f.Add([]byte("hp.news.topic.hot_param.id=42:3|c\r\napi.x:1|ms\n\n:|"), byte(7))
	f.Add([]byte("hp.news.a.hot_param.b\n\xff\xc0\x80\nhp.news.a.hot_param.c:1|c"), byte(1))
	f.Fuzz(func(t *testing.T, p []byte, piece byte) {
		want, got := sink{}, sink{}
		one, r := testReader(want, nil), testReader(got, nil)
		one.readPacket(p)
		one.finish()
		pieces := bytes.Repeat([]byte{max(piece, 1)}, len(p))
		allocated := memoryOf(func() {
			s := newSplitter(r.cfg.MaxLine, r.readLines, r.countCut)
			for at := 0; at < len(p); {
				n := copy(s.freeSpace(), p[at:min(at+int(pieces[at]), len(p))])
				s.processBytes(n)
				at += n
			}
			s.processRest(true)
			r.finish()
		})
		if most := uint64(1<<17 + 64*len(p)); allocated > most {
			t.Fatalf("%d bytes allocated for %d, want at most %d", allocated, len(p), most)
		}
		if !cmp.Equal(got, want) {
			t.Fatal(cmp.Diff(want, got))
		}
	})
}
