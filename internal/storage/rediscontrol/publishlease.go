package rediscontrol

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
)

const (
	// defaultLease is the time of two publications without changes: see aggregate.
	defaultLease = 2 * time.Second
	// maxLease is also in lua/claim_hot.lua: a lease that seems longer was written by another clock.
	maxLease = time.Minute
	// defaultHold is the default of package detect.
	defaultHold = 5 * time.Second
)

// ErrFenced is the error of a set that was rejected, because another process has the id or because a later set of this
// process is stored already.
var ErrFenced = errors.New("rediscontrol: fenced")

// StandbyError reports that another process publishes under the id. It is an ErrFenced.
type StandbyError struct {
	ID    string
	Epoch int64 // of the owner
	// Left is how long the owner's lease lasts without renewal, and thus when to ask again.
	Left time.Duration
}

func (e *StandbyError) Error() string {
	return fmt.Sprintf("rediscontrol: fenced: publisher %q belongs to the process with epoch %d for at least %v", e.ID,
		e.Epoch, e.Left)
}

// Is makes every StandbyError an ErrFenced.
func (e *StandbyError) Is(target error) bool { return target == ErrFenced }

// Standby returns how long to wait before asking again.
func (e *StandbyError) Standby() time.Duration { return e.Left }

// Release returns the id at the end of a process, so that a successor need not wait for the lease. The set stays until
// it expires. Without the id Release does nothing.
func (p *Publisher) Release(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoch == 0 {
		return nil
	}
	p.recordLoss(p.epoch)
	if _, err := p.claim(ctx, 0); err != nil {
		return fmt.Errorf("rediscontrol: release publisher %q: %w", p.cfg.ID, err)
	}
	return nil
}

// claimIfNeeded makes sure that this process owns the id as far as it knows. It takes one round trip, and one more to
// read the keys of the last owner.
func (p *Publisher) claimIfNeeded(ctx context.Context) error {
	if p.epoch != 0 {
		return nil
	}
	reply, err := p.claim(ctx, p.cfg.Lease)
	if err != nil {
		return err
	}
	if reply[0] == 0 {
		p.known = max(p.known, reply[1])
		p.feed.counters.add(func(s *Stats) { s.Fenced++ })
		return &StandbyError{ID: p.cfg.ID, Epoch: reply[1], Left: time.Duration(reply[2]) * time.Millisecond}
	}
	if p.cfg.Window != nil {
		if err := p.readInherited(ctx); err != nil {
			return err // the id is ours; the next call claims it and reads again
		}
	}
	p.epoch, p.known = reply[1], reply[1]
	p.feed.counters.add(func(s *Stats) { s.Takeovers++; s.Publishing = true })
	return nil
}

// claim runs the script; a lease of 0 releases the id.
func (p *Publisher) claim(ctx context.Context, lease time.Duration) ([]int64, error) {
	reply, err := claimHot.Run(ctx, p.feed.rdb, []string{p.feed.keys.HotEpoch(p.cfg.ID)},
		p.token, p.known, lease.Milliseconds(), epochTTL.Milliseconds()).Int64Slice()
	if err == nil && len(reply) != 3 {
		err = fmt.Errorf("the script returned %v instead of three numbers", reply)
	}
	return reply, err
}

// readInherited keeps the last owner's keys that this process cannot judge yet. An unreadable set counts as empty.
func (p *Publisher) readInherited(ctx context.Context) error {
	var answer func() (heldSet, error)
	_, err := p.feed.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		answer = p.feed.askWhole(ctx, pipe, p.cfg.ID)
		return nil
	})
	if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") {
		return err
	}
	held, err := answer()
	if err != nil && !errors.Is(err, errGap) {
		return nil
	}
	now := p.feed.now()
	p.inherited = p.inherited[:0]
	for _, h := range held.set.Keys {
		h.Until = h.Until.Add(p.cfg.Keep)
		if h.Until.After(now) && !p.hasFullWindow(h.Rule, now) {
			p.inherited = append(p.inherited, h)
		}
	}
	return nil
}

// hasFullWindow reports whether this process has counted for a whole window of a rule.
func (p *Publisher) hasFullWindow(rule string, now time.Time) bool {
	since := p.cfg.Since()
	return !since.IsZero() && !since.Add(p.cfg.Window(rule)).After(now)
}

// addInherited adds the keys of the last owner that set does not have.
func (p *Publisher) addInherited(set report.HotSet) report.HotSet {
	p.inherited = slices.DeleteFunc(p.inherited, func(h hottype.HotKey) bool {
		return !h.Until.After(set.At) || p.hasFullWindow(h.Rule, set.At)
	})
	if len(p.inherited) == 0 {
		return set
	}
	have := make(map[hotset.ID]bool, len(set.Keys))
	for i := range set.Keys {
		have[hotset.ID{Key: set.Keys[i].Key, Rule: set.Keys[i].Rule}] = true
	}
	set.Keys = slices.Clone(set.Keys)
	for _, h := range p.inherited {
		if !have[hotset.ID{Key: h.Key, Rule: h.Rule}] {
			h.Until = set.At.Add(p.cfg.Hold)
			set.Keys = append(set.Keys, h)
		}
	}
	hotset.Sort(set.Keys)
	return set
}
