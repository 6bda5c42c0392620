package statsd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// maxRead is the number of bytes that are read of a datagram, more than UDP can carry. A unix socket can carry more;
// then the datagram is cut off after its last whole line.
const maxRead = 1 << 16

// socket contains the common methods of *net.UDPConn and *net.UnixConn.
type socket interface {
	net.PacketConn
	SetReadBuffer(bytes int) error
	SyscallConn() (syscall.RawConn, error)
}

// packets is a socket that need not be one of the kernel's.
type packets struct{ net.PacketConn }

func (packets) SetReadBuffer(int) error { return errors.ErrUnsupported }

func (packets) SyscallConn() (syscall.RawConn, error) { return nil, errors.ErrUnsupported }

// receiver receives datagrams. It is used by one goroutine.
type receiver interface {
	receiveDatagrams() (int, error) // waits for datagrams until the socket's deadline and returns their number
	datagramAt(i int) []byte        // datagram i; the next call of receiveDatagrams overwrites it
	senderAt(i int) netip.AddrPort  // the sender of datagram i; zero if it has no address
	arrivalAt(i int) time.Time      // when the kernel received datagram i; zero if it does not report that
	hasArrivalTimes() bool          // reports whether the kernel reports these times
}

// single receives one datagram at a time.
type single struct {
	socket socket
	buf    []byte
	n      int
	from   netip.AddrPort
}

func newSingle(s socket) *single { return &single{socket: s, buf: make([]byte, maxRead)} }

func (s *single) receiveDatagrams() (_ int, err error) {
	var from net.Addr
	if s.n, from, err = s.socket.ReadFrom(s.buf); err != nil {
		return 0, err
	}
	s.from = netip.AddrPort{}
	if udp, ok := from.(*net.UDPAddr); ok {
		s.from = udp.AddrPort()
	}
	return 1, nil
}

func (s *single) datagramAt(int) []byte { return s.buf[:s.n] }

func (s *single) senderAt(int) netip.AddrPort { return s.from }

func (s *single) arrivalAt(int) time.Time { return time.Time{} }

func (s *single) hasArrivalTimes() bool { return false }

// datagrams is one socket with its own reader and sums. It is safe for concurrent use, but run must be called by one
// goroutine.
type datagrams struct {
	name     string
	conn     socket
	granted  int64 // bytes of receive buffer
	in       receiver
	reader   *reader
	from     *senders
	deadline time.Time     // the current read deadline, or zero
	drops    atomic.Uint64 // last known number, because a closed socket has no count
}

// openDatagrams binds an address, with several sockets if the kernel can share it.
func (l *Listener) openDatagrams(a address) error {
	n := 1
	if a.network == "udp" && canShare {
		n = l.cfg.Readers
	}
	for i := range n {
		conn, err := bindSocket(a, n > 1)
		if err != nil {
			return err
		}
		if i == 0 && a.network == "udp" {
			a.addr = conn.LocalAddr().String() // port 0 has become a port
		}
		d := &datagrams{name: a.addr, conn: conn, reader: l.newReader(), from: &l.senders}
		l.sources = append(l.sources, d)
		if n > 1 {
			d.name += "#" + strconv.Itoa(i+1)
		}
		if d.in, err = newReceiver(conn); err != nil {
			return err
		}
		l.requestBuffer(d)
	}
	return nil
}

func bindSocket(a address, shared bool) (socket, error) {
	if a.network == "unixgram" {
		if err := removeSocket(a.addr); err != nil {
			return nil, err
		}
	}
	var lc net.ListenConfig
	if shared {
		lc.Control = func(_, _ string, raw syscall.RawConn) error {
			var err error
			return errors.Join(raw.Control(func(fd uintptr) { err = sharePort(fd) }), err)
		}
	}
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

// removeSocket removes the socket file of a process that died, and no other file.
func removeSocket(path string) error {
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
		return os.Remove(path)
	}
	return nil // bind reports the problem
}

// requestBuffer requests a large receive buffer and reads back the granted size, because the kernel silently cuts it to
// its own limit. The default of 208 KiB holds some ten milliseconds of a busy site, less than a hiccup of the
// scheduler.
func (l *Listener) requestBuffer(d *datagrams) {
	growBuffer(d.conn, l.cfg.ReadBuffer)
	d.granted = receiveBufferSize(d.conn)
	warnSmallBuffer(l.cfg, d.name, d.granted)
}

