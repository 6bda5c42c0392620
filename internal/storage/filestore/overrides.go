package filestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/dirlock"
	"github.com/hotparam/pipeline/internal/rules"
)

// MaxOverrides is the maximum number of overrides of a directory. People look at each of them, so a larger number is a
// program's mistake.
const MaxOverrides = 10_000

// memoryAudit bounds the audit of a store without a disk, in bytes.
const memoryAudit = 1 << 20

// Overrides is an open state directory. Build it with OpenOverrides and Close it; any goroutine may use it in between.
type Overrides struct {
	disk disk
	lock *dirlock.Lock
	now  func() time.Time
	max  int // bytes of overrides.json: maxFile, less in tests

	mu      sync.Mutex // guards the fields below, also while they are written
	closed  bool
	entries rules.LiveOverrides
	audit   auditLog
	last    *rules.Change // the newest change, or nil
	torn    bool          // audit.jsonl differs from audit: write it again
	failing error         // error of the last write, or nil
	missing string        // report of missing files or lines at the opening
	// subscribers are called with every change.
	subscribers []func(rules.LiveOverrides)
}

// OpenOverrides opens a state directory, which it makes if it does not exist. It fails if another process has the
// directory open, or if a file in it is damaged; the error states the remedy.
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

// InMemory returns a store without a disk: its overrides end with the store.
func InMemory() *Overrides {
	return &Overrides{disk: noDisk{}, now: time.Now, max: maxFile, audit: auditLog{max: memoryAudit}}
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
	o := &Overrides{disk: d, now: now, max: maxFile, entries: rules.LiveOf(env.Overrides), last: env.Last}
	o.torn = audit.dropUncommitted(env.Last) || torn
	o.audit, o.missing = audit, missing(d, env, audit)
	if n := len(audit.lines); n > 0 && (o.last == nil || audit.lines[n-1].at.After(o.last.At)) {
		o.last = new(audit.lines[n-1].change())
	}
	return o, nil
}

// Missing returns a sentence for the log about the files or lines that were removed from the directory before it was
// opened, or "" if nothing is missing.
func (o *Overrides) Missing() string { return o.missing }

// Close lets another process open the directory. It writes nothing, because each change was written by its own call.
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

// List returns every override by ID, including expired overrides until Trim.
func (o *Overrides) List(context.Context) ([]rules.Override, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return rules.SortedOverrides(o.entries), nil
}

// Put stores an override in place of the one with its ID, if there is one, and returns it as stored; see PutIf.
func (o *Overrides) Put(ctx context.Context, e rules.Override) (rules.Override, error) {
	c, err := o.PutIf(ctx, e, rules.AnyVersion)
	if err != nil {
		return rules.Override{}, err
	}
	return *c.After, nil
}

// PutIf stores an override. It sets Created to the present time, and makes an absent ID from the key. It returns after
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
	before, had := o.entries.Get(e.ID)
	if had {
		c.Before = &before
	} else if o.entries.Len() >= MaxOverrides {
		return rules.Change{}, fmt.Errorf("filestore: there are %d overrides already: %w", o.entries.Len(),
			rules.ErrTooManyOverrides)
	}
	if err := rules.CheckVersion(c.Before, version); err != nil {
		return rules.Change{}, fmt.Errorf("filestore: override %q: %w", e.ID, err)
	}
	return o.commit(c)
}

// Delete removes an override, or returns rule.ErrNoOverride if there is none with the ID.
func (o *Overrides) Delete(ctx context.Context, id, author string) error {
	_, err := o.DeleteIf(ctx, id, author, rules.AnyVersion)
	return err
}

// DeleteIf removes an override that has version, or any version if it is rules.AnyVersion.
func (o *Overrides) DeleteIf(_ context.Context, id, author string, version int64) (rules.Change, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before, had := o.entries.Get(id)
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

// FindChanges returns the changes that a query selects, newest first.
func (o *Overrides) FindChanges(_ context.Context, q rules.AuditQuery) ([]rules.Change, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.audit.find(q), nil
}

// Revision returns the revision of the newest change, or 0 if there never was one.
func (o *Overrides) Revision(context.Context) (int64, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last == nil {
		return 0, nil
	}
	return o.last.Revision, nil
}

// Trim removes the overrides that ended at or before now, and returns their number. No person made that change, so the
// audit does not show it.
func (o *Overrides) Trim(now time.Time) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return 0, errClosed
	}
	kept := o.entries
	for id, e := range o.entries.All() {
		if e.Expired(now) {
			kept = kept.Without(id)
		}
	}
	gone := o.entries.Len() - kept.Len()
	if gone == 0 {
		return 0, nil
	}
	data, err := o.encode(kept, o.last, len(o.audit.lines))
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

// Subscribe calls fn with all overrides: at once, and with every change before the call that makes it returns, so that
// the author of an override meets it with the next request. fn must be quick, and must call nothing of o.
func (o *Overrides) Subscribe(fn func(rules.LiveOverrides)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.subscribers = append(o.subscribers, fn)
	fn(o.entries)
}

// notify calls the subscribers. The caller holds mu.
func (o *Overrides) notify() {
	for _, fn := range o.subscribers {
		fn(o.entries)
	}
}
