//go:build !linux

package statsd

import (
	"errors"
	"net"
	"net/netip"
)

// burst receives one datagram at a time on this system.
type burst struct {
	s    socket
	buf  []byte
	n    int
	from netip.AddrPort
}

func newBurst(s socket) (*burst, error) { return &burst{s: s, buf: make([]byte, maxRead)}, nil }

// receive waits for a datagram until the socket's deadline.
func (b *burst) receive() (_ int, err error) {
	b.from = netip.AddrPort{}
	if udp, ok := b.s.(*net.UDPConn); ok {
		b.n, b.from, err = udp.ReadFromUDPAddrPort(b.buf)
	} else {
		b.n, err = b.s.Read(b.buf)
	}
	if err != nil {
		return 0, err
	}
	return 1, nil
}

// packet is the last datagram; it is overwritten by the next.
func (b *burst) packet(int) []byte { return b.buf[:b.n] }

// peer is who sent the last datagram; zero at a unix socket.
func (b *burst) peer(int) netip.AddrPort { return b.from }

// canShare says that a port has one socket on this system.
const canShare = false

func sharePort(uintptr) error { return errors.New("sockets cannot share a port on this system") }

func growBuffer(s socket, size int) { _ = s.SetReadBuffer(size) }

// receiveBuffer and socketDrops know nothing on this system.
func receiveBuffer(socket) int64 { return 0 }

func socketDrops(socket) (drops uint32, ok bool) { return 0, false }
