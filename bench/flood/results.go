package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hotparam/pipeline/bench/internal/measure"
)

// program is the name of this program on its page.
const program = "bench/flood"

// results is the file results.json. Each study replaces its own part.
type results struct {
	Matrix   *study `json:"matrix,omitempty"`
	Cookies  *study `json:"cookies,omitempty"`
	Programs *study `json:"programs,omitempty"`
}

// readResults reads the results in a directory. Without a file there are none yet.
func readResults(dir string) (*results, error) {
	r := new(results)
	text, err := os.ReadFile(filepath.Join(dir, "results.json"))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return r, nil
	case err != nil:
		return nil, fmt.Errorf("flood: %w", err)
	}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("flood: results.json: %w", err)
	}
	return r, nil
}

// write writes results.json, and the tables of RESULTS.md.
func (r *results) write(dir string) error {
	if err := measure.SaveResults(dir, r); err != nil {
		return fmt.Errorf("flood: %w", err)
	}
	name := filepath.Join(dir, "RESULTS.md")
	page, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("flood: %w", err)
	}
	after, err := measure.WithTables(string(page), program, r.tables())
	if err != nil {
		return err
	}
	return os.WriteFile(name, []byte(after), 0o644)
}
