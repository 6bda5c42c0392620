package statsd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/transport/statsd"
)

var one = hottype.Count{Key: "t?a=1", N: 1}

// logTo is a log that may be read while it is written.
type logTo struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logTo) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logTo) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// wedgedAddress returns the address of a unix socket that takes datagrams until its queue is full, and is never read.
func wedgedAddress(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	conn, err := net.ListenPacket("unixgram", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return "unix:" + path
}

// deadNameServer returns a resolver that hangs until the end of the test.
func deadNameServer(t *testing.T) *net.Resolver {
	t.Helper()
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		<-ended // longer than any context
		return nil, errors.New("the test has ended")
	}}
}

// manyCounts returns n counts of one request each.
func manyCounts(n int) []hottype.Count {
	counts := make([]hottype.Count, n)
	for i := range counts {
		counts[i] = hottype.Count{Key: hottype.Key(fmt.Sprintf("topic?id=%d", i)), N: 1}
	}
	return counts
}

func TestSender_SendsWhenAnAbsentServerAppears(t *testing.T) {
	t.Parallel()
	var log logTo
	addr := freeport.Addr(t)
	s := sender(t, statsd.SenderConfig{Servers: []string{addr}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	for began := time.Now(); !s.Stats().Down; {
		s.send(t, one) // the kernel takes it; no server is there
		if time.Since(began) > 10*time.Second {
			t.Fatalf("stats %+v: not noticed", s.Stats())
		}
	}
	in := newInbox()
	l := listen(t, in, statsd.ListenerConfig{Addresses: []string{addr}})
	for range 3 {
		s.send(t, one)
	}
	in.await(t, "t?a=1", 3)
	if !s.Stats().Down {
		t.Error("what is not refused has not arrived yet, as far as is known")
	}
	if !publish(t, l, 8*time.Second, func() bool { return !s.Stats().Down }, s) {
		t.Error("the listener reports that it arrives")
	}
	s.stop()
	if out := log.String(); strings.Count(out, "\n") != 2 || !strings.Contains(out, "no server listens") {
		t.Errorf("want one line for the outage and one for its end, got:\n%s", out)
	}
}

func TestSender_SendsToARestartedUnixServer(t *testing.T) {
	t.Parallel()
	addr := "unix:" + filepath.Join(t.TempDir(), "s")
	s := sender(t, statsd.SenderConfig{Servers: []string{addr}})
	first := newInbox()
	l := listen(t, first, statsd.ListenerConfig{Addresses: []string{addr}})
	s.send(t, one)
	l.stop()
	second := newInbox()
	listen(t, second, statsd.ListenerConfig{Addresses: []string{addr}})
	s.send(t, one)
	second.await(t, "t?a=1", 1)
}

func TestSender_DropsCountsForAnAbsentUnixServer(t *testing.T) {
	t.Parallel()
	s := sender(t, statsd.SenderConfig{Servers: []string{"unix:" + filepath.Join(t.TempDir(), "nobody")}})
	for range 3 {
		if st := s.send(t, one); st.Dropped != 1 {
			t.Errorf("sent to nobody: %+v", st)
		}
	}
	if st := s.Stats(); !st.Down || st.Errors != 1 {
		t.Errorf("stats %+v: want one attempt a second", st)
	}
}

// A unix socket whose server does not read fills up. Send does not notice, and counts without room in the kernel are
// dropped when their time is over.
func TestSender_DropsCountsForAWedgedSocket(t *testing.T) {
	t.Parallel()
	s := sender(t, statsd.SenderConfig{Servers: []string{wedgedAddress(t)}, MTU: 50, Timeout: 50 * time.Millisecond,
		MaxQueued: 3000})
	// more datagrams than a socket queues
	if st := s.send(t, manyCounts(2000)...); st.Sent == 0 || st.Sent+st.Dropped != 2000 {
		t.Errorf("%+v", st)
	}
	if st := s.send(t, one); st.Sent != 0 {
		t.Errorf("%+v", st)
	}
	for range 20 {
		start := time.Now()
		if err := s.Send(t.Context(), manyCounts(1000)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("Send took %v", took)
		}
		if q := s.Stats().Queued; q > 3000 {
			t.Errorf("%d counts in memory", q)
		}
	}
	start := time.Now()
	s.stop()
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("the end took %v", took)
	}
	if st := s.Stats(); st.Sent+st.Dropped != 2001+20*1000 || st.Queued != 0 {
		t.Errorf("%+v", st)
	}
	if err := s.Send(t.Context(), manyCounts(1)); err == nil {
		t.Error("sent after the end")
	}
}

// A name server that never answers costs the counts, and only the first look-up waits for it.
func TestSender_WaitsOnceForADeadNameServer(t *testing.T) {
	t.Parallel()
	s := sender(t, statsd.SenderConfig{
		Servers: []string{"statsd.example.org:8125"}, Timeout: 50 * time.Millisecond, Resolver: deadNameServer(t),
	})
	start := time.Now()
	for range 50 {
		if st := s.send(t, one); st.Dropped != 1 {
			t.Fatalf("resolved: %+v", st)
		}
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
}

// One server that is sick takes no time from the other.
func TestSender_SickServerDoesNotDelayAHealthyOne(t *testing.T) {
	t.Parallel()
	for name, sick := range map[string]string{
		"wedged":    wedgedAddress(t),
		"no name":   "statsd.example.org:8125",
		"refusing":  freeport.Addr(t),
		"no socket": "unix:" + filepath.Join(t.TempDir(), "nobody"),
	} {
		in := newInbox()
		l := listen(t, in, statsd.ListenerConfig{})
		addr := l.Addr().String()
		s := sender(t, statsd.SenderConfig{Servers: []string{addr, sick}, MTU: 50, Timeout: 2 * time.Second,
			Resolver: deadNameServer(t)})
		const batches, each = 10, 500
		for range batches {
			if err := s.Send(t.Context(), manyCounts(each)); err != nil {
				t.Fatal(err)
			}
		}
		// The healthy share of each batch is the same, and all of it arrives
		// where a wait for the sick server would have made them too old.
		start := time.Now()
		sums := map[hottype.Key]int64{}
		for waited := time.After(9 * time.Second); ; {
			in.mu.Lock()
			for k, n := range in.sums {
				sums[k] = n
			}
			in.mu.Unlock()
			st := s.Stats().Servers[addr]
			total := uint64(0)
			for _, n := range sums {
				total += uint64(n)
			}
			// A machine that stands still for a second lets a batch grow too old.
			all := st.Sent + st.Dropped
			if st.Queued == 0 && all > 0 && all == uint64(len(sums)*batches) && total == st.Sent &&
				st.Dropped < st.Sent {
				break
			}
			select {
			case <-in.some:
			case <-waited:
				t.Fatalf("%s: after %v only %d keys, %+v", name, time.Since(start), len(sums), st)
			}
		}
		if n := len(sums); n < each/4 || n > each*3/4 {
			t.Errorf("%s: %d of %d keys were the healthy server's", name, n, each)
		}
		l.stop()
	}
}

// A host name works, and keeps its address when it no longer resolves, or when
// the name server hangs.
func TestSender_KeepsAddressOfANameThatStopsResolving(t *testing.T) {
	t.Parallel()
	for name, resolver := range map[string]*net.Resolver{
		"fails": {PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("no name server")
		}},
		"hangs": deadNameServer(t),
	} {
		in := newInbox()
		l := listen(t, in, statsd.ListenerConfig{})
		_, port, _ := net.SplitHostPort(l.Addr().String())
		s := sender(t, statsd.SenderConfig{
			Servers:  []string{"localhost:" + port},
			Resolve:  time.Nanosecond, // at every batch
			Resolver: resolver,
		})
		for range 10 {
			if st := s.send(t, one); st.Sent != 1 {
				t.Skipf("%s: localhost is not in the hosts file: %+v", name, st)
			}
		}
		in.await(t, "t?a=1", 10)
	}
}
