package measure

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// Results is the folder of the results of programs without a page of their own, seen from the folder of the module.
const Results = "results"

// Report holds the results of one run of a program, as results/NAME.json has them.
type Report struct {
	Name     string            `json:"-"`
	Command  string            `json:"command"`
	Date     string            `json:"date"`
	Commit   string            `json:"commit"`
	Machine  string            `json:"machine"`
	Load     string            `json:"load"` // of the machine, before and after
	Seed     string            `json:"seed"`
	Versions map[string]string `json:"versions"`
	// From says where the figures come from, if the program did not write them.
	From   string   `json:"from,omitempty"`
	Sheets []*Sheet `json:"sheets"`

	save *bool
}

// NewReport begins the report of a program and adds the flag -save. Call it before flag.Parse. The versions are of
// peers: modules that are linked, or programs.
func NewReport(name string, peers ...string) *Report {
	r := &Report{Name: name, Date: time.Now().Format(time.DateOnly), Machine: Machine(), Load: Load(),
		Command:  strings.Join(append([]string{"go run ./" + name}, os.Args[1:]...), " "),
		Seed:     "none: the traffic is the same in each run",
		Versions: map[string]string{"go": runtime.Version()},
		save:     flag.Bool("save", false, "also write "+Results+"/"+name+".json, of which the documents are made")}
	for _, peer := range peers {
		r.Versions[peer] = ""
	}
	return r
}

// Write prints the sheets, and saves the report if -save is set.
func (r *Report) Write(sheets ...*Sheet) error {
	for _, s := range sheets {
		if err := s.Write(os.Stdout); err != nil {
			return err
		}
	}
	if !*r.save {
		return nil
	}
	r.Sheets = sheets
	r.Load += " to " + Load()
	r.Commit = Commit()
	for peer := range r.Versions {
		if peer != "go" {
			r.Versions[peer] = version(peer)
		}
	}
	return r.Save(Results)
}

// Save writes NAME.json into a folder, each row on a line of its own. It does not replace a file with rows that this
// report lacks, because documents may use them.
func (r *Report) Save(dir string) error {
	file := filepath.Join(dir, r.Name+".json")
	old, err := LoadReport(dir, r.Name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if lost := r.lost(old); len(lost) > 0 {
		return fmt.Errorf("%s is kept, because it has rows that this run lacks: %s; remove the file to replace it", file,
			strings.Join(lost, "; "))
	}
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	if err := out.Encode(r); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	lines := text.Bytes()
	// Neither text is in a value: quotation marks are escaped there.
	for _, begin := range []string{`"sheets":`, `{"higher_is_better":`, `{"what":`} {
		lines = bytes.ReplaceAll(lines, []byte(begin), []byte("\n"+begin))
	}
	return os.WriteFile(file, lines, 0o644)
}

// lost returns the rows of another report that this one lacks.
func (r *Report) lost(old *Report) (rows []string) {
	if old == nil {
		return nil
	}
	has := map[string]bool{}
	for _, s := range r.Sheets {
		for _, row := range s.Rows {
			has[row.What+", "+row.Who] = true
		}
	}
	for _, s := range old.Sheets {
		for _, row := range s.Rows {
			if name := row.What + ", " + row.Who; !has[name] {
				rows, has[name] = append(rows, name), true
			}
		}
	}
	return rows
}

// LoadReport reads NAME.json of a folder.
func LoadReport(dir, name string) (*Report, error) {
	text, err := os.ReadFile(filepath.Join(dir, name+".json"))
	if err != nil {
		return nil, err
	}
	r := &Report{Name: name}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s.json: %w", name, err)
	}
	return r, nil
}

// version returns the version of a linked module, of a program that Go built, or of another program.
func version(name string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == name {
				return m.Version
			}
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "not there"
	}
	if info, err := buildinfo.ReadFile(path); err == nil && strings.HasPrefix(info.Main.Version, "v") {
		return info.Main.Version
	}
	for _, arg := range []string{"-v", "--version", "version"} {
		out, err := exec.CommandContext(context.Background(), path, arg).CombinedOutput()
		line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		if err == nil && line != "" {
			return line
		}
	}
	return "unknown"
}
