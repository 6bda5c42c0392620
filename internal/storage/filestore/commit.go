package filestore

import (
	"context"
	"time"

	"github.com/hotparam/pipeline/internal/rules"
)

// stamp returns the time of a change. It is later than the time of the last change, so that changes have an order even
// if the clock stands still or runs backwards. The caller holds mu.
func (o *Overrides) stamp() time.Time {
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
	next := o.entries.Without(c.ID)
	if c.After != nil {
		next = o.entries.With(c.ID, *c.After)
	}
	changes := len(o.audit.lines) + 1
	data, err := o.encode(next, &c, changes)
	if err != nil {
		return rules.Change{}, err // nothing was written
	}
	err = o.record(line)
	if kept := len(o.audit.lines) + 1; err == nil && kept != changes { // old changes were dropped
		data, err = o.encode(next, &c, kept)
	}
	if err == nil {
		if err = o.disk.replace(overridesFile, data); err != nil {
			o.torn = true // the line in the audit has no change behind it
		}
	}
	if err != nil {
		o.failing = err
		return rules.Change{}, err
	}
	o.audit.add(line)
	o.entries, o.last, o.failing = next, &c, nil
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
	data, err := o.encode(o.entries, o.last, len(o.audit.lines))
	if err == nil {
		err = o.disk.replace(overridesFile, data)
	}
	o.failing = err
	return err
}
