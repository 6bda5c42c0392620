package filestore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"

	"github.com/hotparam/pipeline/internal/dirlock"
	"github.com/hotparam/pipeline/internal/persistent"
	"github.com/hotparam/pipeline/internal/rules"
)

// copyFormat is the format of a copy. A copy of another format is not read.
const copyFormat = 1

// OverridesCopy keeps the last known state of the overrides that a process shares with other processes, so that they
// hold if the process starts while their store is unreachable.
//
//	DIR/shared-overrides.json      {"version": 1, "of": […], "revision": …, "entries": {id: override as JSON text}}
//	DIR/shared-overrides.journal   the changes since, one a line; see journaledFile
//	DIR/copy.lock                  held while a process has the copy open
//
// It is not a store, because overrides are not changed in it. Only one goroutine at a time may use it.
type OverridesCopy struct {
	file journaledFile
	lock *dirlock.Lock
	of   []string
	log  *slog.Logger
	max  int // bytes of shared-overrides.json: maxFile, less in tests
	// The state that was saved or loaded last: revision 0 if there is none.
	revision int64
	entries  persistent.Map[string]
	bytes    int // of the entries in shared-overrides.json
}

const (
	copyFile    = "shared-overrides.json"
	copyJournal = "shared-overrides.journal"
)

type sharedCopy struct {
	Version  int               `json:"version"`
	Of       []string          `json:"of"`
	Revision int64             `json:"revision"`
	Entries  map[string]string `json:"entries"`
}

// copyChange is a line of the journal: the difference between two saved states.
type copyChange struct {
	Revision int64             `json:"revision"`
	Set      map[string]string `json:"set,omitempty"`
	Removed  []string          `json:"removed,omitempty"`
}

// OpenCopy opens the copy in a directory, which it makes if it does not exist. of identifies the overrides (namespace,
// servers), because a copy of other overrides must not be read. OpenCopy fails if another process has the copy open.
func OpenCopy(dir string, of []string, log *slog.Logger) (*OverridesCopy, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("filestore: %w; set --state.dir to a directory that can be written", err)
	}
	lock, err := dirlock.Take(dir, "copy.lock")
	if err != nil {
		return nil, err
	}
	c := newCopy(dirDisk(dir), of, log)
	c.lock = lock
	return c, nil
}

func newCopy(d disk, of []string, log *slog.Logger) *OverridesCopy {
	return &OverridesCopy{file: newJournaledFile(d, copyFile, copyJournal), of: of, log: log, max: maxFile}
}

// Close merges the journal into the file, for programs that read only that, and lets another process open the copy.
func (c *OverridesCopy) Close() error { return errors.Join(c.Compact(), c.lock.Close()) }

// Load returns the state that was saved last, or revision 0 if there is no usable state. It sets a damaged file aside,
// with a warning. Of a damaged journal, the changes before the damage count.
func (c *OverridesCopy) Load() (revision int64, entries map[string]string) {
	data, j, err := c.file.read()
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if bad := (*damagedLine)(nil); errors.As(err, &bad) {
		c.setAside(copyJournal, "the changes before the damage are used", err)
		err = nil
	}
	var s sharedCopy
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err == nil && (s.Version != copyFormat || s.Revision <= 0 || s.Entries == nil) {
		err = fmt.Errorf("version %d, revision %d, %d entries", s.Version, s.Revision, len(s.Entries))
	}
	if err != nil {
		c.setAside(copyFile, "it is not used", err)
		return 0, nil
	}
	if !slices.Equal(s.Of, c.of) {
		c.file.stale = true // the next Save replaces it
		c.log.Warn("filestore: the copy of the overrides is of another namespace or Redis; it is not used", "file",
			c.file.disk.pathOf(copyFile), "of", s.Of)
		return 0, nil
	}
	s.applyJournal(j.changes)
	c.reportJournal(j, s.Revision)
	c.revision, c.entries, c.bytes = s.Revision, persistent.Map[string]{}, 0
	for id, text := range s.Entries {
		c.entries, c.bytes = c.entries.With(id, text), c.bytes+textBytes(id, text)
	}
	return s.Revision, s.Entries
}

// setAside renames a damaged file. The next Save replaces it.
func (c *OverridesCopy) setAside(name, use string, err error) {
	c.file.stale = true
	path := c.file.disk.pathOf(name)
	c.log.Warn("filestore: the copy of the overrides is damaged; it is set aside, and "+use, "file", path+".damaged",
		"err", err, "rename", os.Rename(path, path+".damaged"))
}

