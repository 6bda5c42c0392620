package rediscontrol

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/conf"
	"github.com/hotparam/pipeline/internal/counting/arrival"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
)

// PublisherConfig says who publishes. Only ID is needed.
type PublisherConfig struct {
	// ID is 1 to 128 printable bytes, no spaces, the same when the process is started again. A bad one is
	// an error of Publish.
	ID string
	// Lease is how long the id stays with a process that does not publish, at most a minute; default 2 s.
	// Shorter than the Hold of the keys, or they expire before a standby renews them.
	Lease time.Duration
	// Keep is how long a set stays in Redis beyond the Until of its keys, for limiters that start while no
	// aggregator publishes; at most a day, default [hotset.DefaultNoInputTTL], a negative one not at all.
	Keep time.Duration
	// Window, when set, is how long a process that takes the id has to count before it knows that a key of the rule
	// is cold: its window at least. It keeps the rule's keys until then, at most for Keep.
	Window func(rule string) time.Duration
	// Since is since when this process has counted without a gap; the zero time while it gets no counts.
	// Default: since it was built.
	Since func() time.Time
	// Received, when set, returns what this process received of each sender by StatsD, by flow, and whether it is all
	// that senders send to it. It is published once a second.
	Received func() (flows map[string]arrival.Flow, complete bool)
	// Judged, when set, returns the partitions of which only this process counts the keys, and has judged them for a
	// whole window. Readers end what a silent publisher said of such keys.
	Judged func() report.Partitions
	Hold   time.Duration // for how long the found keys are renewed; default 5 s
}

// Publisher publishes the hot sets of one aggregator. It is known by an id that
// stays the same when the process is started again, so that the new process
// replaces the set of the old one.
//
// One process owns the id, as long as it publishes more often than its lease is
// long. Publish of any other with the same id gives a [StandbyError] until the
// owner has fallen silent or went (see Release): then the next call takes the
// id, under an epoch above all earlier ones, and who had it before is rejected.
// So an aggregator that was frozen and wakes up cannot bring old keys back.
// Calls of one process are numbered: one that Redis gets late does not undo a
// later one.
//
// Small sets are written whole every time. Of a large one only what changed is
// written, in constant time for Redis, and now and then the whole.
//
// Calls are made one after the other; any goroutine may make them.
type Publisher struct {
	feed    *Feed
	cfg     PublisherConfig
	token   string // tells this process from others with the same id
	version atomic.Uint64

	mu        sync.Mutex // held over the round trip: sets must arrive in order
	epoch     int64      // while this process owns the id, else 0
	known     int64      // highest epoch heard of
	seq       int64
	inherited []hottype.HotKey // of the owner before, each Until when it is given up at the latest
	encoder   hotset.DeltaEncoder
	log       logSize // of what is in Redis
	buf       []byte
	received  time.Time // when Received was last published
}

// Publisher gives the publisher of an id. One process makes one for each id.
func (f *Feed) Publisher(id string) *Publisher { return f.NewPublisher(PublisherConfig{ID: id}) }

// NewPublisher gives a publisher. One process makes one for each id.
func (f *Feed) NewPublisher(cfg PublisherConfig) *Publisher {
	cfg.Lease = min(cmp.Or(max(cfg.Lease, 0), defaultLease), maxLease)
	cfg.Keep = max(cmp.Or(cfg.Keep, hotset.DefaultNoInputTTL), 0)
	cfg.Hold = cmp.Or(max(cfg.Hold, 0), defaultHold)
	if cfg.Since == nil {
		started := f.now()
		cfg.Since = func() time.Time { return started }
	}
	return &Publisher{feed: f, cfg: cfg, token: rand.Text()}
}

// Version is the version of the last set that Redis took, 0 before the first.
func (p *Publisher) Version() uint64 { return p.version.Load() }

// Publish replaces this publisher's hot set; Redis gives the version, the one
// in set is not read. It is one round trip (the first call two or three, and so
// are those that find Redis without what it had), also for an empty set, which
// says that nothing is hot any more. To be called about once a second even
// without changes: that is what brings the keys back after Redis lost them.
//
// After an error that is not ErrFenced the set may or may not have been stored;
// the next call settles it.
func (p *Publisher) Publish(ctx context.Context, set report.HotSet) error {
	if !conf.ValidID(p.cfg.ID) {
		return fmt.Errorf("rediscontrol: publisher id %q: want 1 to 128 printable bytes, no spaces", p.cfg.ID)
	}
	if set.At.IsZero() {
		set.At = p.feed.now()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.publish(ctx, set)
	if err != nil && !errors.Is(err, ErrFenced) {
		p.log = logSize{} // what is there is unknown: the next one is whole
		p.feed.counters.add(func(s *Stats) { s.PublishErrors++ })
		return fmt.Errorf("rediscontrol: publish %d hot keys as %q: %w", len(set.Keys), p.cfg.ID, err)
	}
	return err
}

// publish tries again where Redis needs the whole set or has lost all.
func (p *Publisher) publish(ctx context.Context, set report.HotSet) error {
	for range 3 {
		if err := p.claimIfNeeded(ctx); err != nil {
			return err
		}
		a, err := p.send(ctx, p.addInherited(set))
		if err != nil {
			return err
		}
		switch a.code {
		case published:
			return nil
		case gap:
			p.log = logSize{}
		case late:
			p.feed.counters.add(func(s *Stats) { s.Fenced++ })
			return fmt.Errorf("%w: publisher %q: a later set of this process stands already", ErrFenced, p.cfg.ID)
		case fenced:
			p.lost(a.epoch)
			if a.epoch != 0 { // the set is from before: what comes next is not
				p.feed.counters.add(func(s *Stats) { s.Fenced++ })
				return &StandbyError{ID: p.cfg.ID, Epoch: a.epoch}
			}
		default:
			return fmt.Errorf("script answered code %d", a.code)
		}
	}
	return errors.New("the server loses its data again and again")
}

// lost records that the id belongs to the process with an epoch, or to none.
func (p *Publisher) lost(epoch int64) {
	p.known = max(p.known, p.epoch, epoch)
	p.epoch = 0
	p.log = logSize{}
	p.feed.counters.add(func(s *Stats) { s.Publishing = false })
}

// setLife is Keep beyond the last key, by the publisher's clock alone: that of Redis may differ.
func (p *Publisher) setLife(set report.HotSet) time.Duration {
	life := setLifeMin
	for i := range set.Keys {
		life = max(life, set.Keys[i].Until.Sub(set.At))
	}
	return min(life+p.cfg.Keep, setLifeMax)
}
