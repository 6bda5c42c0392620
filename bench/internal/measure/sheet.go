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
	Better  Better   `json:"higher_is_better"`
	Columns []string `json:"columns"`
	Rows    []*Row   `json:"rows"`
}

// Row holds one sample for each round of a contender.
type Row struct {
	What   string      `json:"what"`
	Who    string      `json:"who"`
	Rounds [][]float64 `json:"rounds"` // each with a value for each column
	// Ratio is the ratio by which ours is better, where the rounds are from a printed table: its lowest, median and
	// highest values are of different rounds.
	Ratio float64 `json:"ratio,omitempty"`
}

// NewSheet returns an empty sheet. Contenders are compared by the first column.
func NewSheet(better Better, columns ...string) *Sheet {
	return &Sheet{Columns: columns, Better: better}
}

// Add records the results of one round, one value for each column.
func (s *Sheet) Add(what, who string, values ...float64) {
	r := s.find(what, who)
	if r == nil {
		r = &Row{What: what, Who: who}
		s.Rows = append(s.Rows, r)
	}
	r.Rounds = append(r.Rounds, values)
}

func (s *Sheet) find(what, who string) *Row {
	for _, r := range s.Rows {
		if r.What == what && r.Who == who {
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
		strings.Join(s.Columns, " | "), strings.Repeat("---|", len(s.Columns)+1))
	slices.SortStableFunc(s.Rows, func(x, y *Row) int { return cmp.Compare(s.first(x.What), s.first(y.What)) })
	for _, r := range s.Rows {
		fmt.Fprintf(&b, "| %s | %s |", r.What, r.Who)
		for c := range s.Columns {
			fmt.Fprintf(&b, " %s |", cell(r.Column(c)))
		}
		fmt.Fprintf(&b, " %s |\n", s.ratio(r))
	}
	_, err := io.WriteString(w, b.String()+"\n")
	return err
}

// first returns the place of the first row of a question, where its rows stand together.
func (s *Sheet) first(what string) int {
	return slices.IndexFunc(s.Rows, func(r *Row) bool { return r.What == what })
}

func (s *Sheet) ratio(r *Row) string {
	if x := s.Ratio(r); x > 0 {
		return Number(x) + " x"
	}
	return ""
}

// Ratio returns by how much ours is better than the contender of a row: the median of the ratios of the rounds, by the
// first column. It is 0 where there is nothing to compare.
func (s *Sheet) Ratio(r *Row) float64 {
	ours := s.find(r.What, Ours)
	if ours == nil || strings.HasPrefix(r.Who, Ours) || strings.HasPrefix(r.Who, "(") {
		return 0
	}
	if r.Ratio > 0 || len(ours.Rounds) != len(r.Rounds) {
		return r.Ratio
	}
	var ratios []float64
	for i := range r.Rounds {
		x := r.Rounds[i][0] / ours.Rounds[i][0]
		if s.Better == Higher {
			x = 1 / x
		}
		ratios = append(ratios, x)
	}
	return Median(ratios)
}

// Column returns the values of a column in all rounds.
func (r *Row) Column(c int) []float64 {
	values := make([]float64, len(r.Rounds))
	for i := range r.Rounds {
		values[i] = r.Rounds[i][c]
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
	median, low, high := Number(Median(values)), Number(slices.Min(values)), Number(slices.Max(values))
	if low == high {
		return median
	}
	return fmt.Sprintf("%s (%s-%s)", median, low, high)
}

// Number formats three digits, or more if they are before the point. Values below a two-thousandth are 0.
func Number(x float64) string {
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
