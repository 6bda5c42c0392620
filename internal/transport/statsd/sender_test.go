package statsd_test

import (
	"bytes"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/counting/clientsketch"
	"github.com/hotparam/pipeline/internal/transport/statsd"
)

// mailbox is a unix socket, which loses nothing, and all that came to it.
type mailbox struct {
	address string
	packets chan []byte
	close   func()
}

func newMailbox(t *testing.T) mailbox {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	conn, err := net.ListenPacket("unixgram", path)
	if err != nil {
		t.Fatal(err)
	}
	box := mailbox{"unix:" + path, make(chan []byte, 1<<16), sync.OnceFunc(func() { _ = conn.Close() })}
	t.Cleanup(box.close)
	go func() {
		defer close(box.packets)
		for buf := make([]byte, 1<<16); ; {
			n, _, err := conn.ReadFrom(buf)
			if err != nil {
				return // closed
			}
			box.packets <- bytes.Clone(buf[:n])
		}
	}()
	return box
}

// take returns the next n datagrams unchanged.
func (m mailbox) take(n uint64) (packets [][]byte) {
	for range n {
		packets = append(packets, <-m.packets)
	}
	return packets
}

// newMemoryMailbox returns a mailbox for a synctest bubble, in which no busy machine makes counts too old to be sent,
// and the configuration of a sender to it.
func newMemoryMailbox(t *testing.T) (mailbox, statsd.SenderConfig) {
	t.Helper()
	socket, none := newMemorySocket(t), new(atomic.Int64)
	box := mailbox{packets: make(chan []byte, 1<<16)}
	go func() {
		for buf := make([]byte, 1<<16); ; {
			n, _, err := socket.ReadFrom(buf)
			if err != nil {
				return // closed
			}
			box.packets <- bytes.Clone(buf[:n])
		}
	}()
	return box, socket.sendTo(1001, none)
}

// drain returns the datagrams that came to a mailbox in memory, and the number of heartbeats among them, which it
// leaves out.
func (m mailbox) drain() (packets [][]byte, heartbeats int) {
	for synctest.Wait(); len(m.packets) > 0; {
		if p := <-m.packets; bytes.Contains(p, []byte(".alive:")) {
			heartbeats++
		} else {
			packets = append(packets, p)
		}
	}
	return packets, heartbeats
}

// A datagram is only left while the lines of the next key do not fit into it,
// and these stay together where one datagram can hold them.
func TestSender_FillsDatagrams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		box, cfg := newMemoryMailbox(t)
		cfg.MTU, cfg.Names = 400, canon.Names{Prefix: "p"}
		s := sender(t, cfg)
		// A bubble has no Deadline.
		rapid.Check(struct{ rapid.TB }{t}, func(t *rapid.T) { checkDatagramsAreFull(t, box, s, cfg.MTU) })
	})
}

func checkDatagramsAreFull(t *rapid.T, box mailbox, s outlet, mtu int) {
	counts := make([]hottype.Count, rapid.IntRange(1, 60).Draw(t, "keys"))
	groups := make([][][]byte, len(counts))
	for i := range counts {
		key := hottype.Key(fmt.Sprintf("t?k=%d%0*d", i, rapid.IntRange(0, 50).Draw(t, "zeros"), 0))
		who := new(hottype.ClientSketch)
		for j := range rapid.IntRange(0, 12).Draw(t, "clients") {
			clientsketch.Add(who, hottype.ParseClient(fmt.Sprintf("192.0.2.%d", j)), 1)
		}
		counts[i] = hottype.Count{Key: key, N: 5, Clients: who}
		name := canon.Names{Prefix: "p"}.Append(nil, key)
		groups[i] = append(groups[i], fmt.Appendf(nil, "%s:5|c", name))
		for m := range bytes.Lines(clientsketch.AppendMembers(nil, who)) {
			groups[i] = append(groups[i], fmt.Appendf(nil, "%s:%s|s", name, bytes.TrimSpace(m)))
		}
	}
	s.send(t, counts...)
	packets, _ := box.drain()
	for i, p := range packets {
		if len(p) > mtu {
			t.Fatalf("datagram of %d bytes", len(p))
		}
		if i > 0 {
			last, next := packets[i-1], groups[0]
			first, _, _ := bytes.Cut(p, []byte("\n"))
			whole := len(bytes.Join(next, []byte("\n")))
			if len(last)+1+len(first) <= mtu && (!bytes.Equal(first, next[0]) || len(last)+1+whole <= mtu) {
				t.Fatalf("a datagram of %d bytes has room for\n%s", len(last), first)
			}
		}
		lines := bytes.Split(p, []byte("\n"))
		for len(lines) > 0 {
			n := min(len(lines), len(groups[0]))
			for j := range n {
				if !bytes.Equal(lines[j], groups[0][j]) {
					t.Fatalf("line %q, want %q", lines[j], groups[0][j])
				}
			}
			if n < len(groups[0]) && len(bytes.Join(groups[0], []byte("\n"))) <= mtu {
				t.Fatalf("a key's lines were parted at %q", groups[0][n])
			}
			if lines, groups[0] = lines[n:], groups[0][n:]; len(groups[0]) == 0 {
				groups = groups[1:]
			}
		}
	}
	if len(groups) > 0 {
		t.Fatalf("%d keys are missing", len(groups))
	}
}

