package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/hotparam/pipeline/bench/internal/measure"
)

// figures finds figures in the files of this module.
type figures struct{ bench string }

// figure is a number that prints with up to three digits.
type figure float64

// String returns the figure with up to three digits, without zeros at the end.
func (f figure) String() string {
	text := measure.Number(float64(f))
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// functions returns the functions of a template. NAME is a file of results/, without its extension; WHAT, WHO and
// COLUMN are as the file has them.
func (f *figures) functions() template.FuncMap {
	return template.FuncMap{
		"median":   f.median,   // median NAME WHAT WHO COLUMN: of all rounds
		"between":  f.between,  // between NAME WHAT WHO COLUMN: the lowest and the highest of all rounds
		"ratio":    f.ratio,    // ratio NAME WHAT WHO: the median by which hotparam is better, by the first column
		"highest":  f.highest,  // highest NAME COLUMN: of the medians of hotparam
		"run":      f.run,      // run NAME: date and load
		"runs":     f.runs,     // runs: a table of all programs, with machine, versions and commit
		"sheets":   f.sheets,   // sheets NAME: all tables of a program
		"recorded": f.recorded, // recorded FIGURE: a figure of results/recorded.json
		"at":       f.at,       // at FILE PATH: a number in another JSON file, such as "rows[limit=one key;times=4].members"
		"least":    f.least,    // least FILE PATH: the lowest of all numbers at the path
		"cell":     f.cell,     // cell FILE ROW COLUMN N: the nth number of a cell of a Markdown table
		"add":      func(a, b any) (figure, error) { return both(a, b, func(x, y float64) float64 { return x + y }) },
		"sub":      func(a, b any) (figure, error) { return both(a, b, func(x, y float64) float64 { return x - y }) },
		"mul":      func(a, b any) (figure, error) { return both(a, b, func(x, y float64) float64 { return x * y }) },
		"div":      func(a, b any) (figure, error) { return both(a, b, func(x, y float64) float64 { return x / y }) },
		"round": func(digits int, a any) (string, error) { // round DIGITS FIGURE: with digits after the point
			x, err := number(a)
			return strconv.FormatFloat(x, 'f', digits, 64), err
		},
		"floor": func(digits int, a any) (figure, error) { // floor DIGITS FIGURE: 99.96 % is not all
			x, err := number(a)
			p := math.Pow10(digits)
			return figure(math.Floor(x*p) / p), err
		},
		"thousands": func(a any) (string, error) { // thousands FIGURE: whole, with a comma
			x, err := number(a)
			if x < 1000 {
				return fmt.Sprintf("%.0f", x), err
			}
			return fmt.Sprintf("%d,%03d", int(x)/1000, int(x)%1000), err
		},
	}
}

func number(a any) (float64, error) { return strconv.ParseFloat(fmt.Sprintf("%v", plain(a)), 64) }

// plain returns a figure without its format.
func plain(a any) any {
	if f, ok := a.(figure); ok {
		return float64(f)
	}
	return a
}

func both(a, b any, f func(x, y float64) float64) (figure, error) {
	x, err := number(a)
	y, err2 := number(b)
	return figure(f(x, y)), errors.Join(err, err2)
}

// report loads a file of results/.
func (f *figures) report(name string) (*measure.Report, error) {
	dir := filepath.Join(f.bench, measure.Results)
	r, err := measure.LoadReport(dir, name)
	if errors.Is(err, os.ErrNotExist) {
		files, _ := filepath.Glob(filepath.Join(dir, "*.json")) // fails only for a bad pattern
		return nil, fmt.Errorf("%q is none of the results: %q", name, files)
	}
	return r, err
}

// values returns the values of all rounds, of the sheet with most rounds: a printed table has some rows twice.
func (f *figures) values(name, what, who, column string) ([]float64, error) {
	r, err := f.report(name)
	if err != nil {
		return nil, err
	}
	var rows, columns []string
	var values []float64
	for _, s := range r.Sheets {
		for _, row := range s.Rows {
			rows = append(rows, fmt.Sprintf("%q %q", row.What, row.Who))
			if row.What != what || row.Who != who {
				continue
			}
			columns = append(columns, s.Columns...)
			if c := slices.Index(s.Columns, column); c >= 0 && len(row.Rounds) > len(values) {
				values = row.Column(c)
			}
		}
	}
	if len(values) > 0 {
		return values, nil
	}
	if len(columns) == 0 {
		return nil, fmt.Errorf("%s.json has no row %q %q, but\n%s", name, what, who, strings.Join(rows, "\n"))
	}
	return nil, fmt.Errorf("%s.json has no column %q of %q %q, but %q", name, column, what, who, columns)
}

func (f *figures) median(name, what, who, column string) (figure, error) {
	values, err := f.values(name, what, who, column)
	return figure(measure.Median(values)), err
}

func (f *figures) between(name, what, who, column string) (string, error) {
	values, err := f.values(name, what, who, column)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%v–%v", figure(slices.Min(values)), figure(slices.Max(values))), nil
}

func (f *figures) ratio(name, what, who string) (string, error) {
	r, err := f.report(name)
	if err != nil {
		return "", err
	}
	var rows []string
	for _, s := range r.Sheets {
		for _, row := range s.Rows {
			rows = append(rows, fmt.Sprintf("%q %q", row.What, row.Who))
			if row.What != what || row.Who != who {
				continue
			}
			switch x := s.Ratio(row); {
			case x >= 10:
				return fmt.Sprintf("%.0f", x), nil
			case x >= 2:
				return fmt.Sprintf("%.1f", x), nil
			case x > 0:
				return fmt.Sprintf("%.2f", x), nil
			}
		}
	}
	return "", fmt.Errorf("%s.json has no ratio of %q %q; its rows are\n%s", name, what, who, strings.Join(rows, "\n"))
}

func (f *figures) highest(name, column string) (most figure, err error) {
	r, err := f.report(name)
	if err != nil {
		return 0, err
	}
	found := false
	for _, s := range r.Sheets {
		for _, row := range s.Rows {
			if c := slices.Index(s.Columns, column); c >= 0 && row.Who == measure.Ours {
				most, found = max(most, figure(measure.Median(row.Column(c)))), true
			}
		}
	}
	if !found {
		return 0, fmt.Errorf("%s.json has no column %q", name, column)
	}
	return most, nil
}

func (f *figures) recorded(name string) (figure, error) {
	var file struct {
		Runs []struct {
			Figures map[string]float64 `json:"figures"`
		} `json:"runs"`
	}
	if err := f.load("results/recorded.json", &file); err != nil {
		return 0, err
	}
	var names []string
	for _, run := range file.Runs {
		if x, ok := run.Figures[name]; ok {
			return figure(x), nil
		}
		for n := range run.Figures {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return 0, fmt.Errorf("recorded.json has no figure %q, but\n%s", name, strings.Join(names, "\n"))
}

func (f *figures) load(file string, into any) error {
	text, err := os.ReadFile(filepath.Join(f.bench, file))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

var step = regexp.MustCompile(`([^.\[]+)(?:\[([^\]]+)\])?`)

// at follows a path: a name chooses a field, and conditions behind it the objects of a list that meet them. It returns
// the number of the first.
func (f *figures) at(file, path string) (figure, error) {
	all, err := f.follow(file, path)
	if err != nil {
		return 0, err
	}
	return all[0], nil
}

// least returns the lowest number of a path.
func (f *figures) least(file, path string) (figure, error) {
	all, err := f.follow(file, path)
	if err != nil {
		return 0, err
	}
	return slices.Min(all), nil
}

func (f *figures) follow(file, path string) (all []figure, err error) {
	var root any
	if err := f.load(file, &root); err != nil {
		return nil, err
	}
	values := []any{root}
	for _, s := range step.FindAllStringSubmatch(path, -1) {
		var next []any
		for _, value := range values {
			fields, _ := value.(map[string]any)
			list, isList := fields[s[1]].([]any)
			if !isList {
				next = append(next, fields[s[1]])
			}
			for _, one := range list {
				if meets(one, s[2]) {
					next = append(next, one)
				}
			}
		}
		values = next
	}
	for _, value := range values {
		x, err := number(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", file, path, err)
		}
		all = append(all, figure(x))
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: nothing is at %s", file, path)
	}
	return all, nil
}

func meets(one any, conditions string) bool {
	fields, _ := one.(map[string]any)
	for condition := range strings.SplitSeq(conditions, ";") {
		if name, want, ok := strings.Cut(condition, "="); ok && fmt.Sprint(fields[name]) != want {
			return false
		}
	}
	return true
}
