//go:build !linux

package statsd

// burst receives one datagram at a time on this system.
type burst struct {
	s   socket
	buf []byte
	n   int
}

func newBurst(s socket) (*burst, error) { return &burst{s: s, buf: make([]byte, maxRead)}, nil }

// receive waits for a datagram until the socket's deadline.
func (b *burst) receive() (_ int, err error) {
	b.n, err = b.s.Read(b.buf)
	if err != nil {
		return 0, err
	}
	return 1, nil
}

// packet is the last datagram; it is overwritten by the next.
func (b *burst) packet(int) []byte { return b.buf[:b.n] }
