package statsd_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/statsd"
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
// nobody waiting.
func TestEveryTransport(t *testing.T) {
	t.Parallel()
	in, dir := newInbox(), t.TempDir()
	l := listen(t, in, statsd.ListenerConfig{Addresses: []string{
		"tcp://127.0.0.1:0", "unixstream:" + filepath.Join(dir, "stream"), "udp://127.0.0.1:0", "unix:" + filepath.Join(dir, "datagram"), "127.0.0.1:0",
	}})
	slow := dial(t, l.Addr())
	say(t, slow, "hp.news.t.hot_param.a=slow:1")
	for i, a := range l.Addrs() {
		conn := dial(t, a)
		say(t, conn, fmt.Sprintf("hp.news.t.hot_param.a=%d:7|c\nhp.news.t.hot_param.a=all:1|c\n", i))
		in.await(t, hotparam.Key(fmt.Sprint("t?a=", i)), 7)
	}
	in.await(t, "t?a=all", int64(len(l.Addrs())))
	say(t, slow, "0|c\n")
	in.await(t, "t?a=slow", 10)
	l.stop()
	if s := l.Stats(); s.ConnectionsAccepted != 3 || s.Connections != 0 || s.Packets != 3 || s.Malformed != 0 || len(s.Sockets) != 3 {
		t.Errorf("stats %+v", s)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
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
	if s := l.Stats(); s.ConnectionsRefused != 1 || s.Connections != 2 {
		t.Errorf("stats %+v", s)
	}
}

func TestSilentConnectionsAreClosed(t *testing.T) {
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

// What clients had sent before the end is counted, also by those that nobody
// had accepted yet.
func TestStreamsLoseNothingAtTheEnd(t *testing.T) {
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

// Several readers share a port; each sender stays with one of them, and the
// totals are those of all.
func TestReadersShareAPort(t *testing.T) {
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
