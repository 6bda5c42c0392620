package filestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hotparam/pipeline/internal/dirlock"
	"github.com/hotparam/pipeline/internal/rules"
)

// MaxOverrides is how many overrides a directory holds. Each is looked at by
// people: more are a program's mistake.
const MaxOverrides = 10_000

// MaxAudit is how many changes are kept at least.
const MaxAudit = 1000

// Overrides is an open state directory. Build it with OpenOverrides and Close
// it; any goroutine may use it in between.
type Overrides struct {
	disk disk
	lock *os.File
	now  func() time.Time

	mu      sync.Mutex // guards the fields below, also while they are written
	closed  bool
	entries map[string]rules.Override
	audit   []rules.Change // oldest first
	lines   int            // lines of audit.jsonl
	torn    bool           // audit.jsonl is not what audit says: write it anew
	// subscribers are called with every change.
	subscribers []func([]rules.Override)
}

// OpenOverrides opens a state directory and makes it if need be. It fails when
// another process has it open, or when a file in it is damaged; the error says
// what to do.
func OpenOverrides(dir string) (*Overrides, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("filestore: %w; set --state.dir to a directory that can be written", err)
	}
	lock, err := dirlock.Take(dir, "lock")
	if err != nil {
		return nil, err
	}
	o, err := load(dirDisk(dir), time.Now)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	o.lock = lock
	return o, nil
}

// InMemory makes a store that keeps nothing on a disk: its overrides end with it.
func InMemory() *Overrides {
	return &Overrides{disk: noDisk{}, now: time.Now, entries: map[string]rules.Override{}}
}

func load(d disk, now func() time.Time) (*Overrides, error) {
	if err := d.sweep(); err != nil {
		return nil, err
	}
	env, err := readEnvelope(d)
	if err != nil {
		return nil, err
	}
	audit, torn, err := readAudit(d)
	if err != nil {
		return nil, err
	}
	o := &Overrides{disk: d, now: now, entries: map[string]rules.Override{}}
	for _, e := range env.Overrides {
		o.entries[e.ID] = e
	}
	o.audit = dropUncommitted(audit, env.Last)
	o.lines = len(o.audit)
	o.torn = torn || len(o.audit) != len(audit)
	o.audit = o.audit[max(0, len(o.audit)-MaxAudit):]
	return o, nil
}

// Close lets another process open the directory. Everything was written by the
// call that changed it.
func (o *Overrides) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil
	}
	o.closed = true
	if o.lock == nil {
		return nil
	}
	return o.lock.Close()
}

var errClosed = errors.New("filestore: the state directory is closed")

// List returns every override by ID; expired ones are among them until Trim.
func (o *Overrides) List(context.Context) ([]rules.Override, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.list(), nil
}

// list is called with mu held.
func (o *Overrides) list() []rules.Override {
	byID := func(a, b rules.Override) int { return strings.Compare(a.ID, b.ID) }
	return slices.SortedFunc(maps.Values(o.entries), byID)
}

// Put stores an override in place of the one with its ID, if there is one, and
// returns it as stored: with an ID made from its key where it had none, and with
// Created of now. It returns after the last write to the disk.
func (o *Overrides) Put(_ context.Context, e rules.Override) (rules.Override, error) {
	e.ID = cmp.Or(e.ID, e.DefaultID())
	o.mu.Lock()
	defer o.mu.Unlock()
	e.Created = o.stamp()
	if err := e.Validate(); err != nil {
		return rules.Override{}, fmt.Errorf("filestore: %w", err)
	}
	c := rules.Change{At: e.Created, Author: e.Author, Action: rules.ChangePut, ID: e.ID, After: &e}
	before, had := o.entries[e.ID]
	if had {
		c.Before = &before
	} else if len(o.entries) >= MaxOverrides {
		return rules.Override{}, fmt.Errorf("filestore: there are %d overrides already; delete some", len(o.entries))
	}
	return e, o.commit(c)
}

// Delete removes an override; rules.ErrNoOverride when there is none.
func (o *Overrides) Delete(_ context.Context, id, author string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	before, had := o.entries[id]
	if !had {
		return fmt.Errorf("filestore: override %q: %w", id, rules.ErrNoOverride)
	}
	return o.commit(rules.Change{At: o.stamp(), Author: author, Action: rules.ChangeDelete, ID: id, Before: &before})
}

// Record adds a change to the audit that changes no override.
func (o *Overrides) Record(_ context.Context, c rules.Change) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	c.At = o.stamp()
	return o.commit(c)
}

// Audit returns up to limit changes, newest first.
func (o *Overrides) Audit(_ context.Context, limit int) ([]rules.Change, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := min(max(limit, 0), len(o.audit))
	out := slices.Clone(o.audit[len(o.audit)-n:])
	slices.Reverse(out)
	return out, nil
}

// Revision is that of the newest change, 0 where there never was one.
func (o *Overrides) Revision(context.Context) (int64, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if last := o.lastChange(); last != nil {
		return last.Revision, nil
	}
	return 0, nil
}

// Trim removes the overrides that ended at or before now and tells how many.
// No person made that change, so the audit does not show it.
func (o *Overrides) Trim(now time.Time) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return 0, errClosed
	}
	kept := maps.Clone(o.entries)
	maps.DeleteFunc(kept, func(_ string, e rules.Override) bool { return e.Expired(now) })
	gone := len(o.entries) - len(kept)
	if gone == 0 {
		return 0, nil
	}
	was := o.entries
	o.entries = kept
	if err := writeEnvelope(o.disk, o.list(), o.lastChange()); err != nil {
		o.entries = was
		return 0, err
	}
	o.notify()
	return gone, nil
}

// Subscribe calls fn with all overrides: now, and with every change before the
// call returns that makes it, so that who has set one meets it with the next
// request. fn must be quick, call nothing of o, and may keep the list.
func (o *Overrides) Subscribe(fn func([]rules.Override)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.subscribers = append(o.subscribers, fn)
	fn(o.list())
}

// notify calls the subscribers. The caller holds mu.
func (o *Overrides) notify() {
	for _, fn := range o.subscribers {
		fn(o.list())
	}
}

// stamp is the time of a change: later than the one before it, so that changes
// have an order even where the clock has none. The caller holds mu.
func (o *Overrides) stamp() time.Time {
	now := o.now().UTC().Truncate(time.Microsecond)
	if last := o.lastChange(); last != nil && !now.After(last.At) {
		now = last.At.Add(time.Microsecond)
	}
	return now
}

// lastChange is the newest one, nil when there is none. The caller holds mu.
func (o *Overrides) lastChange() *rules.Change {
	if len(o.audit) == 0 {
		return nil
	}
	return &o.audit[len(o.audit)-1]
}

// commit writes a change down and makes it hold, or does neither. The caller
// holds mu.
func (o *Overrides) commit(c rules.Change) error {
	c = c.Numbered()
	if o.closed {
		return errClosed
	}
	if err := o.record(c); err != nil {
		return err
	}
	was := o.entries
	o.entries = maps.Clone(was)
	delete(o.entries, c.ID)
	if c.After != nil {
		o.entries[c.ID] = *c.After
	}
	if err := writeEnvelope(o.disk, o.list(), &c); err != nil {
		o.entries, o.torn = was, true // the line in the audit has no change behind it
		return err
	}
	o.audit = append(o.audit, c)
	o.audit = o.audit[max(0, len(o.audit)-MaxAudit):]
	o.notify()
	return nil
}
