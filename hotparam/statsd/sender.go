package statsd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cactus/go-statsd-client/v5/statsd"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/canon"
)

// SenderConfig configures a Sender. Address and Names are needed.
type SenderConfig struct {
	// Address of the server: "host:port" (UDP) or "unix:/path" (datagrams).
	Address string
	// Names are how keys are written; the server's side must have the same.
	Names canon.Names
	// MTU bounds a datagram in bytes; default 1432, which fits an Ethernet
	// frame. A single line that is longer goes alone.
	MTU int
	// Timeout bounds one Send, resolving included; default 500 ms.
	Timeout time.Duration
	// Resolve is how long a resolved host name is believed; default 30 s.
	Resolve time.Duration
	// Resolver for host names; nil means net.DefaultResolver.
	Resolver *net.Resolver
	// Log hears of outages, once for each; default slog.Default().
	Log *slog.Logger
}

// Sender sends counts to a StatsD server. It implements the sink of package
// tally and may be used by many goroutines, one at a time gets through.
type Sender struct {
	cfg SenderConfig

	mu     sync.Mutex // guards the rest; held for at most Timeout
	link   *link
	out    *packer
	client statsd.StatSender // writes into out
	names  []byte            // scratch
	ends   []int             // scratch
	down   bool              // the outage has been logged

	sent, dropped, invalid atomic.Uint64
}

// NewSender builds a Sender. It looks at no network: a server that is away, or
// a name that does not resolve yet, is an error of Send.
func NewSender(cfg SenderConfig) (*Sender, error) {
	addr, err := parseAddress(cfg.Address)
	if err != nil {
		return nil, err
	}
	if err := cfg.Names.Validate(); err != nil {
		return nil, fmt.Errorf("statsd: %w", err)
	}
	if cfg.MTU <= 0 {
		cfg.MTU = 1432
	}
	cfg.MTU = min(cfg.MTU, maxDatagram)
	if cfg.Timeout <= 0 {
		cfg.Timeout = 500 * time.Millisecond
	}
	if cfg.Resolve <= 0 {
		cfg.Resolve = 30 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	s := &Sender{cfg: cfg, link: newLink(addr, cfg)}
	s.out = &packer{link: s.link, mtu: cfg.MTU}
	s.client, err = statsd.NewClientWithSender(s.out, "", 0)
	if err != nil {
		return nil, fmt.Errorf("statsd: %w", err)
	}
	return s, nil
}

// Send writes one counter line for each count and returns when all are with
// the kernel, ctx ended or the Timeout passed. An error means that nothing
// was sent; a part that was lost is counted in Stats. That a datagram arrived
// is nowhere promised.
func (s *Sender) Send(ctx context.Context, counts []hotparam.Count) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()

	if err := s.link.open(ctx); err != nil {
		return s.report(err)
	}
	refused := s.link.refused.Load()
	s.out.begin(ctx)
	for chunk := range slices.Chunk(counts, 256) {
		s.write(chunk)
	}
	s.out.flush()
	s.sent.Add(s.out.sent)
	if s.out.sent == 0 && s.out.failed != nil {
		return s.report(s.out.failed)
	}
	s.dropped.Add(s.out.lost)
	err := s.out.failed
	if err == nil && s.link.refused.Load() > refused {
		err = errNobody
	}
	_ = s.report(err) // a part was sent, so the caller must not repeat it
	return nil
}

// write gives counts to the StatsD client. Their names become one string, so
// that a chunk costs one allocation and not one for each name.
func (s *Sender) write(counts []hotparam.Count) {
	s.names, s.ends = s.names[:0], s.ends[:0]
	for i := range counts {
		s.names = s.cfg.Names.Append(s.names, counts[i].Key)
		s.ends = append(s.ends, len(s.names))
	}
	names, start := string(s.names), 0
	for i, end := range s.ends {
		name, n := names[start:end], counts[i].N
		start = end
		if n <= 0 || !isSendable(name) {
			s.invalid.Add(1)
			continue
		}
		// Our own sender is underneath, which keeps its errors to itself.
		_ = s.client.Inc(name, n, 1)
		s.out.note(uint64(n))
	}
}

// isSendable reports whether a name can stand on the wire. Names of package
// canon always can unless they are too long; but a name with a line break
// would be a second metric, so no other bytes get out.
func isSendable(name string) bool {
	if len(name)+32 > maxDatagram {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c <= ' ', c >= 0x7f, c == ':', c == '|', c == '@':
			return false
		}
	}
	return true
}

// report logs the first error of an outage, and its end.
func (s *Sender) report(err error) error {
	switch {
	case err != nil && !s.down:
		s.down = true
		s.cfg.Log.Warn("statsd: cannot send; counts are lost until it works again", "address", s.cfg.Address, "err", err)
	case err == nil && s.down:
		s.down = false
		s.cfg.Log.Info("statsd: sending again", "address", s.cfg.Address)
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("statsd: send to %s: %w", s.cfg.Address, err)
}

// Close frees the socket. A Send afterwards opens a new one.
func (s *Sender) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link.close()
}

// SenderStats is what a Sender did. All fields only grow.
type SenderStats struct {
	// Sent and Dropped count requests: the sums of the counts that the kernel
	// took, and of those lost in a batch that was partly sent.
	Sent    uint64
	Dropped uint64
	// Invalid are counts that cannot be written: n below 1, or a name that is
	// too long or not canonical.
	Invalid   uint64
	Lines     uint64
	Datagrams uint64
	// Errors are failed resolutions, sockets and writes.
	Errors uint64
	// Refused are the datagrams that the other host said nobody listens for.
	Refused uint64
}

// Stats reads the counters.
func (s *Sender) Stats() SenderStats {
	return SenderStats{
		Sent:      s.sent.Load(),
		Dropped:   s.dropped.Load(),
		Invalid:   s.invalid.Load(),
		Lines:     s.out.lines.Load(),
		Datagrams: s.out.datagrams.Load(),
		Errors:    s.link.errors.Load(),
		Refused:   s.link.refused.Load(),
	}
}

// errNobody is what the kernel tells about datagrams that it took.
var errNobody = errors.New("nobody listens there, what was sent before is lost")

// isTimeout reports that there is no time left, so trying again is pointless.
func isTimeout(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, context.Canceled)
}
