package filestore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/hotparam/pipeline/internal/rules"
)

const (
	// keepAudit is the age up to which changes are kept, if they fit.
	keepAudit = rules.KeepAudit
	// maxAudit is the maximum size of audit.jsonl in bytes. The file is read whole at the start, so it is never longer
	// than maxFile.
	maxAudit = min(maxFile, rules.MaxAuditBytes)
	// roomAfter is the part of maxAudit that is free after changes were dropped, so that the file is written again once
	// in a few thousand changes, and not at each of them.
	roomAfter = 16
)

// auditLog holds the lines of audit.jsonl, oldest first. It takes as many bytes as the file.
type auditLog struct {
	lines []auditLine
	bytes int // of all lines
	max   int // maxAudit, or less in tests
}

// auditLine is a change as it is written, with the fields by which lines are found and dropped.
type auditLine struct {
	at         time.Time
	author, id string
	revision   int64
	action     string
	text       []byte // JSON with its line feed
}

func newAuditLine(c rules.Change) (auditLine, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return auditLine{}, fmt.Errorf("filestore: a change of override %q cannot be written: %w", c.ID, err)
	}
	return lineOfChange(c, append(text, '\n')), nil
}

func lineOfChange(c rules.Change, text []byte) auditLine {
	return auditLine{c.At, c.Author, c.ID, c.Revision, c.Action, text}
}

// decodeChange reads the line again. Load has read it once, so it is a change.
func (l auditLine) decodeChange() rules.Change {
	var c rules.Change
	_ = json.Unmarshal(l.text, &c)
	return c
}

func (l auditLine) isOf(c *rules.Change) bool {
	return l.at.Equal(c.At) && l.id == c.ID && l.action == c.Action
}

func (a *auditLog) add(l auditLine) {
	a.lines = append(a.lines, l)
	a.bytes += len(l.text)
}

// isFull reports whether changes have to be dropped before a line is added, because they have too many bytes or the
// oldest change is a day too old.
func (a *auditLog) isFull(l auditLine) bool {
	old := len(a.lines) > 0 && l.at.Sub(a.lines[0].at) > keepAudit+24*time.Hour
	return old || a.bytes+len(l.text) > a.max
}

// withRoom returns the log with room for a line: without the changes older than keepAudit, and if that does not
// suffice, without the oldest changes of the callers whose changes take most bytes; see [rules.AuditExcess].
func (a *auditLog) withRoom(l auditLine) auditLog {
	left := auditLog{max: a.max}
	for _, old := range a.lines {
		if l.at.Sub(old.at) <= keepAudit {
			left.add(old)
		}
	}
	if left.bytes+len(l.text) <= a.max {
		return left
	}
	excess := left.excessByAuthor(a.max - a.max/roomAfter - len(l.text))
	kept := auditLog{max: a.max}
	for _, old := range left.lines {
		if excess[old.author] > 0 {
			excess[old.author] -= len(old.text)
			continue
		}
		kept.add(old)
	}
	return kept
}

// excessByAuthor returns the bytes that each author has to drop, so that all authors together keep at most most bytes.
func (a *auditLog) excessByAuthor(most int) map[string]int {
	bytes := map[string]int{}
	for _, l := range a.lines {
		bytes[l.author] += len(l.text)
	}
	return rules.AuditExcess(bytes, most)
}

// find returns the changes that a query selects, newest first.
func (a *auditLog) find(q rules.AuditQuery) []rules.Change {
	out := []rules.Change{}
	for i := len(a.lines) - 1; i >= 0 && len(out) < q.Limit; i-- {
		if l := a.lines[i]; (q.ID == "" || l.id == q.ID) && (q.Before == 0 || l.revision < q.Before) {
			out = append(out, l.decodeChange())
		}
	}
	return out
}

// record appends a change to audit.jsonl. The caller holds mu.
func (o *Overrides) record(l auditLine) error {
	if o.torn || o.audit.isFull(l) {
		return o.rewriteAudit(l)
	}
	if err := o.disk.add(auditFile, l.text); err != nil {
		o.torn = true // part of the line may be there
		return err
	}
	return nil
}

// rewriteAudit replaces audit.jsonl by the kept changes and a line.
func (o *Overrides) rewriteAudit(l auditLine) error {
	kept := o.audit.withRoom(l)
	var buf bytes.Buffer
	for _, old := range kept.lines {
		buf.Write(old.text)
	}
	buf.Write(l.text)
	if err := o.disk.replace(auditFile, buf.Bytes()); err != nil {
		return err
	}
	o.audit, o.torn = kept, false
	return nil
}

// readAudit reads the changes. torn is true if the last line has no end, because its writer crashed before it answered.
func readAudit(d disk) (log auditLog, torn bool, err error) {
	log.max = maxAudit
	data, err := d.read(auditFile)
	if errors.Is(err, fs.ErrNotExist) {
		return log, false, nil
	}
	if err != nil {
		return log, false, err
	}
	for n := 1; len(data) > 0; n++ {
		line, rest, whole := bytes.Cut(data, []byte("\n"))
		if !whole {
			return log, true, nil
		}
		var c rules.Change
		if err := json.Unmarshal(line, &c); err != nil {
			return log, false, fmt.Errorf("filestore: %s line %d is not a change: %w; delete the line, or move the "+
				"file away to begin a new audit", d.pathOf(auditFile), n, err)
		}
		log.add(lineOfChange(c, data[:len(line)+1]))
		data = rest
	}
	return log, false, nil
}

// dropUncommitted drops the last line if overrides.json ends with the change before it. A person changed an audit that
// does not match in another way, so it stays.
func (a *auditLog) dropUncommitted(last *rules.Change) (dropped bool) {
	n := len(a.lines)
	if n == 1 && last == nil || n > 1 && last != nil && a.lines[n-2].isOf(last) {
		a.bytes -= len(a.lines[n-1].text)
		a.lines = a.lines[:n-1]
		return true
	}
	return false
}

// describeMissing describes the files or lines that were removed while the program did not run: overrides.json beside
// an audit, or lines of the audit that overrides.json counts. It returns "" if nothing is missing.
func describeMissing(d disk, env envelope, log auditLog) string {
	n := len(log.lines)
	switch {
	case env.Version == 0 && n > 0:
		return fmt.Sprintf("%s is missing, and %s has %d changes: the overrides that held are gone; put the file back, or "+
			"set them again by the audit", d.pathOf(overridesFile), auditFile, n)
	case env.Version == 0:
		return ""
	case env.Last != nil && (n == 0 || !log.lines[n-1].isOf(env.Last)):
		return fmt.Sprintf("%s does not end with the last change, of %s: the audit was cut or replaced, and the overrides "+
			"hold all the same", d.pathOf(auditFile), env.Last.At.Format(time.RFC3339))
	case n < env.Changes:
		return fmt.Sprintf("%s has %d changes, and %d were written: the audit was cut, and the overrides hold all the same",
			d.pathOf(auditFile), n, env.Changes)
	}
	return ""
}
