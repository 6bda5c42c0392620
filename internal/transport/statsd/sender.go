package statsd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/cactus/go-statsd-client/v5/statsd"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/counting/arrival"
	"github.com/hotparam/pipeline/internal/counting/batchqueue"
	"github.com/hotparam/pipeline/internal/wait"
)

// SenderConfig configures a Sender. Servers and Names are required.
type SenderConfig struct {
	// Servers share the counts, each "host:port" (UDP) or "unix:/path" (datagrams). The server of a key is chosen by
	// these texts as written, so that all senders need the same list, in any order.
	Servers []string
	// Standby servers receive a copy of all counts. Servers and Standby are aggregators of which one publishes: counts
	// that one does not receive may have gone to the other.
	Standby []string
	Names   canon.Names // how keys are written, as on the server's side
	// MTU bounds a datagram in bytes; default 1432, an Ethernet frame. A longer line is sent alone.
	MTU int
	// Interval is the time between two calls of Send; default 100 ms. A large batch is spread over most of it, at most
	// a second, so that it does not overrun the server's receive buffer.
	Interval time.Duration
	// Timeout is how long a batch may take beyond Interval; default 500 ms. The rest of the batch is lost.
	Timeout time.Duration
	// MaxQueued bounds the counts that wait for one server, default 131072 and 64 MiB. The oldest are dropped, and so
	// are counts that waited for a second, because lines have no time. One batch may be larger.
	MaxQueued int
	NoSets    bool // no lines that name clients, for servers without StatsD sets
	// Relay returns the flows that this program receives of other senders as a server. They are sent with each
	// heartbeat. If Relay is nil, none are sent.
	Relay    func() map[string]arrival.Flow
	Resolve  time.Duration // how long a resolved host name is used; default 30 s
	Resolver *net.Resolver // default net.DefaultResolver
	// Dial opens a connected datagram socket; by default a net.Dialer with Resolver does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Standstill reports that this process stood still. Counts of earlier seconds are then dropped for a while, unless
	// their lines carry the second, because they would count when they arrive. If Standstill is nil, no counts are
	// dropped.
	Standstill *wait.Standstill
	Log        *slog.Logger // receives each outage once; default slog.Default()
}

func (c SenderConfig) withDefaults() SenderConfig {
	c.MTU = min(cmp.Or(max(c.MTU, 0), 1432), maxDatagram)
	c.Interval = min(cmp.Or(max(c.Interval, 0), 100*time.Millisecond), maxAge)
	c.Timeout = cmp.Or(max(c.Timeout, 0), 500*time.Millisecond)
	c.MaxQueued = cmp.Or(max(c.MaxQueued, 0), 1<<17)
	c.Resolve = cmp.Or(max(c.Resolve, 0), 30*time.Second)
	c.Log = cmp.Or(c.Log, slog.Default())
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Resolver: c.Resolver}).DialContext
	}
	return c
}

// Sender sends counts to StatsD servers, as a sink of package tally. It is safe for concurrent use, but Run must be
// called by one goroutine.
type Sender struct {
	names      canon.Names
	servers    []*serverQueue // sorted by server
	rendezvous rendezvous
	standby    *Sender // nil without standby servers

	mu     sync.Mutex // guards the fields below
	text   []byte     // scratch
	closed bool
}

// NewSender builds a Sender. It does not use the network: an absent server costs counts until it is there.
func NewSender(cfg SenderConfig) (*Sender, error) {
	if err := cfg.Names.Validate(); err != nil {
		return nil, fmt.Errorf("statsd: %w", err)
	}
	if len(cfg.Servers) == 0 {
		return nil, errors.New("statsd: no server to send to")
	}
	cfg = cfg.withDefaults()
	servers := slices.Sorted(slices.Values(cfg.Servers))
	s := &Sender{names: cfg.Names}
	var err error
	if len(cfg.Standby) > 0 {
		standby := cfg
		standby.Servers, standby.Standby = cfg.Standby, nil
		if s.standby, err = NewSender(standby); err != nil {
			return nil, fmt.Errorf("%w (standby)", err)
		}
	}
	if s.rendezvous, err = newRendezvous(servers); err != nil {
		return nil, err
	}
	for _, server := range servers {
		q, err := newServerQueue(server, cfg)
		if err != nil {
			return nil, err
		}
		s.servers = append(s.servers, q)
	}
	return s, nil
}