// applyJournal applies the changes in the journal. Their checksums are right, so Save wrote them.
func (s *sharedCopy) applyJournal(changes [][]byte) {
	for _, text := range changes {
		var change copyChange
		_ = json.Unmarshal(text, &change)
		for _, id := range change.Removed {
			delete(s.Entries, id)
		}
		maps.Copy(s.Entries, change.Set)
		s.Revision = change.Revision
	}
}

// reportJournal logs the lines of the journal that are not used.
func (c *OverridesCopy) reportJournal(j journal, revision int64) {
	later := 0
	for _, text := range j.foreign {
		var change copyChange
		if json.Unmarshal(text, &change) == nil && change.Revision > revision {
			later++
		}
	}
	if later > 0 || j.torn {
		c.log.Warn("filestore: changes in the journal of the overrides' copy are not used, because the copy was edited or "+
			"replaced, or the process ended while it wrote the last one", "file", c.file.disk.pathOf(copyJournal),
			"later", later, "incomplete", j.torn)
	}
}

// Save keeps a state in place of the state before. It writes the difference of the two.
func (c *OverridesCopy) Save(revision int64, entries persistent.Map[string]) error {
	change, size := copyChange{Revision: revision, Set: map[string]string{}}, c.bytes
	for d := range entries.Changes(c.entries, func(a, b string) bool { return a == b }) {
		if d.Before != nil {
			size -= textBytes(d.Key, *d.Before)
		}
		if d.After == nil {
			change.Removed = append(change.Removed, d.Key)
			continue
		}
		change.Set[d.Key] = *d.After
		size += textBytes(d.Key, *d.After)
	}
	if n := c.headBytes() + size; n >= c.max {
		return fmt.Errorf("filestore: %s would have %d bytes, more than %d: %w", copyFile, n, c.max,
			rules.ErrTooManyOverrides)
	}
	line, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("filestore: %s: %w", copyJournal, err)
	}
	if c.revision > 0 && c.file.hasRoom(len(line)) {
		err = c.file.add(line)
	} else {
		err = c.replace(revision, entries)
	}
	if err == nil {
		c.revision, c.entries, c.bytes = revision, entries, size
	}
	return err
}

// Compact merges the journal into the file, so that the texts of replaced and removed overrides are on the disk no
// longer.
func (c *OverridesCopy) Compact() error {
	if c.revision == 0 || !c.file.hasJournal() {
		return nil
	}
	return c.replace(c.revision, c.entries)
}

func (c *OverridesCopy) replace(revision int64, entries persistent.Map[string]) error {
	data, err := json.MarshalIndent(sharedCopy{Version: copyFormat, Of: c.of, Revision: revision,
		Entries: maps.Collect(entries.All())}, "", "  ")
	if err != nil {
		return fmt.Errorf("filestore: %s: %w", copyFile, err)
	}
	return c.file.replace(append(data, '\n'))
}

// textBytes returns the bytes that an override takes in shared-overrides.json, with indentation and punctuation.
func textBytes(id, text string) int {
	return len("    : ,\n") + indentedBytes(id, "") + indentedBytes(text, "")
}

// headBytes returns an upper bound of the bytes of shared-overrides.json without its entries.
func (c *OverridesCopy) headBytes() int { return envelopeBytes + indentedBytes(c.of, "  ") }

// RulesCopy is the last good copy of the rules of a central store, for a start while the store is unreachable:
// DIR/rules.NAMESPACE.json. It is for one goroutine; programs of one namespace may share the file.
type RulesCopy struct {
	dir  dirDisk
	name string
}

func NewRulesCopy(dir, namespace string) *RulesCopy {
	return &RulesCopy{dirDisk(dir), "rules." + namespace + ".json"}
}

func (c *RulesCopy) Path() string { return c.dir.pathOf(c.name) }

// Save replaces the copy, and makes the directory if it does not exist.
func (c *RulesCopy) Save(s *rules.Stored) error {
	data, err := json.Marshal(s)
	if err == nil {
		err = os.MkdirAll(string(c.dir), 0o700)
	}
	if err != nil {
		return fmt.Errorf("filestore: %w", err)
	}
	// Programs that share the directory must not write into each other's temporary file.
	return c.dir.replaceBy(fmt.Sprintf("%s.%d%s", c.name, os.Getpid(), tempSuffix), c.name, data)
}

// Load returns the copy, or nil if there is none yet.
func (c *RulesCopy) Load() (*rules.Stored, error) {
	data, err := c.dir.read(c.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s, err := rules.DecodeStored(data)
	if err != nil {
		return nil, fmt.Errorf("filestore: %s: %w", c.Path(), err)
	}
	return s, nil
}
