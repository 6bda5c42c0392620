package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hotparam/pipeline/bench/internal/measure"
)

// run describes when and how busily a program ran.
func (f *figures) run(name string) (string, error) {
	r, err := f.report(name)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, load %s", r.Date, r.Load), nil
}

var (
	release = regexp.MustCompile(`[0-9]+(\.[0-9]+)+`)
	major   = regexp.MustCompile(`/v[0-9]+$`)
)

// runs returns a row for each program.
func (f *figures) runs() (string, error) {
	files, err := filepath.Glob(filepath.Join(f.bench, measure.Results, "*.json"))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("| command | date | machine | load | commit | versions |\n|---|---|---|---|---|---|\n")
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if name == "recorded" {
			continue
		}
		r, err := f.report(name)
		if err != nil {
			return "", err
		}
		var versions []string
		for peer, v := range r.Versions {
			if short := release.FindString(v); short != "" {
				v = short
			}
			versions = append(versions, filepath.Base(major.ReplaceAllString(peer, ""))+" "+v)
		}
		slices.Sort(versions)
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", r.Command, r.Date, r.Machine, r.Load, r.Commit,
			strings.Join(versions, ", "))
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// sheets returns the tables of a program as it prints them.
func (f *figures) sheets(name string) (string, error) {
	r, err := f.report(name)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "`%s`,\n%s, load %s, commit %s\n", r.Command, r.Date, r.Load, r.Commit)
	if r.From != "" {
		fmt.Fprintf(&b, "(%s)\n", r.From)
	}
	b.WriteString("\n")
	for _, s := range r.Sheets {
		if err := s.Write(&b); err != nil {
			return "", err
		}
	}
	return strings.TrimSuffix(b.String(), "\n\n"), nil
}

var digits = regexp.MustCompile(`[0-9]+(?:\.[0-9]+)?`)

// cell returns the nth number of a cell, in the first table of a file that has the row and the column.
func (f *figures) cell(file, row, column string, n int) (figure, error) {
	text, err := os.ReadFile(filepath.Join(f.bench, file))
	if err != nil {
		return 0, err
	}
	var head []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch c := slices.Index(head, column); {
		case len(cells) < 2:
			head = nil
		case head == nil:
			head = cells
		case cells[0] == row && c > 0 && c < len(cells):
			if all := digits.FindAllString(cells[c], -1); n >= 1 && n <= len(all) {
				x, err := strconv.ParseFloat(all[n-1], 64)
				return figure(x), err
			}
		}
	}
	return 0, fmt.Errorf("%s has no number %d in row %q, column %q", file, n, row, column)
}
