package main

import (
	"fmt"
	"math"
	"strings"
)

func (r *results) tables() string {
	var b strings.Builder
	if r.Matrix != nil {
		r.Matrix.writeHead(&b, "The matrix")
		r.Matrix.writeMatrix(&b)
	}
	if r.Cookies != nil {
		r.Cookies.writeHead(&b, "Crawlers that keep cookies")
		r.Cookies.writeCookies(&b)
	}
	if r.Programs != nil {
		r.Programs.writeHead(&b, "Real programs")
		r.Programs.writePrograms(&b)
	}
	return b.String()
}

func (s *study) writeHead(b *strings.Builder, title string) {
	fmt.Fprintf(b, "\n### %s\n\n`%s` at %s, %s, %s; load of the machine %s (other work)", title, s.Command, s.Commit,
		s.Go, s.Machine, s.Load)
	if s.Seed > 0 {
		fmt.Fprintf(b, "; seed %d", s.Seed)
	}
	b.WriteString(".\n\n")
}

func writeRow(b *strings.Builder, fields ...any) {
	for _, f := range fields {
		fmt.Fprintf(b, "| %v ", f)
	}
	b.WriteString("|\n")
}

func writeHeads(b *strings.Builder, heads ...any) {
	writeRow(b, heads...)
	b.WriteString(strings.Repeat("|---", len(heads)) + "|\n")
}

// writeMatrix writes a row for each cell: the cells without a flood come first.
func (s *study) writeMatrix(b *strings.Builder) {
	writeHeads(b, "limit", "processes", "start", "crawler", "addresses", "members, first 10 s", "members", "readers",
		"new readers in within", "crawler answered", "p99", "used", "goals")
	for _, r := range s.Rows {
		crawler, goals := fmt.Sprintf("%d x", r.Times), ""
		switch {
		case r.Times == 0:
			crawler = "none"
		case isGoal(r.Limit):
			goals = "all"
			if misses := r.misses(s.quietP99()); len(misses) > 0 {
				goals = "not " + strings.Join(misses, ", ")
			}
		}
		writeRow(b, r.Limit, r.Processes, r.Moment, crawler, r.Addresses, percent(r.Early), percent(r.Members),
			percent(r.Readers), fmt.Sprintf("%.1f s", r.Entry), percent(r.Crawler), fmt.Sprintf("%.0f ms", r.P99),
			percent(r.Used), goals)
	}
}

// percent returns a share in the precision that distinguishes nearly all from all.
func percent(f float64) string {
	switch {
	case f >= 100:
		return "100 %"
	case f >= 98:
		return fmt.Sprintf("%.2f %%", math.Floor(100*f)/100)
	}
	return fmt.Sprintf("%.1f %%", f)
}

// quietP99 returns the highest 0.99 quantile of a cell without a flood.
func (s *study) quietP99() (p99 float64) {
	for _, r := range s.Rows {
		if r.Times == 0 {
			p99 = max(p99, r.P99)
		}
	}
	return p99
}

// writeCookies writes a row for each cell, with the share of answered readers in each phase.
func (s *study) writeCookies(b *strings.Builder) {
	writeHeads(b, "limit", "crawler", "addresses", "keep cookies", "readers' passes at first", "readers: ten minutes",
		"until an hour", "second hour", "new readers: ten minutes", "second hour", "members", "p99", "used")
	for i := 0; i+len(phases) <= len(s.Rows); i += len(phases) {
		rows := s.Rows[i : i+len(phases)]
		first, last := rows[0], rows[len(phases)-1]
		least, most := first.Members, first.P99
		for _, r := range rows {
			least, most = min(least, r.Members), max(most, r.P99)
		}
		passes := "none"
		if first.Passes != "" {
			passes = "two hours old"
		}
		writeRow(b, first.Limit, fmt.Sprintf("%d x", first.Times), first.Addresses, percent(first.Keeping), passes,
			percent(first.Readers), percent(rows[1].Readers), percent(last.Readers), percent(first.Strangers),
			percent(last.Strangers), percent(least), fmt.Sprintf("%.0f ms", most), percent(last.Used))
	}
}

// writePrograms writes a row for each cell with real programs.
func (s *study) writePrograms(b *strings.Builder) {
	writeHeads(b, "cell", "limit", "programs", "start", "crawler sent", "addresses", "members", "readers",
		"new readers in within", "crawler answered", "p99", "answered", "used")
	for _, r := range s.Rows {
		writeRow(b, r.Cell, r.Limit, r.Processes, r.Moment, fmt.Sprintf("%.0f/s", r.Sent), r.Addresses,
			percent(r.Members), percent(r.Readers), fmt.Sprintf("%.1f s", r.Entry), percent(r.Crawler),
			fmt.Sprintf("%.0f ms", r.P99), fmt.Sprintf("%.1f/s", r.Answered), percent(r.Used))
	}
}
