package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/operator/metrics"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/filestore"
)

// healEvery is how often a process that could not give a store its rules back tries again.
const healEvery = 10 * time.Second

// errNoRules says that nothing was pushed, or that the store is not the one that was meant.
var errNoRules = errors.New("the store holds no rules")

// ruleStore is a central store of rules. Package redisfeed has one.
type ruleStore interface {
	// Read gives what the store holds; nil: nothing.
	Read(ctx context.Context) (*rules.Stored, error)
	// Write puts next in the place of the version before, 0 for none; rules.ErrConflict where
	// the store holds another one.
	Write(ctx context.Context, before int64, next *rules.Stored, change *rules.Revision) error
	// History gives the last changes, newest first.
	History(ctx context.Context) ([]rules.Revision, error)
	// Follow calls fn after every look at the store, some times a second, until ctx ends.
	Follow(ctx context.Context, fn func(*rules.Stored, error)) error
}

// central follows a central store of rules and hands what this process is to run to the reloader. The
// methods may be called by any goroutine.
type central struct {
	name     string // as --rules has it
	instance string // whom a trial may name
	store    ruleStore
	close    func() error
	copy     *filestore.RulesCopy // one goroutine at a time: the start, then that of the reloader
	log      *slog.Logger
	// turns holds what is to be run next, the latest only.
	turns chan turn

	healed time.Time // the last try; the follower's goroutine only

	mu      sync.Mutex    // guards what follows
	seen    *rules.Stored // what the store held last, in good order; nil: nothing yet
	wanted  rules.Revision
	running rules.Revision // version 0: those of the file
	taken   bool           // since the start, this process has run what the store held
	refused rules.Revision // version 0: none
	why     error          // it is refused
	lookErr error          // of the last look
	behind  bool           // the store has lost what was seen
	copyErr error
}

// turn is a revision that this process is to run, and the value of the store that it is from.
type turn struct {
	stored   *rules.Stored
	revision rules.Revision
}

// Run follows the store until ctx ends.
func (c *central) Run(ctx context.Context) error {
	err := c.store.Follow(ctx, func(s *rules.Stored, err error) { c.looked(ctx, s, err, time.Now()) })
	return errors.Join(err, c.close())
}

// looked takes what a look at the store found.
func (c *central) looked(ctx context.Context, s *rules.Stored, err error, now time.Time) {
	if lost := c.take(s, err, now); lost != nil && now.Sub(c.healed) >= healEvery {
		c.healed = now
		c.heal(ctx, s, lost)
	}
}

// take hands on what is to be run, and gives what the store has lost, nil for nothing.
func (c *central) take(s *rules.Stored, err error, now time.Time) (lost *rules.Stored) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lookErr, c.behind = err, err == nil && c.seen != nil && (s == nil || s.Version < c.seen.Version)
	switch {
	case err != nil:
		return nil
	case c.behind:
		return c.seen
	case s == nil:
		c.lookErr = errNoRules
		return nil
	}
	c.seen = s
	next := s.For(c.instance, now)
	if next.Version == c.wanted.Version && next.Hash == c.wanted.Hash {
		return nil
	}
	c.wanted = *next
	select {
	case <-c.turns: // it was not run yet, and is no longer wanted
	default:
	}
	c.turns <- turn{s, *next} // only this goroutine sends
	return nil
}

// heal gives the store back what it lost, if this process may. Of several that do so one writes.
func (c *central) heal(ctx context.Context, s, lost *rules.Stored) {
	before := int64(0)
	if s != nil {
		before = s.Version
	}
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := c.store.Write(short, before, lost, lost.Last())
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
func (c *central) next() <-chan turn {
	if c == nil {
		return nil
	}
	return c.turns
}

// turned notes how the reloader took a revision.
func (c *central) turned(t turn, err error) {
	var copyErr error
	if err == nil {
		copyErr = c.save(t.stored)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.refused, c.why = t.revision, err
		return
	}
	c.taken, c.running, c.refused, c.why, c.copyErr = true, t.revision, rules.Revision{}, nil, copyErr
}

// save writes the copy. A failure to write it must not keep the rules from being applied.
func (c *central) save(s *rules.Stored) error {
	err := c.copy.Save(s)
	if err != nil {
		c.log.Warn("no copy of the rules is kept: a start while the store is away would have none", "copy",
			c.copy.Path(), "err", err)
	}
	return err
}

// isRefused reports whether the store holds rules that this program does not take.
func (c *central) isRefused() bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused.Version != 0
}

// check is that of /readyz. It fails where a start has not got the rules that the others run: the store's are refused,
// or no copy has them. A program that has run rules of the store stays ready when it rejects the next ones, or one bad
// push would take every limiter out of service at once; and the file's rules are meant until the first push.
func (c *central) check(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.taken:
		return nil
	case c.refused.Version != 0:
		return fmt.Errorf("version %d of %s is refused: %w", c.refused.Version, c.name, c.why)
	case c.running.Version == 0 && c.lookErr != nil && !errors.Is(c.lookErr, errNoRules):
		return fmt.Errorf("the rules of %s are not known, and there is no copy: %w", c.name, c.lookErr)
	}
	return nil
}

// complete says in a limiter's report which rules it runs.
func (c *central) complete(r *hottype.Report) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r.Rules, r.RulesRefused = c.running.Version, c.refused.Version
}

// status is the line of the dashboard and of /readyz?verbose about the store.
func (c *central) status() admin.Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := admin.Status{Name: "rules", Value: fmt.Sprintf("version %d of %s", c.running.Version, c.name)}
	if c.running.Version == 0 {
		st.Value = "those of the file, not of " + c.name
	}
	switch {
	case c.refused.Version != 0:
		st.Value += fmt.Sprintf("; version %d is refused: %v", c.refused.Version, c.why)
	case c.behind:
		st.Value += "; the store has lost it"
	case c.lookErr != nil:
		st.Value += fmt.Sprintf("; %v", c.lookErr)
	case c.copyErr != nil:
		st.Value += fmt.Sprintf("; no copy is kept: %v", c.copyErr)
	default:
		st.OK = c.running.Version != 0
	}
	return st
}

func (c *central) stats() metrics.RulesStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := metrics.RulesStats{
		Version: c.running.Version, Refused: c.refused.Version != 0, Behind: c.behind,
		StoreFailing: c.lookErr != nil, CopyFailing: c.copyErr != nil,
	}
	if c.seen != nil {
		st.Stored = c.seen.Version
	}
	return st
}
