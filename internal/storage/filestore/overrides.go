package filestore

import (
	"cmp"
	"context"
	"encoding/json"
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
	file    journaledFile
	entries rules.LiveOverrides
	bytes   int // of the entries in overrides.json
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
	return &Overrides{disk: noDisk{}, now: time.Now, max: maxFile, audit: auditLog{max: memoryAudit},
		file: newJournaledFile(noDisk{}, overridesFile, overridesJournal)}
}

func load(d disk, now func() time.Time) (*Overrides, error) {
	if err := d.removeTempFiles(); err != nil {
		return nil, err
	}
	o := &Overrides{disk: d, now: now, max: maxFile, file: newJournaledFile(d, overridesFile, overridesJournal)}
	env, j, err := readEnvelope(&o.file)
	if err != nil {
		return nil, err
	}
	o.entries = rules.LiveOf(env.Overrides)
	for _, e := range o.entries.All() {
		o.bytes += overrideBytes(&e)
	}
	if err := o.applyJournal(&env, j.changes); err != nil {
		return nil, err
	}
	audit, torn, err := readAudit(d)
	if err != nil {
		return nil, err
	}
	ignored := countLater(j.foreign, env.Last)
	o.torn = torn || ignored == 0 && audit.dropUncommitted(env.Last)
	o.audit, o.last, o.missing = audit, env.Last, describeMissing(d, env, audit)
	if o.missing != "" {
		o.file.generation = "" // the next change writes the number of lines that are left
	}
	switch {
	case ignored > 0 && (env.Version > 0 || o.missing == ""):
		o.missing = fmt.Sprintf("%s was edited, replaced or removed after the process was killed, and holds as it is now: "+
			"%d later changes in %s do not; set them again, by %s", d.pathOf(overridesFile), ignored, overridesJournal, auditFile)
	case j.torn && o.missing == "":
		o.missing = fmt.Sprintf("the last line of %s is incomplete, because the process ended before it answered: the "+
			"change does not hold", d.pathOf(overridesJournal))
	}
	if n := len(audit.lines); n > 0 && (o.last == nil || audit.lines[n-1].at.After(o.last.At)) {
		o.last = new(audit.lines[n-1].decodeChange())
	}
	return o, nil
}

// Missing returns a sentence for the log about the files or lines that were removed from the directory before it was
// opened, or "" if nothing is missing.
func (o *Overrides) Missing() string { return o.missing }

// countLater returns the number of changes of a journal that are later than the last change of overrides.json.
func countLater(texts [][]byte, last *rules.Change) (n int) {
	for _, text := range texts {
		var c rules.Change
		if json.Unmarshal(text, &c) == nil && (last == nil || c.At.After(last.At)) {
			n++
		}
	}
	return n
}

// Close merges the journal into overrides.json, for programs that read only that, and lets another process open the
// directory. An error loses no change, because each was written by its own call.
func (o *Overrides) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil
	}
	o.closed = true
	err := o.merge()
	if o.lock != nil {
		err = errors.Join(err, o.lock.Close())
	}
	return err
}

var errClosed = errors.New("filestore: the state directory is closed")

// Live returns every override, including expired overrides until Trim.
func (o *Overrides) Live(context.Context) (rules.LiveOverrides, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.entries, nil
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
	e.Created = o.nextChangeTime()
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
	at := o.nextChangeTime()
	return o.commit(rules.Change{At: at, Author: author, Action: rules.ChangeDelete, ID: id, Before: &before})
}

// Record adds a change to the audit that changes no override.
func (o *Overrides) Record(_ context.Context, c rules.Change) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	c.At = o.nextChangeTime()
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

// merge merges the journal into overrides.json, if there is one. The caller holds mu.
func (o *Overrides) merge() error {
	if !o.file.hasJournal() {
		return nil
	}
	return o.writeFile(o.entries, o.last, len(o.audit.lines))
}

// Trim removes the overrides that ended at or before now, and returns their number. No person made that change, so the
// audit does not show it. It also merges the journal, so that the texts of replaced and removed overrides remain in it
// no longer than until the next Trim.
func (o *Overrides) Trim(now time.Time) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return 0, errClosed
	}
	kept, size := o.entries, o.bytes
	for id, e := range o.entries.All() {
		if e.Expired(now) {
			kept, size = kept.Without(id), size-overrideBytes(&e)
		}
	}
	gone := o.entries.Len() - kept.Len()
	if gone == 0 && !o.file.hasJournal() {
		return 0, nil
	}
	err := o.writeFile(kept, o.last, len(o.audit.lines))
	if !errors.Is(err, rules.ErrTooManyOverrides) { // which says nothing about the disk
		o.failing = err
	}
	if err != nil {
		return 0, err
	}
	if gone > 0 {
		o.entries, o.bytes = kept, size
		o.notify()
	}
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
