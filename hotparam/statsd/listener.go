package statsd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/canon"
)

// ListenerConfig configures a Listener. Address, Names and Handle are needed.
type ListenerConfig struct {
	// Address to listen on: "host:port" (UDP) or "unix:/path" (datagrams). A
	// socket file that is there already is replaced.
	Address string
	// Names are how the senders write keys.
	Names canon.Names
	// Handle gets the counts, summed by key, and may keep the slice. It is
	// called by the goroutine of Run and must be quick: while it runs nobody
	// reads, and the kernel's buffer fills.
	Handle func([]hotparam.Count)
	// Flush is how long counts are summed before Handle gets them; default
	// 20 ms.
	Flush time.Duration
	// Remember is how long metric names are remembered; default 10 s.
	Remember time.Duration
	// MaxNames bounds the names remembered at once; default 65536. At the
	// bound all are handed over and forgotten, so nothing is lost.
	MaxNames int
	// MaxLine bounds a line in bytes; default 8192. Longer ones are malformed.
	MaxLine int
	// ReadBuffer is the receive buffer to ask the kernel for; default 16 MiB.
	ReadBuffer int
	// Now gives the arrival time; default time.Now.
	Now func() time.Time
	// Log hears of a small buffer and of malformed lines; default
	// slog.Default().
	Log *slog.Logger
}

func (c ListenerConfig) withDefaults() ListenerConfig {
	c.Flush = cmp.Or(max(c.Flush, 0), 20*time.Millisecond)
	c.Remember = cmp.Or(max(c.Remember, 0), 10*time.Second)
	c.MaxNames = cmp.Or(max(c.MaxNames, 0), 65536)
	c.MaxLine = cmp.Or(max(c.MaxLine, 0), 8192)
	c.ReadBuffer = cmp.Or(max(c.ReadBuffer, 0), 16<<20)
	c.Log = cmp.Or(c.Log, slog.Default())
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// socket is what *net.UDPConn and *net.UnixConn have in common.
type socket interface {
	Read([]byte) (int, error)
	SetReadDeadline(time.Time) error
	SetReadBuffer(bytes int) error
	SyscallConn() (syscall.RawConn, error)
	LocalAddr() net.Addr
	Close() error
}

// Listener receives StatsD datagrams and hands over the counters that are
// ours. Stats and Addr may be called by any goroutine; Run by one.
type Listener struct {
	cfg     ListenerConfig
	conn    socket
	granted int64 // bytes of receive buffer
	reader  *reader
	drops   atomic.Uint64 // as last seen: a closed socket tells nothing
}

// NewListener binds the address, so that what is sent from now on is kept by
// the kernel. Run reads it and closes the socket; without Run call Close.
func NewListener(cfg ListenerConfig) (*Listener, error) {
	addr, err := parseAddress(cfg.Address)
	if err != nil {
		return nil, err
	}
	if err := cfg.Names.Validate(); err != nil {
		return nil, fmt.Errorf("statsd: %w", err)
	}
	if cfg.Handle == nil {
		return nil, errors.New("statsd: a listener without Handle")
	}
	cfg = cfg.withDefaults()
	conn, err := listen(addr)
	if err != nil {
		return nil, fmt.Errorf("statsd: listen on %s: %w", cfg.Address, err)
	}
	l := &Listener{cfg: cfg, conn: conn, reader: newReader(cfg)}
	l.growBuffer()
	return l, nil
}

func listen(a address) (socket, error) {
	if a.network == "unixgram" {
		if err := removeSocket(a.addr); err != nil {
			return nil, err
		}
	}
	var lc net.ListenConfig
	conn, err := lc.ListenPacket(context.Background(), a.network, a.addr) // binding does not wait
	if err != nil {
		return nil, err
	}
	s, ok := conn.(socket)
	if !ok {
		_ = conn.Close()
		return nil, fmt.Errorf("%T cannot be read without addresses", conn)
	}
	return s, nil
}

// removeSocket removes the socket file that a process which died left behind;
// nothing else.
func removeSocket(path string) error {
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
		return os.Remove(path)
	}
	return nil // bind tells what is wrong
}