func warnSmallBuffer(cfg ListenerConfig, name string, granted int64) {
	if want := int64(cfg.ReadBuffer); granted > 0 && granted < want/2 {
		cfg.Log.Warn("statsd: the kernel granted a small receive buffer, bursts will be lost; "+
			"run: sysctl -w net.core.rmem_max="+strconv.Itoa(cfg.ReadBuffer)+", or give the program CAP_NET_ADMIN",
			"address", name, "asked", want, "granted", granted)
	}
}

func (d *datagrams) listenAddress() net.Addr { return d.conn.LocalAddr() }

func (d *datagrams) close() error { return d.conn.Close() }

// run reads until ctx ends and the kernel's buffer is empty. Then it closes the socket.
func (d *datagrams) run(ctx context.Context) error {
	defer d.conn.Close()
	release := wakeAtEnd(ctx, d.conn.SetReadDeadline)
	err := d.read(ctx)
	release()
	_ = drain(d.conn.SetReadDeadline, d.readBurst) // an error ends the waiting datagrams
	d.reader.finish()
	d.readDrops()
	return err
}

// wakeAtEnd sets a deadline in the past when ctx ends. After release, the caller may set deadlines.
func wakeAtEnd(ctx context.Context, setDeadline func(time.Time) error) (release func()) {
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = setDeadline(time.Unix(1, 0))
		close(woken)
	})
	return func() {
		if !stop() {
			<-woken
		}
	}
}

// read returns nil when ctx ended.
func (d *datagrams) read(ctx context.Context) error {
	for ctx.Err() == nil {
		switch err := d.readBurst(); {
		case err == nil || errors.Is(err, os.ErrDeadlineExceeded):
		default:
			return fmt.Errorf("statsd: read from %s: %w", d.name, err)
		}
		if next := d.reader.flush(time.Now()); next != d.deadline {
			// Wake up for the flush even if no datagram arrives. ctx is checked after this, so that the wake-up at its
			// end is not overwritten.
			d.deadline = next
			_ = d.conn.SetReadDeadline(next)
		}
	}
	return nil
}

func (d *datagrams) readBurst() error {
	n, err := d.in.receiveDatagrams()
	if err != nil {
		return err
	}
	for i := range n {
		if d.reader.from = d.in.senderAt(i); d.from.isAllowed(d.reader.from.Addr()) {
			d.reader.arrived = d.in.arrivalAt(i)
			d.readDatagram(d.in.datagramAt(i))
		}
	}
	return nil
}

func (d *datagrams) readDatagram(p []byte) {
	if len(p) == maxRead {
		whole := bytes.LastIndexByte(p, '\n') + 1
		d.reader.countCut(p[whole:])
		p = p[:whole]
	}
	d.reader.readPacket(p)
}

// drainFor bounds the reading after the end; a stream that never pauses for drainIdle is then cut off.
const (
	drainFor  = time.Second
	drainIdle = 5 * time.Millisecond
)

// drain calls next until a call finds no data for drainIdle, and returns the error of that call, or nil if the time is
// up.
func drain(setDeadline func(time.Time) error, next func() error) error {
	for end := time.Now().Add(drainFor); time.Now().Before(end); {
		_ = setDeadline(time.Now().Add(drainIdle))
		if err := next(); err != nil {
			return err
		}
	}
	return nil
}

func (d *datagrams) readDrops() {
	if n, ok := socketDrops(d.conn); ok {
		d.drops.Store(uint64(n))
	}
}

func (d *datagrams) lineCounters() received { return d.reader.lineCounters() }

// addStatsTo adds the kernel's statistics of the socket.
func (d *datagrams) addStatsTo(to *ListenerStats) {
	d.readDrops()
	s := SocketStats{KernelDrops: d.drops.Load(), ReceiveBuffer: d.granted}
	to.Sockets[d.name] = s
	to.KernelDrops += s.KernelDrops
	if to.ReceiveBuffer == 0 || s.ReceiveBuffer < to.ReceiveBuffer {
		to.ReceiveBuffer = s.ReceiveBuffer
	}
}
