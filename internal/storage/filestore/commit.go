package filestore

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hotparam/pipeline/internal/rules"
)

// nextChangeTime returns the time of a change. It is later than the time of the last change, so that changes have an
// order even if the clock stands still or runs backwards. The caller holds mu.
func (o *Overrides) nextChangeTime() time.Time {
	now := o.now().UTC().Truncate(time.Microsecond)
	if last := o.last; last != nil && !now.After(last.At) {
		now = last.At.Add(time.Microsecond)
	}
	return now
}

// commit writes a change and puts it in force, or does neither, and returns it with its revision. The caller holds mu.
func (o *Overrides) commit(c rules.Change) (rules.Change, error) {
	c.Revision = c.At.UnixMicro()
	if o.closed {
		return rules.Change{}, errClosed
	}
	line, err := newAuditLine(c)
	if err != nil {
		return rules.Change{}, err
	}
	next, size := o.apply(&c)
	if n := bytesWith(size, &c); n >= o.max {
		return rules.Change{}, tooLong(n, o.max)
	}
	changes := len(o.audit.lines) + 1
	err = o.record(line)
	if kept := len(o.audit.lines) + 1; err == nil {
		if text := bytes.TrimSuffix(line.text, []byte("\n")); kept == changes && o.file.hasRoom(len(text)) {
			err = o.file.add(text)
		} else { // old changes were dropped, which overrides.json counts, or the journal is full
			err = o.writeFile(next, &c, kept)
		}
		o.torn = o.torn || err != nil // the line in the audit has no change behind it
	}
	if err != nil {
		o.failing = err
		return rules.Change{}, err
	}
	o.audit.add(line)
	o.entries, o.bytes, o.last, o.failing = next, size, &c, nil
	o.notify()
	return c, nil
}

// Check returns the error of the last change if it could not be written, and nil once the disk can be written again.
func (o *Overrides) Check(context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failing == nil || o.closed {
		return nil
	}
	o.failing = o.writeFile(o.entries, o.last, len(o.audit.lines))
	return o.failing
}

// apply returns the overrides with a change, and the bytes that they take in overrides.json.
func (o *Overrides) apply(c *rules.Change) (next rules.LiveOverrides, size int) {
	next, size = o.entries, o.bytes
	if before, had := next.Get(c.ID); had {
		next, size = next.Without(c.ID), size-overrideBytes(&before)
	}
	if c.After != nil {
		next, size = next.With(c.ID, *c.After), size+overrideBytes(c.After)
	}
	return next, size
}

// writeFile replaces overrides.json, and with it the journal. The caller holds mu.
func (o *Overrides) writeFile(live rules.LiveOverrides, last *rules.Change, changes int) error {
	data, err := o.encode(live, last, changes)
	if err != nil {
		return err
	}
	return o.file.replace(data)
}

// applyJournal applies the changes in the journal. Each was recorded in the audit too.
func (o *Overrides) applyJournal(env *envelope, changes [][]byte) error {
	for _, text := range changes {
		var c rules.Change
		err := json.Unmarshal(text, &c)
		if err == nil && c.After != nil {
			err = c.After.Validate()
		}
		if err != nil {
			return fmt.Errorf("filestore: %s has a change of %q that cannot be used: %w; move it away to start with the "+
				"overrides of %s (%s lists the changes since)", o.disk.pathOf(overridesJournal), c.ID, err,
				overridesFile, auditFile)
		}
		o.entries, o.bytes = o.apply(&c)
		env.Last = &c
		env.Changes++
	}
	return nil
}
