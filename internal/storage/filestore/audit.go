package filestore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/hotparam/pipeline/internal/rules"
)

const auditFile = "audit.jsonl"

// slack is how many lines over MaxAudit the file may have before it is written
// anew: trimming at every change would write it a thousand times as often.
const slack = 250

// record appends a change to audit.jsonl. The caller holds mu.
func (o *Overrides) record(c rules.Change) error {
	line, err := json.Marshal(c.Stored())
	if err != nil {
		return fmt.Errorf("filestore: a change of override %q cannot be written: %w", c.ID, err)
	}
	line = append(line, '\n')
	if o.torn || o.lines >= MaxAudit+slack {
		return o.rewrite(line)
	}
	if err := o.disk.add(auditFile, line); err != nil {
		o.torn = true // part of the line may be there
		return err
	}
	o.lines++
	return nil
}

// rewrite replaces audit.jsonl by what is known and one more line.
func (o *Overrides) rewrite(line []byte) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	for _, c := range o.audit {
		if err := enc.Encode(c.Stored()); err != nil {
			return fmt.Errorf("filestore: %s: %w", auditFile, err)
		}
	}
	buf.Write(line)
	if err := o.disk.replace(auditFile, buf.Bytes()); err != nil {
		return err
	}
	o.lines, o.torn = len(o.audit)+1, false
	return nil
}

// readAudit reads the changes. Torn is true when the last line has no end: its
// writer crashed before it answered.
func readAudit(d disk) (changes []rules.Change, torn bool, err error) {
	data, err := d.read(auditFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	for n := 1; len(data) > 0; n++ {
		line, rest, whole := bytes.Cut(data, []byte("\n"))
		if !whole {
			return changes, true, nil
		}
		var c rules.Change
		if err := json.Unmarshal(line, &c); err != nil {
			return nil, false,
				fmt.Errorf(
					"filestore: %s line %d is not a change: %w; delete the line, or move the file away to begin a new audit",
					d.path(auditFile), n, err)
		}
		changes, data = append(changes, c.Loaded().Numbered()), rest
	}
	return changes, false, nil
}

// dropUncommitted drops the last line where overrides.json ends with the one before
// it. An audit that does not fit otherwise was changed by a person, and stays.
func dropUncommitted(audit []rules.Change, last *rules.Change) []rules.Change {
	n := len(audit)
	switch {
	case n == 0:
		return audit
	case n == 1 && last == nil, n > 1 && last != nil && same(audit[n-2], *last):
		return audit[:n-1]
	}
	return audit
}

func same(a, b rules.Change) bool {
	return a.At.Equal(b.At) && a.ID == b.ID && a.Action == b.Action
}
