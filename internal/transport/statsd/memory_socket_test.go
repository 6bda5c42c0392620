package statsd_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/transport/statsd"
)

// memorySocket is a datagram socket in memory. A goroutine that waits for it lets the clock of a synctest bubble run,
// which one that waits for a socket of the kernel does not.
type memorySocket struct {
	net.Conn // read by a Listener; one Write of the other end is one datagram
	in       net.Conn
	unix     bool // senders have no address
}

// portBytes is the size of the sender's port, which each datagram in memory begins with.
const portBytes = 2

func newMemorySocket(t *testing.T) *memorySocket {
	t.Helper()
	out, in := net.Pipe()
	t.Cleanup(func() { _, _ = out.Close(), in.Close() })
	return &memorySocket{Conn: out, in: in}
}

// ReadFrom reads the next datagram, which has to fit into p.
func (s *memorySocket) ReadFrom(p []byte) (int, net.Addr, error) {
	n, err := s.Read(p)
	if err != nil {
		return 0, nil, err
	}
	from := net.Addr(&net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(binary.BigEndian.Uint16(p))})
	if s.unix {
		from = &net.UnixAddr{Net: "unixgram"}
	}
	return copy(p, p[portBytes:n]), from, nil
}

func (s *memorySocket) WriteTo([]byte, net.Addr) (int, error) { return 0, errors.ErrUnsupported }

// memoryLink is a socket of a sender that is connected to a memorySocket.
type memoryLink struct {
	net.Conn
	port uint16
	lost func() bool // reports whether the next datagram is dropped
}

func (l memoryLink) Write(p []byte) (int, error) {
	if l.lost() {
		return len(p), nil
	}
	n, err := l.Conn.Write(append(binary.BigEndian.AppendUint16(nil, l.port), p...))
	return max(n-portBytes, 0), err
}

// SetWriteDeadline does nothing, because deadlines would apply to every sender, and a running listener reads at once.
func (memoryLink) SetWriteDeadline(time.Time) error { return nil }

// Close leaves the socket open for the other senders.
func (memoryLink) Close() error { return nil }

// sendTo returns the configuration of a sender whose datagrams come from a port and are lost in percent of all cases.
func (s *memorySocket) sendTo(port uint16, percent *atomic.Int64) statsd.SenderConfig {
	random := rand.New(rand.NewPCG(1, uint64(port)))
	link := memoryLink{Conn: s.in, port: port, lost: func() bool { return random.Int64N(100) < percent.Load() }}
	return statsd.SenderConfig{Servers: []string{"127.0.0.1:8125"},
		Dial: func(context.Context, string, string) (net.Conn, error) { return link, nil }}
}
