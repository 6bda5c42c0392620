package redisclient

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// A firewall forgets all connections of a pool. One call finds out, the next one
// dials.
func TestWatchdog_ForgottenConnectionsCostOneCall(t *testing.T) {
	t.Parallel()
	f := redistest.StartFaultProxy(t, redistest.Start(t).Addr())
	c := openWith(t, Config{Addrs: []string{f.Addr()}, Timeout: redistest.Patience})
	var held []*redis.Conn
	for range 8 {
		conn := c.rdb.(*redis.Client).Conn()
		if err := conn.Ping(context.Background()).Err(); err != nil {
			t.Fatal(err)
		}
		held = append(held, conn)
	}
	for _, conn := range held {
		if err := conn.Close(); err != nil { // back into the pool
			t.Fatal(err)
		}
	}
	ask := func(within time.Duration) error {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		return c.Ping(ctx)
	}
	f.Forget()
	if err := ask(50 * time.Millisecond); err == nil {
		t.Error("a forgotten connection has answered")
	}
	if err := ask(redistest.Patience); err != nil {
		t.Errorf("the call after it: %v", err)
	}
}

// A connection is closed if it was silent since before the question. It stays open if it has received a reply since,
// waits for a reply too, listens, or belongs to another server.
func TestWatchdog_ClosesIdleSilentConnections(t *testing.T) {
	t.Parallel()
	d := newWatchdog()
	open := func(addr string) *watchedConn {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { ours.Close(); theirs.Close() })
		go func() { // reads all writes, and ends with the pipe
			for buf := make([]byte, 16); ; {
				if _, err := theirs.Read(buf); err != nil {
					return
				}
			}
		}()
		return d.add(ours, addr)
	}
	ask := func(w *watchedConn) {
		t.Helper()
		if _, err := w.Write([]byte("?")); err != nil {
			t.Fatal(err)
		}
	}
	in := open("a")
	idle, heard, waiting, listening, elsewhere := open("a"), open("a"), open("a"), open("a"), open("b")
	listening.reading.Store(true)
	ask(waiting)
	ask(in)
	heard.heard.Store(in.asked.Load() + 1)
	if err := in.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Read(make([]byte, 1)); err == nil {
		t.Fatal("an answer out of nowhere")
	}
	for name, c := range map[string]struct {
		*watchedConn
		closed bool
	}{"idle": {idle, true}, "asker": {in, false}, "heard": {heard, false}, "waiting": {waiting, false},
		"listening": {listening, false}, "elsewhere": {elsewhere, false}} {
		if c.closed != c.watchedConn.closed.Load() {
			t.Errorf("%s: closed %v", name, c.watchedConn.closed.Load())
		}
		// The pool asks this way before it hands one out.
		if _, err := c.SyscallConn(); c.closed != errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
		if err := c.Close(); err != nil {
			t.Errorf("%s: close: %v", name, err)
		}
	}
	if len(d.all) != 0 {
		t.Errorf("%d closed watchdog looks after looked after", len(d.all))
	}
}

// A dial fails after its caller has given up. No later call gets the error of that dial, because the server is back.
func TestDial_FailsForNoLaterCall(t *testing.T) {
	t.Parallel()
	back, dialed := make(chan struct{}), make(chan struct{}, 1)
	c := openWith(t, Config{Addrs: []string{newMaster}, Timeout: redistest.Patience,
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			select {
			case <-back:
				return halfDead{newMaster: isMaster}.dial(ctx, network, addr)
			default:
			}
			dialed <- struct{}{}
			<-back
			return nil, syscall.ECONNREFUSED
		}})
	impatient, giveUp := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() { failed <- c.Ping(impatient) }()
	<-dialed
	giveUp()
	if err := <-failed; err == nil {
		t.Error("a server answers that is not there")
	}
	close(back)
	redistest.Eventually(t, "the end of the dial", func() bool { return c.rdb.PoolStats().IdleConns == 1 })
	if err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// A connection under TLS counts as good, because the pool cannot check it.
func TestWatchedConn_HidesStateOfTLS(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	defer theirs.Close()
	var conn syscall.Conn = newWatchdog().add(ours, "a")
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Read(func(uintptr) bool { t.Error("looked"); return true }); err != nil {
		t.Error(err)
	}
}

// A connection that was just read from is handed out without a check, which costs a system call; any other is checked.
func TestWatchedConn_IsCheckedIfItRested(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	dialed, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn := newWatchdog().add(dialed, "a")
	defer conn.Close()
	now := int64(time.Since(conn.watchdog.born))
	for heard, looks := range map[int64]bool{now + int64(time.Hour): false, now - int64(freshFor): true} {
		conn.heard.Store(heard)
		raw, err := conn.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if _, passes := raw.(opaque); passes == looks {
			t.Errorf("read from at %d: %T", heard-now, raw)
		}
	}
}
