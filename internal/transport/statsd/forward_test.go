package statsd_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/transport/statsd"
)

// upstream is another StatsD server, seen from the wire.
func upstream(t *testing.T) net.PacketConn {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// receive reads n lines.
func receive(t *testing.T, conn net.PacketConn, n int) (lines []string) {
	t.Helper()
	buf := make([]byte, 1<<16)
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	for len(lines) < n {
		k, _, err := conn.ReadFrom(buf)
		if err != nil {
			t.Fatalf("%v after %q", err, lines)
		}
		lines = append(lines, strings.Split(string(buf[:k]), "\n")...)
	}
	return lines
}

const mixed = "api.latency:320|ms|@0.1\r\n" +
	"hp.news.t.hot_param.a=1:1|c\n" +
	"\n" +
	"hp.news.t.hot_param.a=1:nonsense|c\n" +
	"who knows what this is\xff\n" +
	"_sc|db|0|#a:b\n" +
	"api.users:17|s\n" +
	"hp.news.t.hot_param.a=1:9|g"

// Foreign lines are forwarded byte for byte, and our lines too with ForwardAll.
func TestForwarder_SendsForeignLinesUnchanged(t *testing.T) {
	t.Parallel()
	foreign := []string{"api.latency:320|ms|@0.1\r", "who knows what this is\xff", "_sc|db|0|#a:b", "api.users:17|s"}
	all := slices.DeleteFunc(strings.Split(mixed, "\n"), func(s string) bool { return s == "" })
	for _, tt := range []struct {
		all  bool
		want []string
	}{{false, foreign}, {true, all}} {
		to, in := upstream(t), newInbox()
		l := listen(t, in, statsd.ListenerConfig{Forward: to.LocalAddr().String(), ForwardAll: tt.all})
		say(t, dial(t, l.Addr()), mixed)
		if diff := cmp.Diff(tt.want, receive(t, to, len(tt.want))); diff != "" {
			t.Error(diff)
		}
		in.await(t, "t?a=1", 1)
		l.stop()
		if s := l.Stats(); s.Forward.Lines != uint64(len(tt.want)) || s.Forward.Dropped != 0 ||
			s.Forward.Datagrams != 1 {
			t.Errorf("stats %+v", s.Forward)
		}
	}
}

// Lines that wait to be forwarded at the end are sent.
func TestForwarder_SendsWaitingLinesAtTheEnd(t *testing.T) {
	t.Parallel()
	to, in := upstream(t), newInbox()
	l := listen(t, in, statsd.ListenerConfig{Addresses: []string{"tcp://127.0.0.1:0"}, Forward: to.LocalAddr().String(),
		Flush: time.Hour})
	conn := dial(t, l.Addr())
	var want []string
	for i := range 100 {
		want = append(want, fmt.Sprintf("some.counter.%d:1|c", i))
	}
	say(t, conn, strings.Join(want, "\n"))
	_ = conn.Close()
	l.stop()
	if diff := cmp.Diff(want, receive(t, to, len(want))); diff != "" {
		t.Error(diff)
	}
}

// A server that takes nothing costs the lines for it, the oldest first, and
// nothing else.
func TestForwarder_DropsOldestLinesForAWedgedServer(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	wedged, err := net.ListenPacket("unixgram", path)
	if err != nil {
		t.Fatal(err)
	}
	defer wedged.Close()
	in := newInbox()
	l := listen(t, in, statsd.ListenerConfig{Addresses: []string{"tcp://127.0.0.1:0"}, Forward: "unix:" + path})
	conn := dial(t, l.Addr())
	foreign := bytes.Repeat([]byte("some.counter:1|c|#"+strings.Repeat("x", 1000)+"\n"), 10)
	start := time.Now()
	for range 600 { // 6000 datagrams, more than the queue holds
		say(t, conn, string(foreign)+"hp.news.t.hot_param.a=1:1|c\n")
	}
	in.await(t, "t?a=1", 600)
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	l.stop()
	if s := l.Stats(); s.Forward.Dropped == 0 || s.Forward.Lines+s.Forward.Dropped != 6000 {
		t.Errorf("stats %+v", s.Forward)
	}
}

// An absent server is logged once, and receives the lines that come after it appears.
func TestForwarder_LogsAnAbsentServerOnce(t *testing.T) {
	t.Parallel()
	addr, in := freeport.Addr(t), newInbox()
	log := &logTo{}
	l := listen(t, in, statsd.ListenerConfig{Forward: addr, Flush: time.Millisecond,
		Log: slog.New(slog.NewTextHandler(log, nil))})
	conn := dial(t, l.Addr())
	for i := range 20 { // each in a flush of its own
		say(t, conn, fmt.Sprintf("some.counter:1|c\nhp.news.t.hot_param.a=1:%d|c", 1))
		in.await(t, "t?a=1", int64(i+1))
	}
	to, err := net.ListenPacket("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	for range 3 {
		say(t, conn, "some.counter:2|c")
	}
	if lines := receive(t, to, 1); len(lines) == 0 {
		t.Error("nothing came")
	}
	l.stop()
	if out := log.String(); strings.Count(out, "cannot forward") != 1 || l.Stats().Forward.Refused == 0 {
		t.Errorf("%+v, logged:\n%s", l.Stats().Forward, out)
	}
}

// A listener that forwards to itself would send the same lines for ever.
func TestNewListener_RefusesToForwardToItself(t *testing.T) {
	t.Parallel()
	_, port, _ := net.SplitHostPort(freeport.Addr(t))
	path := filepath.Join(t.TempDir(), "s")
	for _, c := range [][2]string{
		{"127.0.0.1:" + port, "127.0.0.1:" + port},
		{":" + port, "localhost:" + port},
		{"0.0.0.0:" + port, "127.0.0.1:" + port},
		{"unix:" + path, "unix:" + path},
	} {
		l, err := statsd.NewListener(statsd.ListenerConfig{Addresses: c[:1], Forward: c[1], Names: hp1,
			Handle: newInbox().handle})
		if err == nil {
			_ = l.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "would come back") {
			t.Errorf("listen on %s, forward to %s: %v", c[0], c[1], err)
		}
	}
}
