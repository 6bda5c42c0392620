package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam"
)

// ErrFenced says that the set was refused because another process publishes, or
// published in the meantime, under the same id. While that process lives one of
// the two must go or take another id.
var ErrFenced = errors.New("redisstore: fenced")

// Publisher publishes the hot sets of one aggregator. It is known by an id that
// stays the same when the process is started again, so that the new process
// replaces the set of the old one.
//
// Every process takes an epoch with its first publication, above all earlier
// ones of the id. From then on older processes are refused: an aggregator that
// was frozen and wakes up cannot bring old keys back. Calls of one process are
// numbered, so that one that Redis gets late does not undo a later one.
//
// Calls are made one after the other; any goroutine may make them.
type Publisher struct {
	c       *Client
	id      string
	token   string // tells this process from others with the same id
	version atomic.Uint64

	mu    sync.Mutex // held over the round trip: sets must arrive in order
	epoch int64      // 0 until Redis gave one
	seq   int64
	buf   []byte
}

// Publisher gives the publisher with an id of 1 to 128 printable bytes, no spaces. A bad
// id is an error of Publish. One process makes one for each id.
func (c *Client) Publisher(id string) *Publisher {
	return &Publisher{c: c, id: id, token: rand.Text()}
}

// Version is the version of the last set that Redis took, 0 before the first.
func (p *Publisher) Version() uint64 { return p.version.Load() }

// Publish replaces this publisher's hot set; Redis gives the version, the one
// in set is not read. It is one round trip (the first call two), also for an
// empty set, which says that nothing is hot any more. To be called about once a
// second even without changes: that is what brings the keys back after Redis
// lost them.
//
// After any error but ErrFenced the set may or may not have been stored; the
// next call settles it.
func (p *Publisher) Publish(ctx context.Context, set hotparam.HotSet) error {
	if !validID(p.id) {
		return fmt.Errorf("redisstore: publisher id %q: want 1 to 128 printable bytes, no spaces", p.id)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	text, err := appendSet(p.buf[:0], set.Keys)
	if err != nil {
		return err
	}
	p.buf = text
	body, encoding, err := pack(text)
	if err != nil {
		return err
	}
	reply, err := p.send(ctx, set, encoding, body)
	if err != nil {
		p.c.counters.publishErrors.Add(1)
		return fmt.Errorf("redisstore: publish %d hot keys as %q: %w", len(set.Keys), p.id, err)
	}
	return p.settle(reply, len(body))
}

// send runs the script.
func (p *Publisher) send(ctx context.Context, set hotparam.HotSet, encoding string, body []byte) ([]int64, error) {
	k := p.c.keys
	owner, err := p.owner(ctx)
	if err != nil {
		return nil, err
	}
	at := set.At
	if at.IsZero() {
		at = p.c.now()
	}
	p.seq++
	reply, err := p.c.scripts.publishHot.Run(ctx, p.c.rdb,
		[]string{k.hotVersion(), k.hotIndex(), k.hotSet(p.id), k.hotEpoch(p.id)},
		p.id, p.token, p.epoch, owner, p.seq, micros(at), p.version.Load(), setLife(set, at).Milliseconds(),
		encoding, body, versionLife.Milliseconds(), epochLife.Milliseconds(), k.hotNotice(),
	).Int64Slice()
	if err == nil && len(reply) != 3 {
		err = fmt.Errorf("script answered %v; want three numbers", reply)
	}
	return reply, err
}

// owner reads who owns the id, for a process that is about to take it: the
// script takes it from nobody else. Processes with an epoch need not know.
func (p *Publisher) owner(ctx context.Context) (string, error) {
	if p.epoch != 0 {
		return "", nil
	}
	owner, err := p.c.rdb.Get(ctx, p.c.keys.hotEpoch(p.id)).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return owner, err
}

// settle draws the conclusions from the script's answer {code, version, epoch}.
func (p *Publisher) settle(reply []int64, size int) error {
	switch code := reply[0]; code {
	case 1:
		p.version.Store(uint64(reply[1]))
		p.epoch = reply[2]
		p.c.counters.published.Add(1)
		p.c.counters.publishedBytes.Add(uint64(size))
		return nil
	case 0:
		p.c.counters.fenced.Add(1)
		return fmt.Errorf("%w: publisher %q was taken over by a process with epoch %d, this one has %d; stop one of them", ErrFenced, p.id, reply[2], p.epoch)
	case -1:
		p.c.counters.fenced.Add(1)
		return fmt.Errorf("%w: publisher %q: a later set of this process stands already", ErrFenced, p.id)
	case -2:
		p.c.counters.fenced.Add(1)
		return fmt.Errorf("%w: publisher %q was taken by a process with epoch %d in this moment", ErrFenced, p.id, reply[2])
	default:
		return fmt.Errorf("redisstore: publish as %q: script answered code %d", p.id, code)
	}
}

// setLife is until the last key expires, by the publisher's clock alone: the
// clock of Redis may differ.
func setLife(set hotparam.HotSet, at time.Time) time.Duration {
	life := setLifeMin
	for i := range set.Keys {
		life = max(life, set.Keys[i].Until.Sub(at))
	}
	return min(life, setLifeMax)
}

// validID keeps names of publishers and limiters such that a person can read
// them in redis-cli.
func validID(s string) bool {
	unprintable := func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) }
	return len(s) >= 1 && len(s) <= 128 && utf8.ValidString(s) && strings.IndexFunc(s, unprintable) < 0
}
