package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/hotparam/pipeline/bench/internal/measure"
)

// tables are the tables of a program, in the order in which it first printed them.
type tables []*table

// table holds the rows of hotparam, by build.
type table struct {
	columns []string
	rows    []row
}

type row struct {
	what, build string
	values      []float64
}

// read adds the output of a build in one round: tables as measure.Sheet writes them.
func (all *tables) read(build, text string) error {
	var t *table
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case len(cells) < 4:
			t = nil
		case cells[0] == "what":
			t = all.of(cells[2 : len(cells)-1])
		case t != nil && strings.HasPrefix(cells[1], measure.Ours):
			r := row{what: cells[0] + strings.TrimPrefix(cells[1], measure.Ours), build: build}
			for _, c := range cells[2 : len(cells)-1] {
				v, err := strconv.ParseFloat(c, 64)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", build, r.what, err)
				}
				r.values = append(r.values, v)
			}
			t.rows = append(t.rows, r)
		}
	}
	return nil
}

// of returns the table with these columns.
func (all *tables) of(columns []string) *table {
	for _, t := range *all {
		if strings.Join(t.columns, "|") == strings.Join(columns, "|") {
			return t
		}
	}
	t := &table{columns: columns}
	*all = append(*all, t)
	return t
}

// write prints the rows that both builds have, as measure.Sheet does. Higher rates are better.
func (all tables) write(w io.Writer) error {
	for _, t := range all {
		s := measure.NewSheet(measure.Better(strings.Contains(t.columns[0], "/s")), t.columns...)
		builds := map[string]map[string]bool{}
		for _, r := range t.rows {
			if builds[r.what] == nil {
				builds[r.what] = map[string]bool{}
			}
			builds[r.what][r.build] = true
		}
		for _, r := range t.rows {
			if len(builds[r.what]) == 2 {
				s.Add(r.what, r.build, r.values...)
			}
		}
		if err := s.Write(w); err != nil {
			return err
		}
	}
	return nil
}