// growBuffer asks for a large receive buffer and reads back what was granted:
// the kernel cuts it to its own limit without a word. The default of 208 KiB
// holds some ten milliseconds of a busy site, less than a hiccup of the
// scheduler.
func (l *Listener) growBuffer() {
	_ = l.conn.SetReadBuffer(l.cfg.ReadBuffer) // what counts is the reading back
	l.granted = receiveBuffer(l.conn)
	if want := int64(l.cfg.ReadBuffer); l.granted > 0 && l.granted < want/2 {
		l.cfg.Log.Warn("statsd: the kernel granted a small receive buffer, bursts will be lost; "+
			"run: sysctl -w net.core.rmem_max="+strconv.Itoa(l.cfg.ReadBuffer),
			"address", l.cfg.Address, "asked", want, "granted", l.granted)
	}
}

// Addr is the address that is listened on.
func (l *Listener) Addr() net.Addr { return l.conn.LocalAddr() }

// Close closes the socket of a listener that is not run.
func (l *Listener) Close() error { return l.conn.Close() }

// drainFor bounds how long Run reads on after its end to empty the kernel's
// buffer. A stream that never pauses is cut off then.
const drainFor = time.Second

// Run reads datagrams until ctx ends. Then it takes what the kernel had already
// received, hands everything over, closes the socket and returns nil. An error
// means that the socket broke.
func (l *Listener) Run(ctx context.Context) error {
	defer l.conn.Close()
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = l.conn.SetReadDeadline(time.Unix(1, 0))
		close(woken)
	})
	err := l.read(ctx)
	if !stop() {
		<-woken // or it would cut the draining short
	}
	l.drain()
	l.reader.finish()
	l.seeDrops()
	return err
}

// read returns nil when ctx ended.
func (l *Listener) read(ctx context.Context) error {
	buf := make([]byte, 1<<16) // no datagram is longer
	for ctx.Err() == nil {
		n, err := l.conn.Read(buf)
		switch {
		case err == nil:
			l.reader.packet(buf[:n])
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return fmt.Errorf("statsd: read from %s: %w", l.cfg.Address, err)
		}
		if next := l.reader.flush(time.Now()); next != l.reader.armed {
			// Wake up for the flush even if nobody sends any more. The look at
			// ctx comes after this, so that its wake-up is not overwritten.
			l.reader.armed = next
			_ = l.conn.SetReadDeadline(next)
		}
	}
	return nil
}

func (l *Listener) seeDrops() {
	if n, ok := socketDrops(l.conn); ok {
		l.drops.Store(uint64(n))
	}
}

// drain reads what is there, until there was nothing for a moment.
func (l *Listener) drain() {
	buf := make([]byte, 1<<16)
	for end := time.Now().Add(drainFor); time.Now().Before(end); {
		_ = l.conn.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
		n, err := l.conn.Read(buf)
		if err != nil {
			return
		}
		l.reader.packet(buf[:n])
	}
}

// ListenerStats is what a Listener received. Except for ReceiveBuffer the
// fields only grow.
type ListenerStats struct {
	Packets uint64
	Bytes   uint64
	Lines   uint64
	// Counted are the lines that were counters of ours; Requests the whole
	// number that they counted and that Handle got.
	Counted  uint64
	Requests uint64
	// Foreign lines have other names, OtherTypes our names and are no
	// counters. Both are normal.
	Foreign    uint64
	OtherTypes uint64
	// Malformed lines could not be read, or were longer than MaxLine.
	Malformed uint64
	// KernelDrops are the datagrams that found the receive buffer full; 0
	// where the system does not tell.
	KernelDrops uint64
	// ReceiveBuffer is the size in bytes that the kernel granted; 0 where the
	// system does not tell.
	ReceiveBuffer int64
}

// Stats reads the counters.
func (l *Listener) Stats() ListenerStats {
	s := l.reader.stats.read()
	l.seeDrops()
	s.KernelDrops = l.drops.Load()
	s.ReceiveBuffer = l.granted
	return s
}
