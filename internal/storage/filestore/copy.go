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
//	DIR/shared-overrides.json   {"version": 1, "of": […], "revision": …, "entries": {id: override as JSON text}}
//	DIR/copy.lock               held while a process has the copy open
//
// It is not a store, because overrides are not changed in it. Only one goroutine at a time may use it.
type OverridesCopy struct {
	disk disk
	lock *dirlock.Lock
	of   []string
	log  *slog.Logger
}

const copyFile = "shared-overrides.json"

type sharedCopy struct {
	Version  int               `json:"version"`
	Of       []string          `json:"of"`
	Revision int64             `json:"revision"`
	Entries  map[string]string `json:"entries"`
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
	return &OverridesCopy{disk: dirDisk(dir), lock: lock, of: of, log: log}, nil
}

// Close lets another process open the copy.
func (c *OverridesCopy) Close() error { return c.lock.Close() }

// Load returns the state that was saved last, or revision 0 if there is no usable state. It sets a damaged file aside,
// with a warning.
func (c *OverridesCopy) Load() (revision int64, entries map[string]string) {
	data, err := c.disk.read(copyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	var s sharedCopy
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err == nil && (s.Version != copyFormat || s.Revision <= 0 || s.Entries == nil) {
		err = fmt.Errorf("version %d, revision %d, %d entries", s.Version, s.Revision, len(s.Entries))
	}
	if err != nil {
		path := c.disk.path(copyFile)
		c.log.Warn("filestore: the copy of the overrides is damaged; it is set aside and not used", "file",
			path+".damaged", "err", err, "rename", os.Rename(path, path+".damaged"))
		return 0, nil
	}
	if !slices.Equal(s.Of, c.of) {
		c.log.Warn("filestore: the copy of the overrides is of another namespace or Redis; it is not used", "file",
			c.disk.path(copyFile), "of", s.Of)
		return 0, nil
	}
	return s.Revision, s.Entries
}

// Save replaces the saved state.
func (c *OverridesCopy) Save(revision int64, entries persistent.Map[string]) error {
	data, err := json.MarshalIndent(sharedCopy{Version: copyFormat, Of: c.of, Revision: revision,
		Entries: maps.Collect(entries.All())}, "", "  ")
	if err != nil {
		return fmt.Errorf("filestore: %s: %w", copyFile, err)
	}
	if len(data) >= maxFile {
		return fmt.Errorf("filestore: %s would have %d bytes, more than %d: %w", copyFile, len(data), maxFile,
			rules.ErrTooManyOverrides)
	}
	return c.disk.replace(copyFile, append(data, '\n'))
}

// RulesCopy is the last good copy of the rules of a central store, for a start while the store is unreachable:
// DIR/rules.NAMESPACE.json. It is for one goroutine; programs of one namespace may share the file.
type RulesCopy struct {
	dir  dirDisk
	name string
}

func NewRulesCopy(dir, namespace string) *RulesCopy {
	return &RulesCopy{dirDisk(dir), "rules." + namespace + ".json"}
}

func (c *RulesCopy) Path() string { return c.dir.path(c.name) }

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