func TestSender_LeavesOutSets(t *testing.T) {
	t.Parallel()
	who := new(hottype.ClientSketch)
	clientsketch.Add(who, hottype.ParseClient("192.0.2.1"), 7)
	for _, tc := range []struct {
		without bool
		want    string
	}{
		{true, "hp.news.t.hot_param.a=1:7|c"},
		{false, "hp.news.t.hot_param.a=1:7|c\nhp.news.t.hot_param.a=1:seen=7|s\n" +
			"hp.news.t.hot_param.a=1:5a9150d9|s\nhp.news.t.hot_param.a=1:04c0000201=7|s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			box, cfg := newMemoryMailbox(t)
			cfg.NoSets = tc.without
			st := sender(t, cfg).send(t, hottype.Count{Key: "t?a=1", N: 7, Clients: who})
			if got := box.take(1)[0]; string(got) != tc.want || st.Lines != st.SetLines+1 {
				t.Errorf("%s\nwant\n%s\n%+v", got, tc.want, st)
			}
		})
	}
}

// Fifty thousand lines are not thrown at the socket at once.
func TestSender_SpreadsABurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, cfg := newMemoryMailbox(t)
		start := time.Now()
		st := sender(t, cfg).send(t, manyCounts(50000)...)
		if took := time.Since(start); took < 75*time.Millisecond || took > 85*time.Millisecond {
			t.Errorf("all was sent within %v", took)
		}
		if st.Sent != 50000 {
			t.Errorf("%+v", st)
		}
	})
}

// The end does not wait for the time to pass, and loses nothing.
func TestSender_SendsTheRestAtOnceAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		box, cfg := newMemoryMailbox(t)
		cfg.Interval = time.Hour
		start, s := time.Now(), sender(t, cfg)
		for range 3 {
			if err := s.Send(t.Context(), manyCounts(20000)); err != nil {
				t.Fatal(err)
			}
		}
		s.stop()
		st := s.Stats()
		packets, _ := box.drain()
		if took := time.Since(start); st.Sent != 60000 || uint64(len(packets)) != st.Datagrams || took > 0 {
			t.Errorf("after %v: %+v, %d datagrams came", took, st, len(packets))
		}
	})
}

// Keys stay with their server while the others come and go.
func TestSender_SendsAKeyAlwaysToTheSameServer(t *testing.T) {
	t.Parallel()
	boxes := []*inbox{newInbox(), newInbox(), newInbox()}
	var servers []string
	var stops []func()
	for _, in := range boxes {
		l := listen(t, in, statsd.ListenerConfig{})
		servers, stops = append(servers, l.Addr().String()), append(stops, l.stop)
	}
	for range 2 {
		s := sender(t, statsd.SenderConfig{Servers: servers})
		s.send(t, manyCounts(300)...)
		s.stop()
		servers[0], servers[2] = servers[2], servers[0] // the order is nothing
	}
	total := 0
	for i, in := range boxes {
		stops[i]()
		for key, n := range in.sums {
			if n != 2 {
				t.Errorf("server %d has %d requests for %s", i, n, key)
			}
		}
		if total += len(in.sums); len(in.sums) < 50 {
			t.Errorf("server %d has %d keys of 300", i, len(in.sums))
		}
	}
	if total != 300 {
		t.Errorf("%d of 300 keys are with one server", total)
	}
}
