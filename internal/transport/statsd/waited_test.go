package statsd

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/arrival"
	"github.com/hotparam/pipeline/internal/wait"
)

// A line counts in the second in which the kernel received it, in its own second if it says one, and never in the
// future, which a clock that was set back makes of the kernel's time.
func TestReader_PlacesLinesWhenTheyArrived(t *testing.T) {
	t.Parallel()
	got := sink{}
	r := testReader(got, nil) // at second 1000
	for _, arrived := range []int64{990, 990, 995, 1000, 1700} {
		r.arrived = time.Unix(arrived, 999)
		r.readPacket([]byte("hp.news.t.hot_param.a=1:1|c\nhp.news.t.hot_param.a=1:1|c|T991"))
	}
	r.finish()
	want := sink{{Key: "t?a=1", Second: 990}: 2, {Key: "t?a=1", Second: 991}: 5, {Key: "t?a=1", Second: 995}: 1,
		{Key: "t?a=1", Second: 1000}: 2}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// After a standstill a line counts only if its time is known, by the kernel or by the line. A line that is left out
// does not leave a client behind either, and a second later all lines count.
func TestReader_LeavesOutWhatWaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var stood wait.Standstill
		got := []hottype.Count{}
		r := testReader(nil, func(cfg *ListenerConfig) {
			cfg.Handle = func(counts []hottype.Count) { got = append(got, counts...) }
			cfg.Standstill = &stood
		})
		stood.Beat()
		time.Sleep(3 * time.Second)
		r.readPacket([]byte("hp.news.t.hot_param.a=1:7|c\nhp.news.t.hot_param.a=1:seen=7|s\nhp.news.alive:1|g"))
		r.readPacket([]byte("hp.news.t.hot_param.a=1:2|c|T998"))
		r.arrived = time.Unix(996, 0)
		r.readPacket([]byte("hp.news.t.hot_param.a=1:3|c"))
		r.arrived = time.Time{}
		for range 11 {
			stood.Beat()
			time.Sleep(100 * time.Millisecond)
		}
		r.readPacket([]byte("hp.news.t.hot_param.a=1:4|c"))
		r.finish()
		seconds := map[int64]int64{}
		for _, c := range got {
			seconds[c.Second] += c.N
			if c.Clients != nil {
				t.Errorf("the clients of what was left out: %+v", c)
			}
		}
		if want := map[int64]int64{998: 2, 996: 3, 1000: 4}; fmt.Sprint(seconds) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", seconds, want)
		}
		if s := r.statsNow(); s.LeftOut != 1 || s.Lines != 6 || s.Counted != 3 || s.Alive != 1 || s.Members != 1 {
			t.Errorf("%+v", s.LineStats)
		}
	})
}

// After a standstill a sender drops counts of earlier seconds, which would count when they arrive, unless the server
// reads the second of a line.
func TestServerQueue_DropsWhatWaitedInThisProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var stood wait.Standstill
		l, err := newServerQueue("127.0.0.1:8125", SenderConfig{Standstill: &stood, NoSets: true}.withDefaults())
		if err != nil {
			t.Fatal(err)
		}
		written := func(stamps bool, age int64) string {
			l.stamps = stamps
			l.out.beginBatch(t.Context())
			if n := l.writeCount("a", &hottype.Count{N: 1, Second: time.Now().Unix() - age}); n != 1 {
				t.Errorf("%d requests", n)
			}
			return string(l.out.buf)
		}
		stood.Beat()
		if got := written(false, 1); got != "a:1|c" {
			t.Errorf("while the process runs: %q", got)
		}
		time.Sleep(3 * time.Second)
		if got := written(false, 1); got != "" {
			t.Errorf("what waited is sent: %q", got)
		}
		if got, want := written(true, 1), fmt.Sprintf("a:1|c|T%d", time.Now().Unix()-1); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got := written(false, 0); got != "a:1|c" {
			t.Errorf("what is new: %q", got)
		}
	})
}

// A datagram that is not full when the process stands still is not sent afterwards.
func TestPacker_DropsADatagramThatWaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &packer{link: &link{}, mtu: 1432}
		p.beginBatch(context.Background())
		_, _ = p.Send([]byte("a:1|c"))
		p.finishGroup(1)
		time.Sleep(maxAge + time.Millisecond)
		p.flush() // a link without an address would panic
		if p.sent != 0 || len(p.buf) != 0 {
			t.Errorf("%d sent, %q is left", p.sent, p.buf)
		}
	})
}

// A process that passes on the counts of others sends no heartbeat while it may leave out what waited, so that a
// receiver notices that counts are missing. One that counts by itself leaves nothing out and goes on.
func TestServerQueue_IsSilentWhileItLeavesOut(t *testing.T) {
	t.Parallel()
	for _, relays := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var stood wait.Standstill
			out := &heartbeats{began: time.Now()}
			cfg := SenderConfig{Standstill: &stood, Dial: out.dial}.withDefaults()
			if relays {
				cfg.Relay = func() map[string]arrival.Flow { return nil }
			}
			l, err := newServerQueue("127.0.0.1:8125", cfg)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var running sync.WaitGroup
			running.Go(func() { l.run(ctx) })
			stood.Beat()
			time.Sleep(3500 * time.Millisecond) // nothing beats: the process stands still
			stood.Beat()
			before := len(out.times())
			for range 20 {
				time.Sleep(100 * time.Millisecond)
				stood.Beat()
			}
			stop()
			running.Wait()
			if left := out.times()[before:]; len(left) == 0 || relays != (left[0] > 4500*time.Millisecond) {
				t.Errorf("passes on what others count: %v; heartbeats at %v", relays, left)
			}
		})
	}
}

// heartbeats is a socket that records when something was written.
type heartbeats struct {
	net.Conn
	began time.Time

	mu sync.Mutex
	at []time.Duration
}

func (h *heartbeats) times() []time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.at)
}

func (h *heartbeats) dial(context.Context, string, string) (net.Conn, error) {
	return h, nil
}

func (h *heartbeats) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at = append(h.at, time.Since(h.began))
	return len(b), nil
}

func (h *heartbeats) Close() error                     { return nil }
func (h *heartbeats) SetWriteDeadline(time.Time) error { return nil }
func (h *heartbeats) RemoteAddr() net.Addr             { return &net.UDPAddr{} }
