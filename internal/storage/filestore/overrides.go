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

	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/dirlock"
	"github.com/hotparam/pipeline/internal/rules"
)

// MaxOverrides is how many overrides a directory holds. Each is looked at by
// people: more are a program's mistake.
const MaxOverrides = 10_000

// memoryAudit bounds the audit of a store that keeps nothing on a disk, in bytes.
const memoryAudit = 1 << 20

// Overrides is an open state directory. Build it with OpenOverrides and Close
// it; any goroutine may use it in between.
type Overrides struct {
	disk disk
	lock *dirlock.Lock
	now  func() time.Time
	max  int // bytes of overrides.json: maxFile, less in tests

	mu      sync.Mutex // guards the fields below, also while they are written
	closed  bool
	entries map[string]rules.Override
	audit   auditLog
	last    *rules.Change // the newest change; nil: none
	torn    bool          // audit.jsonl is not what audit says: write it anew
	failing error         // of the last write; nil: it succeeded
	missing string        // what was gone when the directory was opened
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
	return &Overrides{disk: noDisk{}, now: time.Now, max: maxFile,
		entries: map[string]rules.Override{}, audit: auditLog{max: memoryAudit}}
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
	o := &Overrides{disk: d, now: now, max: maxFile, entries: map[string]rules.Override{}, last: env.Last}
	for _, e := range env.Overrides {
		o.entries[e.ID] = e
	}
	o.torn = audit.dropUncommitted(env.Last) || torn
	o.audit, o.missing = audit, missing(d, env, audit)
	if n := len(audit.lines); n > 0 && (o.last == nil || audit.lines[n-1].at.After(o.last.At)) {
		o.last = new(audit.lines[n-1].change())
	}
	return o, nil
}

// Missing says what was taken away from the directory before it was opened, as a sentence for the log; "" for nothing.
func (o *Overrides) Missing() string { return o.missing }

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
func (o *Overrides) list() []rules.Override { return sortedByID(o.entries) }

func sortedByID(entries map[string]rules.Override) []rules.Override {
	byID := func(a, b rules.Override) int { return strings.Compare(a.ID, b.ID) }
	return slices.SortedFunc(maps.Values(entries), byID)
}

// Put stores an override in place of the one with its ID, if there is one, and returns it as stored; see PutIf.
func (o *Overrides) Put(ctx context.Context, e rules.Override) (rules.Override, error) {
	c, err := o.PutIf(ctx, e, rules.AnyVersion)
	if err != nil {
		return rules.Override{}, err
	}
	return *c.After, nil
}

// PutIf stores an override, with an ID made from its key where it had none, and with Created of now. It returns after
// the last write to the disk.
func (o *Overrides) PutIf(_ context.Context, e rules.Override, version int64) (rules.Change, error) {
	e.ID = cmp.Or(e.ID, e.DefaultID())
	o.mu.Lock()
	defer o.mu.Unlock()
	e.Created = o.stamp()
	if err := e.Validate(); err != nil {
		return rules.Change{}, fmt.Errorf("filestore: %w", err)
	}
	c := rules.Change{At: e.Created, Author: e.Author, Action: rules.ChangePut, ID: e.ID, After: &e}
	before, had := o.entries[e.ID]
	if had {
		c.Before = &before
	} else if len(o.entries) >= MaxOverrides {
		return rules.Change{}, fmt.Errorf("filestore: there are %d overrides already: %w", len(o.entries),
			rules.ErrTooManyOverrides)
	}
	if err := rules.CheckVersion(c.Before, version); err != nil {
		return rules.Change{}, fmt.Errorf("filestore: override %q: %w", e.ID, err)
	}
	return o.commit(c)
}

// Delete removes an override; rule.ErrNoOverride when there is none.
func (o *Overrides) Delete(ctx context.Context, id, author string) error {
	_, err := o.DeleteIf(ctx, id, author, rules.AnyVersion)
	return err
}

// DeleteIf removes an override that has a version, or rules.AnyVersion.
func (o *Overrides) DeleteIf(_ context.Context, id, author string, version int64) (rules.Change, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before, had := o.entries[id]
	if !had {
		return rules.Change{}, fmt.Errorf("filestore: override %q: %w", id, rule.ErrNoOverride)
	}
	if err := rules.CheckVersion(&before, version); err != nil {
		return rules.Change{}, fmt.Errorf("filestore: override %q: %w", id, err)
	}
	return o.commit(rules.Change{At: o.stamp(), Author: author, Action: rules.ChangeDelete, ID: id, Before: &before})
}

// Record adds a change to the audit that changes no override.
func (o *Overrides) Record(_ context.Context, c rules.Change) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	c.At = o.stamp()
	_, err := o.commit(c)
	return err
}

// Audit returns up to limit changes, newest first.
func (o *Overrides) Audit(ctx context.Context, limit int) ([]rules.Change, error) {
	return o.FindChanges(ctx, rules.AuditQuery{Limit: limit})
}

// FindChanges returns the changes that a query asks for, newest first.
func (o *Overrides) FindChanges(_ context.Context, q rules.AuditQuery) ([]rules.Change, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.audit.find(q), nil
}

// Revision is that of the newest change, 0 where there never was one.
func (o *Overrides) Revision(context.Context) (int64, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last == nil {
		return 0, nil
	}
	return o.last.Revision, nil
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
	data, err := o.encode(sortedByID(kept), o.last, len(o.audit.lines))
	if err == nil {
		err = o.disk.replace(overridesFile, data)
		o.failing = err
	}
	if err != nil {
		return 0, err
	}
	o.entries = kept
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
