package statsd_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/transport/statsd"
)

func dial(t *testing.T, a net.Addr) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout(a.Network(), a.String(), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func say(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := conn.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

// isClosed waits until the other side has closed the connection.
func isClosed(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the connection is still there: %v", err)
	}
}

// All kinds of addresses at once, and a client that never ends its line keeps
// no other waiting.
func TestListener_ReadsEveryTransport(t *testing.T) {
	t.Parallel()
	in, dir := newInbox(), t.TempDir()
	l := listen(t, in, statsd.ListenerConfig{Addresses: []string{
		"tcp://127.0.0.1:0", "unixstream:" + filepath.Join(dir, "stream"), "udp://127.0.0.1:0",
		"unix:" + filepath.Join(dir, "datagram"), "127.0.0.1:0",
	}})
	slow := dial(t, l.Addr())
	say(t, slow, "hp.news.t.hot_param.a=slow:1")
	for i, a := range l.Addrs() {
		conn := dial(t, a)
		say(t, conn, fmt.Sprintf("hp.news.t.hot_param.a=%d:7|c\nhp.news.t.hot_param.a=all:1|c\n", i))
		in.await(t, hottype.Key(fmt.Sprint("t?a=", i)), 7)
	}
	in.await(t, "t?a=all", int64(len(l.Addrs())))
	say(t, slow, "0|c\n")
	in.await(t, "t?a=slow", 10)
	l.stop()
	if s := l.Stats(); s.ConnectionsAccepted != 3 || s.Connections != 0 || s.Packets != 3 || s.Malformed != 0 ||
		len(s.Sockets) != 3 {
		t.Errorf("stats %+v", s)
	}
}

// Lines of others than statsd.allow has are not read, by UDP and by TCP; a unix
// socket is guarded by its file.
func TestListener_ReadsOnlyAllowedSenders(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has all of 127.0.0.0/8")
	}
	allow, err := statsd.ParseAllow([]string{"127.0.0.2", "10.0.0.0/8", "::1"})
	if err != nil {
		t.Fatal(err)
	}
	in := newInbox()
	l := listen(t, in, statsd.ListenerConfig{Allow: allow, Readers: 2, Addresses: []string{
		"udp://127.0.0.1:0", "tcp://127.0.0.1:0", "unix:" + filepath.Join(t.TempDir(), "datagram"), "udp://[::]:0",
	}})
	const line = "hp.news.t.hot_param.a=%s:1|c\n"
	friend := &net.Dialer{LocalAddr: &net.UDPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	for _, a := range l.Addrs() {
		switch a := a.(type) {
		case *net.TCPAddr:
			isClosed(t, dial(t, a))
			friend := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
			conn, err := friend.Dial("tcp", a.String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			say(t, conn, fmt.Sprintf(line, "tcp"))
			in.await(t, "t?a=tcp", 1)
		case *net.UDPAddr: // the socket of all addresses sees IPv4 senders in their IPv6 form
			to := fmt.Sprintf("127.0.0.1:%d", a.Port)
			stranger, err := net.Dial("udp", to)
			if err != nil {
				t.Fatal(err)
			}
			defer stranger.Close()
			conn, err := friend.Dial("udp", to)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			for i := range 10 {
				say(t, stranger, fmt.Sprintf(line, "forged"))
				say(t, conn, fmt.Sprintf(line, "udp"+strconv.Itoa(i)))
			}
			for i := range 10 {
				in.await(t, hottype.Key("t?a=udp"+strconv.Itoa(i)), 1)
			}
		default:
			say(t, dial(t, a), fmt.Sprintf(line, "unix"))
			in.await(t, "t?a=unix", 1)
		}
	}
	l.stop()
	// Two sockets share each UDP port, and both are asked: 4 x 10 datagrams.
	if s := l.Stats(); s.SendersRejected != 41 || in.sums["t?a=forged"] != 0 || s.ConnectionsRejected != 0 {
		t.Errorf("stats %+v, sums %v", s, in.sums)
	}
}

func TestParseAllow_RefusesWrongNetworks(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "10.0.0.0/33", "localhost", "fe80::1%eth0", "10.0.0"} {
		if _, err := statsd.ParseAllow([]string{s}); err == nil || !strings.Contains(err.Error(), strconv.Quote(s)) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestListener_BoundsConnections(t *testing.T) {
	t.Parallel()
	in := newInbox()
	l := listen(t, in, statsd.ListenerConfig{Addresses: []string{"tcp://127.0.0.1:0"}, MaxConnections: 2})
	first, second := dial(t, l.Addr()), dial(t, l.Addr())
	say(t, first, "hp.news.t.hot_param.a=1:1|c\n")
	say(t, second, "hp.news.t.hot_param.a=1:1|c\n")
	in.await(t, "t?a=1", 2)
	isClosed(t, dial(t, l.Addr()))
	say(t, first, "hp.news.t.hot_param.a=1:1|c\n")
	in.await(t, "t?a=1", 3)
	if s := l.Stats(); s.ConnectionsRejected != 1 || s.Connections != 2 {
		t.Errorf("stats %+v", s)
	}
}

func TestListener_ClosesSilentConnections(t *testing.T) {
	t.Parallel()
	in := newInbox()
	l := listen(t, in, statsd.ListenerConfig{Addresses: []string{"tcp://127.0.0.1:0"}, Idle: 50 * time.Millisecond})
	conn := dial(t, l.Addr())
	say(t, conn, "hp.news.t.hot_param.a=1:1|c\nhp.news.t.hot_param.a=1:1")
	isClosed(t, conn)
	l.stop()
	if s := l.Stats(); s.ConnectionsIdle != 1 || s.Requests != 1 || s.Malformed != 1 {
		t.Errorf("stats %+v: the unfinished line is malformed", s)
	}
}

// Lines that clients had sent before the end are counted, also of clients that were not accepted yet.
func TestListener_ReadsStreamsToTheirEnd(t *testing.T) {
	t.Parallel()
	in := newInbox()
	l, err := statsd.NewListener(statsd.ListenerConfig{
		Addresses: []string{"tcp://127.0.0.1:0"}, Names: hp1, Handle: in.handle, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		say(t, dial(t, l.Addr()), strings.Repeat("hp.news.t.hot_param.a=1:1|c\n", 1000))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if in.sums["t?a=1"] != 10_000 {
		t.Errorf("got %d of 10000", in.sums["t?a=1"])
	}
}

// Several readers share a port; each sender stays with one of them, and the totals include all readers.
func TestListener_ReadersShareAPort(t *testing.T) {
	t.Parallel()
	in := newInbox()
	l := listen(t, in, statsd.ListenerConfig{Readers: 3})
	const senders, each = 24, 20
	for range senders {
		conn := dial(t, l.Addr())
		for range each {
			say(t, conn, "hp.news.t.hot_param.a=1:1|c")
		}
	}
	in.await(t, "t?a=1", senders*each)
	if s := l.Stats(); s.Packets != senders*each || len(s.Sockets) != len(l.Addrs()) {
		t.Errorf("stats %+v", s)
	}
	for _, a := range l.Addrs() {
		if a.String() != l.Addr().String() {
			t.Errorf("listens on %v and %v", l.Addr(), a)
		}
	}
}
