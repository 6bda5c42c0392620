package statsd_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/transport/statsd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var hp1 = canon.Names{Prefix: "hp.news"}

func TestListener_ReceivesWhatSenderSends(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{
		"udp":  "127.0.0.1:0",
		"unix": "unix:" + filepath.Join(t.TempDir(), "s"),
	} {
		for _, style := range []canon.Style{canon.StyleHP1, canon.StylePlain} {
			t.Run(name+"-"+string(style), func(t *testing.T) {
				names := canon.Names{Prefix: "hp.news", Style: style}
				in := newInbox()
				l := listen(t, in, statsd.ListenerConfig{Addresses: []string{address}, Names: names})
				to := address
				if name == "udp" {
					to = l.Addr().String()
				}
				s := sender(t, statsd.SenderConfig{Servers: []string{to}, Names: names})

				var counts []hottype.Count
				for i := range 300 {
					counts = append(counts, hottype.Count{Key: hottype.Key(fmt.Sprintf("topic?id=%d&q=a%%20b", i)),
						N: int64(i + 1)})
				}
				s.send(t, counts...)
				l.stop()
				for _, c := range counts {
					if in.sums[c.Key] != c.N {
						t.Fatalf("%s: got %d, want %d", c.Key, in.sums[c.Key], c.N)
					}
				}
				sent, got := s.Stats(), l.Stats()
				if sent.Lines != 300 || sent.Datagrams > 300/20 || sent.Sent != got.Requests || sent.Errors != 0 {
					t.Errorf("lines do not share datagrams: %+v, %+v", sent, got)
				}
			})
		}
	}
}

// Whatever the key, a datagram stays in its size, holds no control byte and
// nothing but our own counters.
func TestSender_DatagramsHoldOnlyOwnCounters(t *testing.T) {
	t.Parallel()
	for _, style := range []canon.Style{canon.StyleHP1, canon.StylePlain} {
		synctest.Test(t, func(t *testing.T) {
			box, cfg := newMemoryMailbox(t)
			cfg.MTU, cfg.Names = 700, canon.Names{Prefix: "p", Style: style}
			s, all := sender(t, cfg), 0
			// A bubble has no Deadline.
			rapid.Check(struct{ rapid.TB }{t}, func(t *rapid.T) { all += checkDatagrams(t, box, s, cfg.MTU) })
			_, heartbeats := box.drain()
			if st := s.Stats(); uint64(all+heartbeats) != st.Lines {
				t.Errorf("%d lines came: %+v", all, st)
			}
		})
	}
}

// checkDatagrams sends any keys and returns how many lines came, heartbeats included.
func checkDatagrams(t *rapid.T, box mailbox, s outlet, mtu int) int {
	keys := rapid.SliceOfN(rapid.StringN(0, 40, -1), 1, 30).Draw(t, "keys")
	var counts []hottype.Count
	for _, k := range keys {
		counts = append(counts, hottype.Count{Key: hottype.Key(k), N: 3})
	}
	done, lines := s.send(t, counts...), 0
	packets, heartbeats := box.drain()
	for _, p := range packets {
		for line := range bytes.SplitSeq(p, []byte{'\n'}) {
			lines++
			if !bytes.HasPrefix(line, []byte("p.")) || !bytes.HasSuffix(line, []byte(":3|c")) ||
				bytes.ContainsFunc(line, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
				t.Fatalf("line %q", line)
			}
			if len(p) > mtu && len(p) != len(line) {
				t.Fatalf("datagram of %d bytes", len(p))
			}
		}
	}
	if 3*lines+int(done.Invalid) != 3*len(keys) {
		t.Fatalf("%d lines for %d keys, %+v", lines, len(keys), done)
	}
	return lines + heartbeats
}

func TestListener_SurvivesGarbage(t *testing.T) {
	t.Parallel()
	in := newInbox()
	l := listen(t, in, statsd.ListenerConfig{})
	conn, err := net.Dial("udp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, p := range []string{
		"", "\n\n\r\n", "\x00\xff\xfe", "::::|||", strings.Repeat("a", 60000), strings.Repeat("x:1|c\n", 9000),
		"hp.news.t.hot_param.a=1:nan|c", "hp.news.t.hot_param.a=1:1|c",
	} {
		if _, err := conn.Write([]byte(p)); err != nil {
			t.Fatal(err)
		}
	}
	in.await(t, "t?a=1", 1)
	l.stop()
	if s := l.Stats(); s.Requests != 1 || s.Foreign != 9000 || s.Malformed < 4 {
		t.Errorf("stats %+v", s)
	}
}

// Lines that the kernel had received before the end are handed over, even if the listener had not read any.
func TestListener_HandsOverReceivedLinesAtTheEnd(t *testing.T) {
	t.Parallel()
	in := newInbox()
	l, err := statsd.NewListener(statsd.ListenerConfig{
		Addresses: []string{"127.0.0.1:0"}, Names: hp1, Handle: in.handle, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	s := sender(t, statsd.SenderConfig{Servers: []string{l.Addr().String()}})
	for range 500 {
		s.send(t, hottype.Count{Key: "t?a=1", N: 2})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if in.sums["t?a=1"] != 1000 {
		t.Errorf("got %d of 1000", in.sums["t?a=1"])
	}
}

func TestListener_CountsKernelDrops(t *testing.T) {
	t.Parallel()
	l, err := statsd.NewListener(statsd.ListenerConfig{
		Addresses: []string{"127.0.0.1:0"}, Names: hp1, Handle: newInbox().handle, ReadBuffer: 1 << 17,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	granted := l.Stats().ReceiveBuffer
	if granted == 0 {
		t.Skip("this system does not tell")
	}
	conn, err := net.Dial("udp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 4 * granted / 60000 { // no reader
		_, _ = conn.Write(make([]byte, 60000))
	}
	s := l.Stats()
	if s.KernelDrops == 0 || s.Sockets[l.Addr().String()].KernelDrops != s.KernelDrops {
		t.Errorf("no drops seen: %+v", s)
	}
}

func TestConfigs_RefuseBadAddresses(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{
		"", "localhost", "127.0.0.1:", "unix:", "a:b:c", "tcp://", "tcp://1", "udp://unix:/x", "tcp://unix:/x",
		"unixstream:", "unixgram://", "http://a:1",
	} {
		if _, err := statsd.NewSender(statsd.SenderConfig{Servers: []string{"127.0.0.1:1", addr},
			Names: hp1}); err == nil {
			t.Errorf("sender to %q", addr)
		}
		if _, err := statsd.NewListener(statsd.ListenerConfig{Addresses: []string{addr}, Names: hp1,
			Handle: newInbox().handle}); err == nil {
			t.Errorf("listener on %q", addr)
		}
	}
	for what, cfg := range map[string]statsd.SenderConfig{
		"bad prefix":         {Servers: []string{"127.0.0.1:1"}, Names: canon.Names{Prefix: "A b"}},
		"no server":          {Names: hp1},
		"a server two times": {Servers: []string{"127.0.0.1:1", "a:2", "127.0.0.1:1"}, Names: hp1},
	} {
		if _, err := statsd.NewSender(cfg); err == nil {
			t.Error(what)
		}
	}
}
