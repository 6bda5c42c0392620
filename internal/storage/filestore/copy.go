package filestore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"

	"github.com/hotparam/pipeline/internal/dirlock"
	"github.com/hotparam/pipeline/internal/rules"
)

// copyFormat is that of a copy. Another one is not read.
const copyFormat = 1

// OverridesCopy keeps what a process last knew of the overrides that it shares with others, so that
// they hold when it starts while their store is away.
//
//	DIR/shared-overrides.json   {"version": 1, "of": […], "revision": …, "entries": {id: override as JSON text}}
//	DIR/copy.lock               held while a process has the copy open
//
// It is no store: overrides are not changed in it. One goroutine at a time may use it.
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

// OpenCopy opens the copy in a directory, and makes the directory if need be. of says whose
// overrides they are (namespace, servers): a copy of others' is not read. It fails when
// another process has it open.
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

// Load gives what was saved last; revision 0 where there is nothing that can be used. A
// damaged file is set aside, with a warning.
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

// Save keeps a state in the place of the last one.
func (c *OverridesCopy) Save(revision int64, entries map[string]string) error {
	data, err := json.MarshalIndent(sharedCopy{Version: copyFormat, Of: c.of, Revision: revision, Entries: entries}, "",
		"  ")
	if err != nil {
		return fmt.Errorf("filestore: %s: %w", copyFile, err)
	}
	if len(data) >= maxFile {
		return fmt.Errorf("filestore: %s would have %d bytes, more than %d: %w", copyFile, len(data), maxFile,
			rules.ErrTooManyOverrides)
	}
	return c.disk.replace(copyFile, append(data, '\n'))
}

// RulesCopy is the last good copy of what a central store of rules held, for a start while
// the store is away: DIR/rules.NAMESPACE.json. It is for one goroutine; programs of one
// namespace may share the file.
type RulesCopy struct {
	dir  dirDisk
	name string
}

func NewRulesCopy(dir, namespace string) *RulesCopy {
	return &RulesCopy{dirDisk(dir), "rules." + namespace + ".json"}
}

func (c *RulesCopy) Path() string { return c.dir.path(c.name) }

// Save replaces the copy, and makes the directory if need be.
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

// Load gives the copy; nil: there is none.
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
