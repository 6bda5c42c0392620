package statsd_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/statsd"
)

var one = []hotparam.Count{{Key: "t?a=1", N: 1}}

// freePort gives an address where nobody listens.
func freePort(t *testing.T) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.LocalAddr().String()
}

func TestAbsentServerAppears(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	addr := freePort(t)
	s := sender(t, statsd.SenderConfig{Address: addr, Log: slog.New(slog.NewTextHandler(&log, nil))})
	for range 5 {
		_ = s.Send(t.Context(), one) // the kernel takes it; nobody is there
	}
	if st := s.Stats(); st.Refused == 0 {
		t.Errorf("stats %+v: nobody noticed", st)
	}
	in := newInbox()
	listen(t, in, statsd.ListenerConfig{Address: addr})
	for range 3 {
		if err := s.Send(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	in.await(t, "t?a=1", 3)
	if out := log.String(); strings.Count(out, "\n") != 2 || !strings.Contains(out, "nobody listens") {
		t.Errorf("want one line for the outage and one for its end, got:\n%s", out)
	}
}

func TestUnixServerRestarts(t *testing.T) {
	t.Parallel()
	addr := "unix:" + filepath.Join(t.TempDir(), "s")
	s := sender(t, statsd.SenderConfig{Address: addr})
	first := newInbox()
	l := listen(t, first, statsd.ListenerConfig{Address: addr})
	if err := s.Send(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	l.stop()
	second := newInbox()
	listen(t, second, statsd.ListenerConfig{Address: addr})
	if err := s.Send(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	second.await(t, "t?a=1", 1)
}

func TestAbsentUnixServer(t *testing.T) {
	t.Parallel()
	s := sender(t, statsd.SenderConfig{Address: "unix:" + filepath.Join(t.TempDir(), "nobody")})
	for range 3 {
		if err := s.Send(t.Context(), one); err == nil {
			t.Error("sent to nobody")
		}
	}
	if st := s.Stats(); st.Sent != 0 || st.Dropped != 0 {
		t.Errorf("stats %+v: the caller still has the counts", st)
	}
}

// A unix socket whose server does not read fills up. Send ends with its
// deadline, and tells the difference between nothing sent and a part lost.
func TestWedgedSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	conn, err := net.ListenPacket("unixgram", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s := sender(t, statsd.SenderConfig{Address: "unix:" + path, MTU: 50, Timeout: 50 * time.Millisecond})
	batch := make([]hotparam.Count, 2000) // more datagrams than a socket queues
	for i := range batch {
		batch[i] = one[0]
	}
	start := time.Now()
	if err := s.Send(t.Context(), batch); err != nil {
		t.Errorf("a part was sent, so there must be no error: %v", err)
	}
	if st := s.Stats(); st.Sent == 0 || st.Sent+st.Dropped != 2000 {
		t.Errorf("stats %+v", st)
	}
	if err := s.Send(t.Context(), one); err == nil {
		t.Error("nothing could be sent, so there must be an error")
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

// A name server that never answers costs Send its deadline and nothing else.
func TestDeadNameServer(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancel(context.Background())
	defer end() // the resolver's own goroutines wait on, longer than any Send
	s := sender(t, statsd.SenderConfig{
		Address: "statsd.example.org:8125",
		Timeout: 50 * time.Millisecond,
		Resolver: &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}},
	})
	start := time.Now()
	for range 50 { // only the first waits, the others are told at once
		if err := s.Send(t.Context(), one); err == nil {
			t.Fatal("resolved")
		}
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
}

// A host name works, and keeps its address when it no longer resolves.
func TestNameThatStopsResolving(t *testing.T) {
	t.Parallel()
	in := newInbox()
	l := listen(t, in, statsd.ListenerConfig{})
	_, port, _ := net.SplitHostPort(l.Addr().String())
	s := sender(t, statsd.SenderConfig{
		Address: "localhost:" + port,
		Resolve: time.Nanosecond, // at every Send
		Resolver: &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("no name server")
		}},
	})
	for range 10 {
		if err := s.Send(t.Context(), one); err != nil {
			t.Skipf("localhost is not in the hosts file: %v", err)
		}
	}
	in.await(t, "t?a=1", 10)
}
