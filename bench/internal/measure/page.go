package measure

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// A benchmark with a page has results.json in its folder, and makes the tables of RESULTS.md and its pictures from it.

// LoadResults returns results.json of a folder.
func LoadResults[R any](dir string) (*R, error) {
	name := filepath.Join(dir, "results.json")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("%w; measure first, without -draw", err)
	}
	results := new(R)
	if err := json.Unmarshal(text, results); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return results, nil
}

// SaveResults writes results.json of a folder.
func SaveResults(dir string, results any) error {
	text, err := json.MarshalIndent(results, "", " ")
	if err != nil {
		return fmt.Errorf("results.json: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, "results.json"), append(text, '\n'), 0o644)
}

// RenderPage returns the page of a folder with its tables and the pictures, by the names of their files.
func RenderPage[P interface{ SVG() []byte }](dir, name, tables string,
	pictures map[string]P) (map[string][]byte, error) {
	page := filepath.Join(dir, "RESULTS.md")
	before, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	after, err := WithTables(string(before), name, tables)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", page, err)
	}
	files := map[string][]byte{page: []byte(after)}
	for picture, p := range pictures {
		files[filepath.Join(dir, picture)] = p.SVG()
	}
	return files, nil
}

// RenderPart adds docs/performance.md to the files of a folder of this module, with the part that a program, such as
// bench/flood, computes for it.
func RenderPart(files map[string][]byte, dir, program, text string) error {
	name := filepath.Join(dir, "../../docs/performance.md")
	before, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	after, err := WithComputed(string(before), program, text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	files[name] = []byte(after)
	return nil
}

// WriteFiles writes files by their names.
func WriteFiles(files map[string][]byte) error {
	for name, text := range files {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// CheckFiles returns an error for each file on disk that differs from the given one, and for each picture that is not
// well-formed.
func CheckFiles(files map[string][]byte) (errs []error) {
	for name, want := range files {
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			errs = append(errs, fmt.Errorf("%s does not fit results.json (%v): run its program with -draw", name, err))
		}
		if filepath.Ext(name) != ".svg" {
			continue
		}
		for d := xml.NewDecoder(bytes.NewReader(want)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
				break
			}
		}
	}
	return errs
}
