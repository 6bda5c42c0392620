package filestore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/hotparam/pipeline/internal/rules"
)

// RulesCopy is the last good copy of what a central store of rules held, for a start while
// the store is away: DIR/rules.NAMESPACE.json. It is for one goroutine; programs of one
// namespace may share the file.
type RulesCopy struct {
	dir  folder
	name string
}

// NewRulesCopy touches nothing.
func NewRulesCopy(dir, namespace string) *RulesCopy {
	return &RulesCopy{folder(dir), "rules." + namespace + ".json"}
}

// Path is the file.
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
