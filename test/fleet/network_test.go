package fleet

import (
	"cmp"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Link holds the properties of the link from one node to another.
type Link struct {
	Delay, Jitter time.Duration
	// Loss, Double and Late are shares. A lost segment of a stream arrives after retransmit; a late datagram arrives up
	// to latest after the others.
	Loss, Double, Late float64
}

const (
	retransmit = 200 * time.Millisecond
	latest     = 300 * time.Millisecond
)

// Network joins the nodes of a bubble. No code waits while it holds the lock, because virtual time stops while a
// goroutine waits for a mutex.
type Network struct {
	seed  uint64
	trace func(format string, args ...any) // nil: none

	mu      sync.Mutex // guards the rest
	ways    map[[2]string]*way
	dead    map[string]bool
	sockets map[string]*socket
	streams map[*stream]struct{}
	opened  uint64
	bytes   map[[2]string]uint64 // sent by streams
}

// way is one direction between two nodes.
type way struct {
	Link
	random *rand.Rand
	closed time.Time // nothing passes until then
	lost   time.Time // when a segment of a stream was lost last
	missed time.Time // when a datagram was lost last, or late
}

func newNetwork(seed uint64) *Network {
	return &Network{seed: seed, ways: map[[2]string]*way{}, dead: map[string]bool{}, sockets: map[string]*socket{},
		streams: map[*stream]struct{}{}, bytes: map[[2]string]uint64{}}
}

// way returns the link between two nodes. It requires n.mu.
func (n *Network) way(from, to string) *way {
	key := [2]string{from, to}
	w := n.ways[key]
	if w == nil {
		h := fnv.New64a()
		_, _ = io.WriteString(h, from+" "+to)
		w = &way{random: rand.New(rand.NewPCG(n.seed, h.Sum64()))}
		n.ways[key] = w
	}
	return w
}

// Set sets the properties of the link from one node to another.
func (n *Network) Set(from, to string, l Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.way(from, to).Link = l
}

// SetBoth sets the properties of both directions.
func (n *Network) SetBoth(a, b string, l Link) {
	n.Set(a, b, l)
	n.Set(b, a, l)
}

// Cut blocks the link from one node to another for a while: streams deliver late, datagrams are lost.
func (n *Network) Cut(from, to string, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := n.way(from, to)
	if until := time.Now().Add(d); until.After(w.closed) {
		w.closed = until
	}
}

// CutBoth cuts both directions.
func (n *Network) CutBoth(a, b string, d time.Duration) {
	n.Cut(a, b, d)
	n.Cut(b, a, d)
}

// Kill closes a node's sockets and connections. Later writes of the node reach no other node.
func (n *Network) Kill(node string) {
	n.mu.Lock()
	n.dead[node] = true
	delete(n.sockets, node)
	var ended []*stream
	for s := range n.streams {
		if s.from == node || s.to == node {
			ended = append(ended, s)
			delete(n.streams, s)
		}
	}
	n.mu.Unlock()
	slices.SortFunc(ended, func(a, b *stream) int { return cmp.Compare(a.id, b.id) }) // a map has no order
	for _, s := range ended {
		s.in.end(io.EOF)
		s.out.end(io.EOF)
	}
}

// SyscallConn returns the raw connection by which a pool checks an idle connection: a kernel knows that the other node
// has closed it.
func (s *stream) SyscallConn() (syscall.RawConn, error) { return rawStream{s.in}, nil }

type rawStream struct{ in *inbox }

func (r rawStream) Read(func(uintptr) bool) error {
	r.in.mu.Lock()
	defer r.in.mu.Unlock()
	return r.in.err
}

func (rawStream) Control(func(uintptr)) error    { return nil }
func (rawStream) Write(func(uintptr) bool) error { return nil }

// Revive makes a killed node reachable again.
func (n *Network) Revive(node string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.dead, node)
}

func (n *Network) isDead(node string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dead[node]
}

// at returns the time at which data that is sent now arrives.
func (w *way) at(now time.Time) time.Time {
	d := w.Delay
	if w.Jitter > 0 {
		d += time.Duration(w.random.Int64N(int64(w.Jitter)))
	}
	return now.Add(d)
}

func (n *Network) note(format string, args ...any) {
	if n.trace != nil {
		n.trace(format, args...)
	}
}

// lostSegment reports whether a stream of a node has lost a segment since a time.
func (n *Network) lostSegment(node string, since time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for between, w := range n.ways {
		if (between[0] == node || between[1] == node) && w.lost.After(since) {
			return true
		}
	}
	return false
}

// missedDatagram reports whether a datagram of a node, or of the collector, has been lost or late since a time.
func (n *Network) missedDatagram(node string, since time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for between, w := range n.ways {
		if (between[0] == node || between[0] == "collector") && w.missed.After(since) {
			return true
		}
	}
	return false
}

// streamBytes returns the number of bytes that streams have carried to and from a node.
func (n *Network) streamBytes(node string) (in, out uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for way, sum := range n.bytes {
		switch node {
		case way[1]:
			in += sum
		case way[0]:
			out += sum
		}
	}
	return in, out
}
