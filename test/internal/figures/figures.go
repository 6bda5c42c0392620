// Package figures writes the outcome of suites that others wrote, each into a file of its own, from which the program
// test/others/figures makes one document.
package figures

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// dirEnv names the folder for the files. Without it nothing is written.
const dirEnv = "HOTPARAM_FIGURES"

// Suite is the outcome of one suite.
type Suite struct {
	Name string `json:"suite"`
	// Source and Version are its name and version in its registry.
	Source  string `json:"source"`
	Version string `json:"version"`
	// Cases is the number of cases that ran, and Passed the number of those that passed. The others are in Differ.
	Cases  int          `json:"cases"`
	Passed int          `json:"passed"`
	Differ []Difference `json:"differ,omitempty"`
	// Seed is the seed of a suite that draws its cases, or 0.
	Seed    uint64  `json:"seed,omitempty"`
	Seconds float64 `json:"seconds"`
}

// Difference is a case that does not pass, with the reason.
type Difference struct {
	Case   string `json:"case"`
	Reason string `json:"reason"`
}

// unsafe matches characters that names of files do not have.
var unsafe = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// Write writes the outcome of a suite, if a folder is named for it.
func Write(t testing.TB, s Suite) {
	t.Helper()
	dir := os.Getenv(dirEnv)
	if dir == "" {
		return
	}
	data, err := json.MarshalIndent(s, "", "  ")
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, unsafe.ReplaceAllString(s.Name, "-")+".json"), append(data, '\n'), 0o644)
	}
	if err != nil {
		t.Errorf("the figures of %s: %v", s.Name, err)
	}
}
