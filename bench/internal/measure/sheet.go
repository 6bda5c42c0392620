package measure

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Ours is the contender with which all others are compared.
const Ours = "hotparam"

// Better is the direction in which the first column of a sheet is better.
type Better bool

// The two directions.
const (
	Lower  Better = false
	Higher Better = true
)

// Sheet collects measurements: one row for each contender of each question, with one sample for each round. It is not
// for concurrent use.
type Sheet struct {
	columns []string
	better  Better
	rows    []*row
}

type row struct {
	what, who string
	rounds    [][]float64
}

// NewSheet returns an empty sheet. Contenders are compared by the first column.
func NewSheet(better Better, columns ...string) *Sheet {
	return &Sheet{columns: columns, better: better}
}

// Add records the results of one round, one value for each column.
func (s *Sheet) Add(what, who string, values ...float64) {
	r := s.find(what, who)
	if r == nil {
		r = &row{what: what, who: who}
		s.rows = append(s.rows, r)
	}
	r.rounds = append(r.rounds, values)
}

func (s *Sheet) find(what, who string) *row {
	for _, r := range s.rows {
		if r.what == what && r.who == who {
			return r
		}
	}
	return nil
}

// Write prints the sheet as a Markdown table. A cell is the median of the rounds and, if they differ, the minimum and
// the maximum. The last column is the ratio by which ours is better than the row's contender, by the first column. It
// is empty for variants of ours and for names in brackets, which are not contenders but show the cost of the machine or
// the traffic alone.
func (s *Sheet) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "| what | who | %s | ours is better |\n|---|---|%s\n",
		strings.Join(s.columns, " | "), strings.Repeat("---|", len(s.columns)+1))
	slices.SortStableFunc(s.rows, func(x, y *row) int { return cmp.Compare(s.first(x.what), s.first(y.what)) })
	for _, r := range s.rows {
		fmt.Fprintf(&b, "| %s | %s |", r.what, r.who)
		for c := range s.columns {
			fmt.Fprintf(&b, " %s |", cell(r.column(c)))
		}
		fmt.Fprintf(&b, " %s |\n", s.ratio(r))
	}
	_, err := io.WriteString(w, b.String()+"\n")
	return err
}

// first returns the place of the first row of a question, where its rows stand together.
func (s *Sheet) first(what string) int {
	return slices.IndexFunc(s.rows, func(r *row) bool { return r.what == what })
}

func (s *Sheet) ratio(r *row) string {
	ours := s.find(r.what, Ours)
	if ours == nil || strings.HasPrefix(r.who, Ours) || strings.HasPrefix(r.who, "(") ||
		len(ours.rounds) != len(r.rounds) {
		return ""
	}
	var ratios []float64
	for i := range r.rounds {
		x := r.rounds[i][0] / ours.rounds[i][0]
		if s.better == Higher {
			x = 1 / x
		}
		ratios = append(ratios, x)
	}
	return number(Median(ratios)) + " x"
}

func (r *row) column(c int) []float64 {
	values := make([]float64, len(r.rounds))
	for i := range r.rounds {
		values[i] = r.rounds[i][c]
	}
	return values
}

// Median returns the middle value, or the mean of the two middle values of an even number.
func Median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	if len(v) == 0 {
		return 0
	}
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

func cell(values []float64) string {
	median, low, high := number(Median(values)), number(slices.Min(values)), number(slices.Max(values))
	if low == high {
		return median
	}
	return fmt.Sprintf("%s (%s-%s)", median, low, high)
}

// number formats three digits, or more if they are before the point. Values below a two-thousandth are 0.
func number(x float64) string {
	switch {
	case x >= 100 || x == float64(int64(x)):
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	case x >= 0.01:
		return fmt.Sprintf("%.2f", x)
	case x >= 0.0005:
		return fmt.Sprintf("%.3f", x)
	}
	return "0"
}
