package tally

import (
	"cmp"
	"context"
	"hash/maphash"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/origins"
)

// Sink receives the sums. Send is called by one goroutine at a time.
//
// The counts belong to the sink once Send returns nil. After an error they must be unchanged, and none of them may have
// been delivered, because they are sent once more: a sink that delivered a part returns nil and counts the rest as lost
// itself. Send must return when ctx ends.
type Sink interface {
	Send(ctx context.Context, counts []hottype.Count) error
}

// Config configures a Tally. Only Sink is required.
type Config struct {
	Sink Sink
	// Flush is the time between flushes; default 100 ms. A shorter interval shows hot keys sooner, a longer one saves
	// traffic.
	Flush time.Duration
	// Timeout bounds one call of Sink.Send; default 1 s. Counting continues meanwhile, in the same bounded memory.
	Timeout time.Duration
	// MaxKeys bounds the pairs of key and second that wait in the memory of a Tally for the next flush; default 65536.
	// A key that several cores add to may take a place for each core, up to 8. Beyond MaxKeys new pairs are dropped
	// until the next flush.
	MaxKeys int
	// MaxBytes bounds the bytes of those keys; default 16 MiB. During a flood the memory is about 3 x MaxBytes + 250
	// bytes x MaxKeys.
	MaxBytes int
	// TrackClients is the number of keys, the heaviest of the last seconds, whose requests are recorded by client;
	// default 1024, and below 0 for no key. Their counts carry a client sketch. It takes at most about 1.2 KB for each
	// of them and core (up to 8 cores), and twice that while one second passes into the next.
	TrackClients int
	// Log receives outages of the sink; default slog.Default().
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Flush = cmp.Or(max(c.Flush, 0), 100*time.Millisecond)
	c.Timeout = cmp.Or(max(c.Timeout, 0), time.Second)
	c.MaxKeys = cmp.Or(max(c.MaxKeys, 0), 65536)
	if c.MaxBytes <= 0 || c.MaxBytes > 1<<30 {
		c.MaxBytes = 16 << 20
	}
	c.TrackClients = min(max(cmp.Or(c.TrackClients, 1024), 0), maxTracked)
	c.Log = cmp.Or(c.Log, slog.Default())
	return c
}

// openedShare is the divisor of MaxKeys that yields the number of pairs that one network may open, in a flush and on a
// core, beyond the pairs that all others open.
const openedShare = 32

// Tally sums requests by key and second. Make one with New. Run is called by one goroutine, all other methods by any.
type Tally struct {
	cfg        Config
	seed       maphash.Seed // of this process, so that no client can aim at one shard
	coreShards []coreShards
	lastUsed   sync.Pool // of *coreShards: the ones this core used last
	budget     budget
	flushing   chan struct{} // holds one token: its owner flushes
	out        pendingBatch  // guarded by flushing
	scores     keyScores     // guarded by flushing

	tracked atomic.Pointer[trackedKeys] // keys whose clients are recorded, by their scores

	flushed, droppedSink, sinkErrors atomic.Uint64
	pending                          atomic.Int64
}

// New builds a Tally. It panics without a sink, because that is a mistake in the program, not in its input.
func New(cfg Config) *Tally {
	if cfg.Sink == nil {
		panic("tally: New without a Sink")
	}
	cfg = cfg.withDefaults()
	t := &Tally{
		cfg:        cfg,
		seed:       maphash.MakeSeed(),
		coreShards: newCoreShards(min(runtime.GOMAXPROCS(0), maxCoreShards)),
		flushing:   make(chan struct{}, 1),
		scores:     newKeyScores(cfg.TrackClients, cfg.Flush),
	}
	t.budget = budget{maxKeys: int64(cfg.MaxKeys), maxBytes: int64(cfg.MaxBytes),
		maxSketches: int64(4 * cfg.TrackClients * len(t.coreShards)),
		maxOpened:   int64(max(cfg.MaxKeys/openedShare/shardsPerCore, 1)), first: make(chan struct{}, 1)}
	t.tracked.Store(new(trackedKeys))
	var next atomic.Uint32
	t.lastUsed.New = func() any { return &t.coreShards[int(next.Add(1))%len(t.coreShards)] }
	t.flushing <- struct{}{}
	return t
}

// Add counts n requests for key in a unix second. It copies the key, never blocks on I/O and does not allocate while
// the tables have room. n below 1 adds no requests. BenchmarkAdd: 27 ns for a known key; two cores do twice as much as
// one, both on one key and on many.
func (t *Tally) Add(key []byte, second, n int64) {
	t.add(key, second, n, &attribution{requests: n})
}

// AddFrom adds requests of one client, which is recorded if the key is among the heaviest (see Config.TrackClients). It
// may be the unknown client.
func (t *Tally) AddFrom(key []byte, second, n int64, client hottype.Client) {
	t.add(key, second, n, &attribution{client: client, requests: n,
		origin: hottype.Origin{Tag: origins.Network(&client), N: n}})
}

// AddCost adds the cost of requests of one client, in whole units of their rule. The rest of a cost of which a part was
// added before has no requests.
func (t *Tally) AddCost(key []byte, second, cost, requests int64, client hottype.Client) {
	t.add(key, second, cost, &attribution{client: client, requests: requests,
		origin: hottype.Origin{Tag: origins.Network(&client), N: cost}})
}

// AddCount adds a count that another process has summed. Its client sketch, if it has one, is merged; no part of c is
// kept.
func (t *Tally) AddCount(c hottype.Count) {
	var buf [256]byte
	t.add(append(buf[:0], c.Key...), c.Second, c.N, &attribution{sketch: c.Clients, origin: c.Origin, requests: c.N})
}

func (t *Tally) add(key []byte, second, n int64, from *attribution) {
	if n <= 0 {
		return
	}
	h := maphash.Bytes(t.seed, key)
	l := t.lastUsed.Get().(*coreShards)
	s := l.shardOf(h)
	if !s.mu.TryLock() {
		// Two cores share these shards by accident: one of them moves on.
		l = l.next
		s = l.shardOf(h)
		s.mu.Lock()
	}
	at := s.cur.add(&t.budget, h, key, second, n, from)
	if at != nil {
		s.added += uint64(n)
		t.addClient(s, at, n, from)
	}
	s.mu.Unlock()
	t.lastUsed.Put(l)
	if at == nil {
		t.addWhenFull(l, pair{h, key, second}, n, from)
	}
}

// pair is a key, its hash, and a second.
type pair struct {
	hash   uint64
	key    []byte
	second int64
}

// addWhenFull adds a pair for which there is no room: the pair counts if another core's shards have it, and is dropped
// otherwise.
func (t *Tally) addWhenFull(full *coreShards, p pair, n int64, from *attribution) {
	for l := full.next; l != full; l = l.next {
		s := l.shardOf(p.hash)
		s.mu.Lock()
		at := s.cur.addKnown(p.hash, p.key, p.second, n, from.requests)
		if at != nil {
			s.added += uint64(n)
			t.addClient(s, at, n, from)
		}
		s.mu.Unlock()
		if at != nil {
			return
		}
	}
	s := full.shardOf(p.hash)
	s.mu.Lock()
	s.added += uint64(n)
	s.dropped += uint64(n)
	s.mu.Unlock()
}
