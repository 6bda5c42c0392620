package program

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/operator/metrics"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/filestore"
)

// writeBackEvery is how often a process that could not give a store its rules back tries again.
const writeBackEvery = 10 * time.Second

// errNoRules says that nothing was pushed, or that the store is not the one that was meant.
var errNoRules = errors.New("the store holds no rules")

// RuleStore is a central store of rules. Package rediscontrol has one.
type RuleStore interface {
	// Read gives what the store holds; nil: nothing.
	Read(ctx context.Context) (*rules.Stored, error)
	// Write puts next in the place of the version before, 0 for none; rules.ErrConflict where
	// the store holds another one.
	Write(ctx context.Context, before int64, next *rules.Stored) error
	// History gives the last changes, newest first.
	History(ctx context.Context) ([]rules.Revision, error)
	// Follow calls fn after every look at the store, some times a second, until ctx ends.
	Follow(ctx context.Context, fn func(*rules.Stored, error)) error
}

// ruleFollower follows a central store of rules and hands what this process is to run to the reloader. The
// methods may be called by any goroutine.
type ruleFollower struct {
	name  string // as --rules has it
	store RuleStore
	close func() error
	copy  *filestore.RulesCopy // one goroutine at a time: the start, then that of the reloader
	log   *slog.Logger
	// updates holds what is to be run next, the latest only.
	updates chan *rules.Stored

	lastWriteBack time.Time // the last try; the follower's goroutine only

	mu            sync.Mutex    // guards what follows
	seen          *rules.Stored // what the store held last, in good order; nil: nothing yet
	wanted        rules.Revision
	running       rules.Revision // version 0: those of the file
	applied       bool           // since the start, this process has run what the store held
	rejected      rules.Revision // version 0: none
	rejectErr     error          // it is rejected
	readErr       error          // of the last look
	storeLostData bool           // the store has lost what was seen
	copyErr       error
}

func (c *ruleFollower) Run(ctx context.Context) error {
	err := c.store.Follow(ctx, func(s *rules.Stored, err error) { c.onRead(ctx, s, err, time.Now()) })
	return errors.Join(err, c.close())
}

func (c *ruleFollower) onRead(ctx context.Context, s *rules.Stored, err error, now time.Time) {
	if lost := c.update(s, err); lost != nil && now.Sub(c.lastWriteBack) >= writeBackEvery {
		c.lastWriteBack = now
		c.writeBack(ctx, s, lost)
	}
}

// update hands on what is to be run, and gives what the store has lost, nil for nothing.
func (c *ruleFollower) update(s *rules.Stored, err error) (lost *rules.Stored) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readErr, c.storeLostData = err, err == nil && c.seen != nil && (s == nil || s.Version < c.seen.Version)
	switch {
	case err != nil:
		return nil
	case c.storeLostData:
		return c.seen
	case s == nil:
		c.readErr = errNoRules
		return nil
	}
	c.seen = s
	if s.Version == c.wanted.Version && s.Hash == c.wanted.Hash {
		return nil
	}
	c.wanted = s.Revision
	select {
	case <-c.updates: // it was not run yet, and is no longer wanted
	default:
	}
	c.updates <- s // only this goroutine sends
	return nil
}

// writeBack gives the store back what it lost, if this process may. Of several that do so one writes.
func (c *ruleFollower) writeBack(ctx context.Context, s, lost *rules.Stored) {
	before := int64(0)
	if s != nil {
		before = s.Version
	}
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := c.store.Write(short, before, lost)
	if errors.Is(err, rules.ErrConflict) {
		return
	}
	log := c.log.With("store", c.name, "version", lost.Version, "stored", before)
	if err != nil {
		log.Warn("the store has lost the last rules; those in force stay, and cannot be written back", "err", err)
		return
	}
	log.Warn("the store had lost the last rules; they were written back as they are in force here")
}

// next are the revisions to run; none come to a program without a store.
func (c *ruleFollower) next() <-chan *rules.Stored {
	if c == nil {
		return nil
	}
	return c.updates
}

func (c *ruleFollower) recordApplied(s *rules.Stored, err error) {
	var copyErr error
	if err == nil {
		copyErr = c.save(s)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.rejected, c.rejectErr = s.Revision, err
		return
	}
	c.applied, c.running, c.rejected, c.rejectErr, c.copyErr = true, s.Revision, rules.Revision{}, nil, copyErr
}

// save writes the copy. A failure to write it must not keep the rules from being applied.
func (c *ruleFollower) save(s *rules.Stored) error {
	err := c.copy.Save(s)
	if err != nil {
		c.log.Warn("no copy of the rules is kept: a start while the store is away would have none", "copy",
			c.copy.Path(), "err", err)
	}
	return err
}

func (c *ruleFollower) isRejected() bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rejected.Version != 0
}

// check is that of /readyz. It fails where a start has not got the rules that the others run: the store's are rejected,
// or no copy has them. A program that has run rules of the store stays ready when it rejects the next ones, or one bad
// push would take every limiter out of service at once; and the file's rules are meant until the first push.
func (c *ruleFollower) check(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.applied:
		return nil
	case c.rejected.Version != 0:
		return fmt.Errorf("version %d of %s is rejected: %w", c.rejected.Version, c.name, c.rejectErr)
	case c.running.Version == 0 && c.readErr != nil && !errors.Is(c.readErr, errNoRules):
		return fmt.Errorf("the rules of %s are not known, and there is no copy: %w", c.name, c.readErr)
	}
	return nil
}

// versions returns the versions of the rules that run and of those that were rejected last; 0 for none, as from a nil
// follower.
func (c *ruleFollower) versions() (running, rejected int64) {
	if c == nil {
		return 0, 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running.Version, c.rejected.Version
}

func (c *ruleFollower) status() admin.Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := admin.Status{Name: "rules", Value: fmt.Sprintf("version %d of %s", c.running.Version, c.name)}
	if c.running.Version == 0 {
		st.Value = "those of the file, not of " + c.name
	}
	switch {
	case c.rejected.Version != 0:
		st.Value += fmt.Sprintf("; version %d is rejected: %v", c.rejected.Version, c.rejectErr)
	case c.storeLostData:
		st.Value += "; the store has lost it"
	case c.readErr != nil:
		st.Value += fmt.Sprintf("; %v", c.readErr)
	case c.copyErr != nil:
		st.Value += fmt.Sprintf("; no copy is kept: %v", c.copyErr)
	default:
		st.OK = c.running.Version != 0
	}
	return st
}

func (c *ruleFollower) stats() metrics.RulesStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := metrics.RulesStats{
		Version: c.running.Version, Rejected: c.rejected.Version != 0, Behind: c.storeLostData,
		StoreFailing: c.readErr != nil, CopyFailing: c.copyErr != nil,
	}
	if c.seen != nil {
		st.Stored = c.seen.Version
	}
	return st
}
