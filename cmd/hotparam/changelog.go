package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/alecthomas/kong"

	"github.com/hotparam/pipeline/internal/rules"
)

// changeLog holds the changes that a command has made to overrides. It prints a line for each change at once, or all
// changes as one value at the end.
type changeLog struct {
	lines, warnings io.Writer

	Changes []madeChange `json:"changes"`
	// Limiters is the number of limiters that have the changes, if the command waited for them.
	Limiters int `json:"limiters,omitempty"`
}

// madeChange is one change of an override.
type madeChange struct {
	ID string `json:"id"`
	// Did is set, enforced, removed or undone.
	Did string `json:"did"`
	// Override is the override as it is now, or nil if there is none.
	Override *rules.Override `json:"override,omitempty"`
	// Revision is the first revision in which limiters have the change, and Change its number in the audit. They are 0
	// if the listener did not report them.
	Revision int64    `json:"revision,omitempty"`
	Change   int64    `json:"change,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// logChanges calls do, which changes overrides, and prints the changes that were made, even if do fails in the end.
func (f *outputFlags) logChanges(k *kong.Kong, do func(*changeLog) error) error {
	log := &changeLog{lines: k.Stdout, warnings: k.Stderr, Changes: []madeChange{}}
	if !f.IsValue() {
		return do(log)
	}
	log.lines = io.Discard
	err := do(log)
	if err != nil && len(log.Changes) == 0 {
		return err
	}
	return errors.Join(err, f.printTable(k.Stdout, log, nil))
}

func (l *changeLog) add(c madeChange) {
	l.Changes = append(l.Changes, c)
	for _, w := range c.Warnings {
		fmt.Fprintf(l.warnings, "%s: %s\n", name, printableText(w))
	}
	text := map[string]string{"set": "", "enforced": "enforced; ", "removed": "removed", "undone": "undone; "}[c.Did]
	if o := c.Override; o != nil {
		text += fmt.Sprintf("%s, %s, until %s", printableText(o.Target().String()), describeEffect(o), formatEnd(o))
	} else if c.Did == "undone" {
		text += "there is none now"
	}
	l.logLine("%s: %s", printableText(c.ID), text)
}

// logArrival logs that all limiters have the changes.
func (l *changeLog) logArrival(limiters int, took time.Duration) {
	l.Limiters = limiters
	l.logLine("%s it, after %v", formatCount(limiters, "limiter has", "limiters have"), took.Round(time.Millisecond))
}

func (l *changeLog) logLine(format string, args ...any) { fmt.Fprintf(l.lines, format+"\n", args...) }
