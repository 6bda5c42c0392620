package main

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/hotparam/pipeline/bench/internal/measure"
)

// study holds the rows of one table, and the circumstances in which they were made.
type study struct {
	Command string   `json:"command"`
	Commit  string   `json:"commit"`
	Machine string   `json:"machine"`
	Go      string   `json:"go"`
	Load    string   `json:"load"` // of the machine, before and after
	Seed    uint64   `json:"seed,omitempty"`
	Rows    []result `json:"rows"`
}

func newStudy(command string, seed uint64) *study {
	return &study{Command: command, Commit: measure.Commit(), Machine: measure.Machine(), Go: runtime.Version(), Load: measure.Load(),
		Seed: seed}
}

// simulateAll plays cells, as many at a time as there are processors, and returns the rows of each in their order.
// rows returns the rows of a cell.
func (s *study) simulateAll(list []cell, rows func(*crowd) []result) error {
	all := make([][]result, len(list))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range list {
		group.Go(func() error {
			w, err := simulate(&list[i], s.Seed)
			if err != nil {
				return err
			}
			all[i] = rows(w)
			r := &all[i][0]
			fmt.Fprintf(os.Stderr, "%s, %s, %s, %d times from %d: members %.2f %%, readers %.2f %%\n", r.Limit,
				r.Processes, r.Moment, r.Times, r.Addresses, r.Members, r.Readers)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, rows := range all {
		s.Rows = append(s.Rows, rows...)
	}
	s.Load += " to " + measure.Load()
	return nil
}

// wholeCell returns the only row of a cell.
func wholeCell(w *crowd) []result { return []result{w.result(w.judged(), w.seconds)} }

// phases are the parts of a long flood, in seconds after it begins.
var phases = [][2]int{{settled, 600}, {600, 3600}, {3600, cookieHours * 3600}}

// eachPhase returns a row for each part of a long flood.
func eachPhase(w *crowd) (rows []result) {
	for _, p := range phases {
		rows = append(rows, w.result(w.flood+p[0], w.flood+p[1]))
	}
	return rows
}
