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

// writeBackEvery is the interval between two attempts to write lost rules back to a store.
const writeBackEvery = 10 * time.Second

// errNoRules reports that no rules were pushed, or that the store is not the intended one.
var errNoRules = errors.New("the store holds no rules")

// RuleStore is a central store of rules. Package rediscontrol has one.
type RuleStore interface {
	// Read returns the contents of the store, or nil if it is empty.
	Read(ctx context.Context) (*rules.Stored, error)
	// Write replaces version before by next. before is 0 if the store is empty. It returns rules.ErrConflict if the
	// store holds another version.
	Write(ctx context.Context, before int64, next *rules.Stored) error
	// History returns the last changes, newest first.
	History(ctx context.Context) ([]rules.Revision, error)
	// Follow calls fn after every read of the store, several times a second, until ctx ends.
	Follow(ctx context.Context, fn func(*rules.Stored, error)) error
}

// ruleFollower follows a central store of rules and passes the rules that this process is to run to the reloader. The
// methods may be called by any goroutine.
type ruleFollower struct {
	name  string // the value of --rules
	store RuleStore
	close func() error
	copy  *filestore.RulesCopy // for one goroutine at a time: the start, then the reloader's
	log   *slog.Logger
	// updates holds the latest revision that is to run next.
	updates chan *rules.Stored

	lastWriteBack time.Time // time of the last attempt; for the follower's goroutine only

	mu            sync.Mutex    // guards the fields below
	seen          *rules.Stored // the last valid contents of the store; nil before the first read
	wanted        rules.Revision
	running       rules.Revision // version 0: the rules of the file
	applied       bool           // this process has run rules of the store since its start
	rejected      rules.Revision // version 0: no rules are rejected
	rejectErr     error          // reason of the rejection
	readErr       error          // of the last read
	storeLostData bool           // the store has lost the rules in seen
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

// update passes on the rules that are to run, and returns the rules that the store has lost, or nil.
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

// writeBack writes the rules that the store has lost back to it, if this process may write. If several processes do so,
// only one of them writes.
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

// next returns the channel of the revisions to run. A program without a store has a nil follower and receives none.
func (c *ruleFollower) next() <-chan *rules.Stored {
	if c == nil {
		return nil
	}
	return c.updates
}

func (c *ruleFollower) recordApplied(s *rules.Stored, err error) {
	var copyErr error
	if err == nil {
		copyErr = c.saveCopy(s)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.rejected, c.rejectErr = s.Revision, err
		return
	}
	c.applied, c.running, c.rejected, c.rejectErr, c.copyErr = true, s.Revision, rules.Revision{}, nil, copyErr
}

// saveCopy writes the copy. A failure to write it must not prevent the rules from being applied.
func (c *ruleFollower) saveCopy(s *rules.Stored) error {
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

// checkReady implements a check of /readyz. It fails if a started program lacks the rules that the others run: it
// rejects the rules of the store or has no copy of them. A program that has run rules of the store stays ready when it
// rejects the next ones, or one bad push would take every limiter out of service at once. Until the first push the
// rules of the file are the intended ones.
func (c *ruleFollower) checkReady(context.Context) error {
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

// ruleVersions returns the versions of the rules that run and of the rules that were rejected last. A version is 0 if
// there are no such rules or the follower is nil.
func (c *ruleFollower) ruleVersions() (running, rejected int64) {
	if c == nil {
		return 0, 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running.Version, c.rejected.Version
}

func (c *ruleFollower) adminStatus() admin.Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := admin.Status{Name: "rules", Value: fmt.Sprintf("version %d of %s", c.running.Version, c.name)}
	if c.running.Version == 0 {
		st.Value = "from the file, not from " + c.name
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

func (c *ruleFollower) ruleStats() metrics.RulesStats {
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