func newServerQueue(server string, cfg SenderConfig) (*serverQueue, error) {
	addr, err := parseAddress(server)
	if err != nil {
		return nil, err
	}
	q := &serverQueue{
		server: server, names: cfg.Names, interval: cfg.Interval, timeout: cfg.Timeout, sets: !cfg.NoSets,
		relay: cfg.Relay, standstill: cfg.Standstill, health: health{server: server, log: cfg.Log},
		queue: batchqueue.New(cfg.MaxQueued, maxQueuedBytes), link: newLink(addr, cfg),
	}
	q.out = &packer{link: q.link, mtu: cfg.MTU}
	q.client, err = statsd.NewClientWithSender(q.out, "", 0)
	if err != nil {
		return nil, fmt.Errorf("statsd: %w", err)
	}
	return q, nil
}

var errStopped = errors.New("statsd: the sender has stopped")

// Send queues counts and returns at once; afterwards the slice belongs to the Sender. Counts that a server does not
// accept in time are dropped and counted in Stats. An error means that Run has ended and no counts were taken.
func (s *Sender) Send(ctx context.Context, counts []hottype.Count) error {
	if len(counts) == 0 {
		return nil
	}
	if s.standby != nil {
		_ = s.standby.Send(ctx, slices.Clone(counts)) // the standby ends with this sender
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errStopped
	}
	now := time.Now()
	if len(s.servers) == 1 {
		s.servers[0].put(counts, now)
		return nil
	}
	shares := make([][]hottype.Count, len(s.servers))
	for i := range counts {
		s.text = s.names.Append(s.text[:0], counts[i].Key)
		to := s.rendezvous.serverOf(s.text)
		shares[to] = append(shares[to], counts[i])
	}
	for i, share := range shares {
		if len(share) > 0 {
			s.servers[i].put(share, now)
		}
	}
	return nil
}

// Run sends the queued counts until ctx ends, then the rest at once, and returns nil within twice Timeout and an
// Interval. Stop the callers of Send before.
func (s *Sender) Run(ctx context.Context) error {
	var lanes sync.WaitGroup
	if s.standby != nil {
		lanes.Go(func() { _ = s.standby.Run(ctx) })
	}
	for _, q := range s.servers {
		lanes.Go(func() { q.run(ctx) })
	}
	<-ctx.Done()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	lanes.Wait()
	return nil
}

// ServerStats holds the results of sending to one server. All fields but Queued, Down and Loss only grow. Once Run has
// ended, the requests that Send took are Sent, Dropped or Invalid.
type ServerStats struct {
	Sent      uint64 `metric:"_sent_total" help:"Requests whose counts were handed to the kernel for StatsD; _loss_ratio is the share that does not arrive."`
	Dropped   uint64 `metric:"_dropped_total" help:"Requests whose counts were dropped because StatsD did not take them in time."`
	Invalid   uint64 `metric:"_invalid_total" help:"Requests whose counts cannot be sent, because the metric's name would be too long."`
	Lines     uint64 `metric:"_lines_total" help:"Lines handed to the kernel for StatsD."`
	SetLines  uint64 `metric:"_set_lines_total" help:"Lines written with clients of a key, including lost ones."`
	Datagrams uint64 `metric:"_datagrams_total" help:"Datagrams handed to the kernel for StatsD."`
	Errors    uint64 `metric:"_errors_total" help:"Failed name look-ups, sockets and writes."`
	Refused   uint64 `metric:"_refused_total" help:"Datagrams that the server's host refused: nothing listens there."`
	Queued    int64  `metric:"_queued" help:"Counts that wait to be sent."`
	Down      bool   `metric:"_down" help:"1 while counts cannot be sent, or do not arrive."`
	// Loss is the greatest loss of the servers for which it is known, or -1 if it is unknown for all.
	Loss float64 `metric:"_loss_ratio" help:"Share of the lines of the last 3 s that did not arrive, as the aggregators report; -1 while unknown."`
}

// SenderStats holds the sums over all servers, and the statistics of each by its address, without standby servers.
type SenderStats struct {
	ServerStats `prefix:"hotparam_statsd"`
	Servers     map[string]ServerStats `label:"server" prefix:"hotparam_statsd_servers"`
}

func (s *Sender) Stats() SenderStats {
	all := SenderStats{ServerStats: ServerStats{Loss: -1}, Servers: make(map[string]ServerStats, len(s.servers))}
	for _, q := range s.servers {
		one := q.serverStats()
		all.Servers[q.server] = one
		addCounters(&all.ServerStats, one)
		all.Down = all.Down || one.Down
		all.Loss = max(all.Loss, one.Loss)
	}
	return all
}
