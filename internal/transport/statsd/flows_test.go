package statsd_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/arrival"
	"github.com/hotparam/pipeline/internal/transport/statsd"
)

// keepBusy keeps a sender busy until the end of the test.
func keepBusy(t *testing.T, s outlet) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	go func() {
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				_ = s.Send(t.Context(), []hottype.Count{one})
			}
		}
	}()
}

// publish reports four times a second the flows of a listener, until ok returns true or the time is over.
func publish(t *testing.T, l running, timeout time.Duration, ok func() bool, senders ...outlet) bool {
	t.Helper()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(timeout); ; {
		select {
		case <-tick.C:
		case <-end:
			return false
		}
		flows, complete := l.Received()
		for _, s := range senders {
			s.Observe(arrival.Report{Publisher: "a", Complete: complete, Flows: flows})
		}
		if ok() {
			return true
		}
	}
}

// listenAt is a listener with a clock of its own, in seconds, and a connection to it.
func listenAt(t *testing.T) (l running, now *atomic.Int64, to net.Conn) {
	t.Helper()
	now = new(atomic.Int64)
	now.Store(1_800_000_000)
	l = listen(t, newInbox(), statsd.ListenerConfig{Now: func() time.Time { return time.Unix(now.Load(), 0) }})
	to, err := net.Dial("udp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { to.Close() })
	return l, now, to
}

// A listener that does not know all senders reports that, and forgets silent senders.
func TestListener_ReceivedIsIncompleteWithTooManySenders(t *testing.T) {
	t.Parallel()
	l, now, conn := listenAt(t)
	if _, complete := l.Received(); !complete {
		t.Error("nothing was received yet")
	}
	want := func(n int, complete bool) {
		t.Helper()
		for range 200 {
			list, all := l.Received()
			if len(list) == n && all == complete {
				return
			}
			<-time.After(10 * time.Millisecond)
		}
		list, all := l.Received()
		t.Fatalf("%d senders, complete %v; want %d, %v", len(list), all, n, complete)
	}
	for i := range 1030 {
		if _, err := io.WriteString(conn, "hp.news.alive:"+strings.Repeat("A", i%30+1)+string(rune('a'+i/30%26))+
			string(rune('a'+i/780))+"-1-1-1|s"); err != nil {
			t.Fatal(err)
		}
		if i == 1000 {
			want(1001, true)
		}
	}
	want(1024, false)
	now.Add(11)
	want(0, true)
}

// If two senders share an address, the sender of its lines is unknown, even while one of them is silent.
func TestListener_DoesNotCountLinesOfSendersWithOneAddress(t *testing.T) {
	t.Parallel()
	l, now, conn := listenAt(t)
	for i, c := range []struct {
		id        string
		sent      uint64
		uncounted bool
	}{{"a", 10, false}, {"a", 20, false}, {"b", 7, true}, {"b", 8, true}, {"b", 9, true}, {"a", 40, true}} {
		now.Add(1)
		if _, err := fmt.Fprintf(conn, "hp.news.alive:%s-%d|s", c.id, c.sent); err != nil {
			t.Fatal(err)
		}
		var got arrival.Flow
		for range 200 {
			list, _ := l.Received()
			if got = list[c.id]; got.Sent == c.sent {
				break
			}
			<-time.After(10 * time.Millisecond)
		}
		if got.Sent != c.sent || got.Uncounted != c.uncounted {
			t.Errorf("heartbeat %d, of %s: %+v, want uncounted %v", i, c.id, got, c.uncounted)
		}
	}
}

// Counts that are sent after their second carry it once a receiver of ours has reported. Other servers do not get the
// second, and a forwarded line loses it.
func TestSender_StampsLateCountsAfterAReport(t *testing.T) {
	t.Parallel()
	in, to := newInbox(), upstream(t)
	in.seconds = make(chan int64, 1000)
	l := listen(t, in, statsd.ListenerConfig{Forward: to.LocalAddr().String(), ForwardAll: true})
	s := sender(t, statsd.SenderConfig{Servers: []string{l.Addr().String()}, Interval: time.Millisecond})
	late := time.Now().Unix() - 5
	count := hottype.Count{Key: "topic?id=42", N: 1, Second: late}
	send := func() int64 {
		t.Helper()
		if err := s.Send(t.Context(), []hottype.Count{count}); err != nil {
			t.Fatal(err)
		}
		return <-in.seconds
	}
	if got := send(); got < late+5 {
		t.Errorf("before any report it counts in second %d", got-late)
	}
	if !publish(t, l, 20*time.Second, func() bool { return send() == late }, s) {
		t.Fatal("it never says its second")
	}
	count.Second = time.Now().Unix() + 60 // so it is not late
	if got := send(); got >= count.Second || got == late {
		t.Errorf("a count ahead of time counts in second %d", got-late)
	}
	for _, line := range receive(t, to, 5) {
		if !strings.HasSuffix(line, "|c") && !strings.HasSuffix(line, "|s") {
			t.Errorf("forwarded: %s", line)
		}
	}
}
