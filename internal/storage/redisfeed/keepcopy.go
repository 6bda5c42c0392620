package redisfeed

import (
	"context"
	"time"

	"github.com/hotparam/pipeline/internal/rules"
)

// saveAgain is when a copy that could not be saved is tried again.
const saveAgain = 10 * time.Second

// Copy keeps one state of the overrides outside of Redis. *filestore.Copy is one.
type Copy interface {
	// Load gives what was saved last; revision 0: nothing.
	Load() (revision int64, entries map[string]string)
	Save(revision int64, entries map[string]string) error
}

// Recall takes what a copy holds for what this process enforces, as if it had never
// stopped, and gives the overrides of it that have not ended. Call it before Follow. When
// Redis answers with a later state, that holds; with an earlier one, Redis has lost data.
func (s *OverrideStore) Recall(c Copy) []rules.Override {
	revision, entries := c.Load()
	if revision <= 0 {
		return nil
	}
	state := &overrideCopy{version: revision, entries: entries}
	s.feed.know(state)
	list := s.list(state)
	s.feed.log.Info("redisfeed: overrides from the last run hold until Redis answers", "overrides", len(list),
		"revision", revision)
	return list
}

// KeepCopy saves every state that this process enforces, until ctx ends. A disk that is full or
// slow holds up nothing else: it is told once, and tried again.
func (s *OverrideStore) KeepCopy(ctx context.Context, c Copy) error {
	f := s.feed
	var saved int64
	var failing error
	for {
		if k := f.known(); k.version > saved {
			err := c.Save(k.version, k.entries)
			switch {
			case err == nil:
				saved = k.version
			case failing == nil:
				f.log.Warn(
					"redisfeed: the overrides are not kept on disk: those of now would not hold after a restart without Redis", "err", err)
			}
			failing = err
			f.counters.copyFailing.Store(err != nil)
		}
		retry := time.NewTimer(saveAgain)
		select {
		case <-ctx.Done():
			retry.Stop()
			return nil
		case <-retry.C:
		case <-f.knownNews:
			retry.Stop()
		}
	}
}
