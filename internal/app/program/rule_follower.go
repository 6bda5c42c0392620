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

func (f *ruleFollower) Run(ctx context.Context) error {
	err := f.store.Follow(ctx, func(s *rules.Stored, err error) { f.onRead(ctx, s, err, time.Now()) })
	return errors.Join(err, f.close())
}

func (f *ruleFollower) onRead(ctx context.Context, s *rules.Stored, err error, now time.Time) {
	if lost := f.update(s, err); lost != nil && now.Sub(f.lastWriteBack) >= writeBackEvery {
		f.lastWriteBack = now
		f.writeBack(ctx, s, lost)
	}
}

// update passes on the rules that are to run, and returns the rules that the store has lost, or nil.
func (f *ruleFollower) update(s *rules.Stored, err error) (lost *rules.Stored) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readErr, f.storeLostData = err, err == nil && f.seen != nil && (s == nil || s.Version < f.seen.Version)
	switch {
	case err != nil:
		return nil
	case f.storeLostData:
		return f.seen
	case s == nil:
		f.readErr = errNoRules
		return nil
	}
	f.seen = s
	if s.Version == f.wanted.Version && s.Hash == f.wanted.Hash {
		return nil
	}
	f.wanted = s.Revision
	select {
	case <-f.updates: // it was not run yet, and is no longer wanted
	default:
	}
	f.updates <- s // only this goroutine sends
	return nil
}

// writeBack writes the rules that the store has lost back to it, if this process may write. If several processes do so,
// only one of them writes.
func (f *ruleFollower) writeBack(ctx context.Context, s, lost *rules.Stored) {
	before := int64(0)
	if s != nil {
		before = s.Version
	}
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := f.store.Write(short, before, lost)
	if errors.Is(err, rules.ErrConflict) {
		return
	}
	log := f.log.With("store", f.name, "version", lost.Version, "stored", before)
	if err != nil {
		log.Warn("the store has lost the last rules; those in force stay, and cannot be written back", "err", err)
		return
	}
	log.Warn("the store had lost the last rules; they were written back as they are in force here")
}

// next returns the channel of the revisions to run. A program without a store has a nil follower and receives none.
func (f *ruleFollower) next() <-chan *rules.Stored {
	if f == nil {
		return nil
	}
	return f.updates
}

func (f *ruleFollower) recordApplied(s *rules.Stored, err error) {
	var copyErr error
	if err == nil {
		copyErr = f.saveCopy(s)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.rejected, f.rejectErr = s.Revision, err
		return
	}
	f.applied, f.running, f.rejected, f.rejectErr, f.copyErr = true, s.Revision, rules.Revision{}, nil, copyErr
}

// saveCopy writes the copy. A failure to write it must not prevent the rules from being applied.
func (f *ruleFollower) saveCopy(s *rules.Stored) error {
	err := f.copy.Save(s)
	if err != nil {
		f.log.Warn("no copy of the rules is kept: a start while the store is away would have none", "copy",
			f.copy.Path(), "err", err)
	}
	return err
}

func (f *ruleFollower) isRejected() bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rejected.Version != 0
}

// checkReady implements a check of /readyz. It fails if a started program lacks the rules that the others run: it
// rejects the rules of the store or has no copy of them. A program that has run rules of the store stays ready when it
// rejects the next ones, or one bad push would take every limiter out of service at once. Until the first push the
// rules of the file are the intended ones.
func (f *ruleFollower) checkReady(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.applied:
		return nil
	case f.rejected.Version != 0:
		return fmt.Errorf("version %d of %s is rejected: %w", f.rejected.Version, f.name, f.rejectErr)
	case f.running.Version == 0 && f.readErr != nil && !errors.Is(f.readErr, errNoRules):
		return fmt.Errorf("the rules of %s are not known, and there is no copy: %w", f.name, f.readErr)
	}
	return nil
}

// ruleVersions returns the versions of the rules that run and of the rules that were rejected last. A version is 0 if
// there are no such rules or the follower is nil.
func (f *ruleFollower) ruleVersions() (running, rejected int64) {
	if f == nil {
		return 0, 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running.Version, f.rejected.Version
}

func (f *ruleFollower) adminStatus() admin.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	st := admin.Status{Name: "rules", Value: fmt.Sprintf("version %d of %s", f.running.Version, f.name)}
	if f.running.Version == 0 {
		st.Value = "from the file, not from " + f.name
	}
	switch {
	case f.rejected.Version != 0:
		st.Value += fmt.Sprintf("; version %d is rejected: %v", f.rejected.Version, f.rejectErr)
	case f.storeLostData:
		st.Value += "; the store has lost it"
	case f.readErr != nil:
		st.Value += fmt.Sprintf("; %v", f.readErr)
	case f.copyErr != nil:
		st.Value += fmt.Sprintf("; no copy is kept: %v", f.copyErr)
	default:
		st.OK = f.running.Version != 0
	}
	return st
}

func (f *ruleFollower) ruleStats() metrics.RulesStats {
	f.mu.Lock()
	defer f.mu.Unlock()
	st := metrics.RulesStats{
		Version: f.running.Version, Rejected: f.rejected.Version != 0, Behind: f.storeLostData,
		StoreFailing: f.readErr != nil, CopyFailing: f.copyErr != nil,
	}
	if f.seen != nil {
		st.Stored = f.seen.Version
	}
	return st
}
