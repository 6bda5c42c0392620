package statsd_test

import (
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/internal/counting/arrival"
	"github.com/hotparam/pipeline/internal/transport/statsd"
)

// listenInMemory runs a listener at sockets in memory.
func listenInMemory(t *testing.T, sockets ...*memorySocket) running {
	t.Helper()
	cfg := statsd.ListenerConfig{}
	for _, s := range sockets {
		cfg.Packets = append(cfg.Packets, s)
	}
	return listen(t, newInbox(), cfg)
}

func TestSender_SeesItsOwnLossAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var percent, none atomic.Int64
		var log logTo
		socket := newMemorySocket(t)
		l := listenInMemory(t, socket)
		lossy, lossless := socket.sendTo(1001, &percent), socket.sendTo(1002, &none)
		lossy.Log, lossy.Interval = slog.New(slog.NewTextHandler(&log, nil)), time.Millisecond
		lossless.Log, lossless.Interval = lossy.Log, lossy.Interval
		half, whole := sender(t, lossy), sender(t, lossless)
		keepBusy(t, half)
		keepBusy(t, whole)
		known := func() bool { return half.Stats().Loss >= 0 && whole.Stats().Loss >= 0 }
		if !publish(t, l, time.Minute, known, half, whole) || half.Stats().Loss != 0 || log.String() != "" {
			t.Fatalf("all arrives: %+v, %s", half.Stats(), log.String())
		}
		percent.Store(50)
		if !publish(t, l, time.Minute, func() bool { return half.Stats().Down }, half, whole) {
			t.Fatalf("half of the datagrams are dropped: %+v", half.Stats())
		}
		if text, ok := half.Status(); ok || !strings.Contains(text, "does not arrive") &&
			!strings.Contains(text, "heartbeats") {
			t.Errorf("%q %v", text, ok)
		}
		percent.Store(0)
		if !publish(t, l, time.Minute, func() bool { return !half.Stats().Down }, half, whole) {
			t.Fatalf("all arrives again: %+v", half.Stats())
		}
		if text, ok := half.Status(); !ok || !strings.Contains(text, "counts arrive") {
			t.Errorf("%q %v", text, ok)
		}
		if st := whole.Stats(); st.Down || st.Loss != 0 {
			t.Errorf("the other sender: %+v", st)
		}
		if n := strings.Count(log.String(), "\n"); n != 2 {
			t.Errorf("%d lines, want one for the outage and one for its end:\n%s", n, log.String())
		}
	})
}

// An aggregator that publishes, and to which nothing comes, has not received anything.
func TestSender_IsDownIfNothingArrives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var all atomic.Int64
		all.Store(100)
		var log logTo
		socket := newMemorySocket(t)
		l := listenInMemory(t, socket)
		cfg := socket.sendTo(1001, &all)
		cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		s := sender(t, cfg)
		keepBusy(t, s)
		if !publish(t, l, time.Minute, func() bool { return s.Stats().Down }, s) || s.Stats().Loss != 1 {
			t.Fatalf("%+v", s.Stats())
		}
		works := func() bool { return !s.Stats().Down }
		if publish(t, l, 10*time.Second, works, s) || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("not down any more, or told twice:\n%s", log.String())
		}
	})
}

// Lines that pass through another hop are not a loss: two senders from one address, unix sockets, another program of
// ours.
func TestSender_LossBehindRelaysIsUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var none atomic.Int64
		socket, path, other := newMemorySocket(t), newMemorySocket(t), newMemorySocket(t)
		path.unix = true
		l, between := listenInMemory(t, socket, path), listenInMemory(t, other)
		relay := socket.sendTo(1001, &none)
		relay.Relay = func() map[string]arrival.Flow {
			flows, _ := between.Received()
			return flows
		}
		sender(t, relay)
		all := []outlet{
			sender(t, socket.sendTo(1002, &none)),
			sender(t, socket.sendTo(1002, &none)),
			sender(t, path.sendTo(0, &none)),
			sender(t, other.sendTo(1003, &none)),
		}
		for _, s := range all {
			keepBusy(t, s)
		}
		bad := func() bool {
			for i, s := range all {
				if st := s.Stats(); st.Down || st.Loss > 0 {
					t.Errorf("sender %d: %+v", i, st)
					return true
				}
			}
			return false
		}
		if publish(t, l, 15*time.Second, bad, all...) {
			t.FailNow()
		}
		for i, want := range []float64{-1, -1, -1, 0} {
			if st := all[i].Stats(); st.Loss != want {
				t.Errorf("sender %d: loss %v, want %v", i, st.Loss, want)
			}
			if text, ok := all[i].Status(); !ok || !strings.HasPrefix(text, "counts arrive") {
				t.Errorf("sender %d: %q", i, text)
			}
		}
	})
}

// A listener counts the lines of senders that have an address. Of others it knows only what their heartbeats say.
func TestListener_ReceivedCountsLinesOfSendersWithAnAddress(t *testing.T) {
	t.Parallel()
	dir, counted, uncounted := t.TempDir(), arrival.Flow{Sent: 12, First: 10, Received: 2},
		arrival.Flow{Sent: 12, Uncounted: true}
	for address, want := range map[string]arrival.Flow{
		"127.0.0.1:0": counted, "[::1]:0": counted, "unix:" + filepath.Join(dir, "d"): uncounted,
		"unixstream:" + filepath.Join(dir, "s"): uncounted, "tcp://127.0.0.1:0": uncounted,
	} {
		l := listen(t, newInbox(), statsd.ListenerConfig{Addresses: []string{address}, Readers: 2})
		conn, err := net.Dial(l.Addr().Network(), l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for _, line := range []string{"hp.news.alive:a-10|s", "hp.news.t.hot_param.a=1:1|c", "hp.news.alive:a-12|s"} {
			if _, err := io.WriteString(conn, line+"\n"); err != nil {
				t.Fatal(err)
			}
		}
		var got arrival.Flow
		for until := time.Now().Add(time.Minute); got.Sent < want.Sent && time.Now().Before(until); {
			<-time.After(time.Millisecond)
			flows, _ := l.Received()
			got = flows["a"]
		}
		if got != want {
			t.Errorf("%s: %+v, want %+v", address, got, want)
		}
	}
}
