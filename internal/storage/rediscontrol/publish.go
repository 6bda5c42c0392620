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

// PublisherConfig configures a [Publisher]. Only ID is needed.
type PublisherConfig struct {
	// ID is 1 to 128 printable bytes, no spaces, the same when the process is started again. Publish returns an error
	// for another ID.
	ID string
	// Lease is how long the id stays with a process that does not publish, at most a minute; default 2 s. It must be
	// shorter than the Hold of the keys, or they expire before a standby renews them.
	Lease time.Duration
	// Keep is how long a set stays in Redis beyond the Until of its keys, for limiters that start while no aggregator
	// publishes. It is at most a day; default [hotset.DefaultNoInputTTL], and a negative Keep means 0.
	Keep time.Duration
	// Window, if set, returns how long a process that takes the id has to count before it knows that a key of the rule
	// is cold: the rule's window at least. The process keeps the rule's keys until then, at most for Keep.
	Window func(rule string) time.Duration
	// Since returns the time since which this process has counted without a gap, or the zero time while it gets no
	// counts. Default: the time at which the publisher was built.
	Since func() time.Time
	// Received, if set, returns the flows that this process received by StatsD, and whether they include every sender
	// that reaches it. They are published once a second.
	Received func() (flows map[string]arrival.Flow, complete bool)
	// Judged, if set, returns the partitions whose keys only this process counts and that it has judged for a whole
	// window. Readers then end the keys of a silent publisher in these partitions.
	Judged func() report.Partitions
	Hold   time.Duration // for how long the found keys are renewed; default 5 s
}

// Publisher publishes the hot sets of one aggregator. It is known by an id that stays the same when the process is
// started again, so that the new process replaces the set of the old one.
//
// One process owns the id, as long as it publishes more often than its lease is long. Publish of any other process with
// the same id returns a [StandbyError] until the owner falls silent or releases the id (see Release): then the next
// call takes the id, under an epoch above all earlier ones, and the earlier owner is rejected. So an aggregator that
// was frozen and wakes up cannot restore old keys. Calls of one process are numbered: one that Redis gets late does not
// undo a later one.
//
// Small sets are written whole every time. Of a large set only the changes are written, in constant time for Redis, and
// from time to time the whole.
//
// Calls are made one after the other; any goroutine may make them.
type Publisher struct {
	feed    *Feed
	cfg     PublisherConfig
	token   string // tells this process from others with the same id
	version atomic.Uint64

	mu        sync.Mutex // held over the round trip: sets must arrive in order
	epoch     int64      // while this process owns the id, else 0
	known     int64      // highest epoch known
	seq       int64
	inherited []hottype.HotKey // keys of the last owner, each with the latest time to keep it as Until
	encoder   hotset.DeltaEncoder
	log       logSize // size of the set and log in Redis
	buf       []byte
	received  time.Time // when Received was last published
}

// Publisher returns the publisher of an id. A process makes one publisher for each id.
func (f *Feed) Publisher(id string) *Publisher { return f.NewPublisher(PublisherConfig{ID: id}) }

// NewPublisher returns a publisher. A process makes one publisher for each id.
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

// Version returns the version of the last set that Redis took, or 0 before the first.
func (p *Publisher) Version() uint64 { return p.version.Load() }

// Publish replaces this publisher's hot set. Redis chooses the version; set.Version is not read. An empty set is
// published too, and means that no key is hot any more. Call Publish about once a second even without changes, because
// that restores the keys after Redis lost them. It takes one round trip, two or three in the first call, and up to four
// in a call that finds that Redis has lost data.
//
// After an error that is not ErrFenced the set may or may not have been stored; the next call settles it.
func (p *Publisher) Publish(ctx context.Context, set report.HotSet) error {
	if !conf.ValidID(p.cfg.ID) {
		return fmt.Errorf("rediscontrol: publisher id %q must be 1 to 128 printable bytes without spaces", p.cfg.ID)
	}
	if set.At.IsZero() {
		set.At = p.feed.now()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.publish(ctx, set)
	if err != nil && !errors.Is(err, ErrFenced) {
		p.log = logSize{} // the state in Redis is unknown, so the next set is whole
		p.feed.counters.add(func(s *Stats) { s.PublishErrors++ })
		return fmt.Errorf("rediscontrol: publish %d hot keys as %q: %w", len(set.Keys), p.cfg.ID, err)
	}
	return err
}

// publish tries again if Redis needs the whole set or has lost all.
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
			p.recordLoss(a.epoch)
			// With an epoch, another process has taken the id. This process may have been frozen before it made this
			// call, so that the set may be older than the set of that process, and is not sent again. The next call may
			// claim the id, because its set is judged after this process has learned of the loss. Without an epoch, no
			// process has the id, as when Redis has lost its data: it is claimed, and the set is sent again.
			if a.epoch != 0 {
				p.feed.counters.add(func(s *Stats) { s.Fenced++ })
				return &StandbyError{ID: p.cfg.ID, Epoch: a.epoch}
			}
		default:
			return fmt.Errorf("script answered code %d", a.code)
		}
	}
	return errors.New("the server loses its data again and again")
}

// recordLoss records that the id belongs to the process with an epoch, or to no process if it is 0.
func (p *Publisher) recordLoss(epoch int64) {
	p.known = max(p.known, p.epoch, epoch)
	p.epoch = 0
	p.log = logSize{}
	p.feed.counters.add(func(s *Stats) { s.Publishing = false })
}

// setLife returns the life of a set: Keep beyond the last key, by the publisher's clock alone, because the clock of
// Redis may differ.
func (p *Publisher) setLife(set report.HotSet) time.Duration {
	life := setLifeMin
	for i := range set.Keys {
		life = max(life, set.Keys[i].Until.Sub(set.At))
	}
	return min(life+p.cfg.Keep, setLifeMax)
}
