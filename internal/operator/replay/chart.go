package replay

import (
	"slices"
	"strings"
)

// pictureRows is the height of the picture in lines.
const pictureRows = 5

// bars are the eighths of a cell.
var bars = [...]string{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}

// picture draws the busiest second of each column, and below it what was
// denied.
func (p *page) picture(t *Timeline) {
	const margin = 8
	peaks, each := columns(t.Peak, p.Width-margin, func(a, b int64) int64 { return max(a, b) })
	denied, _ := columns(t.Denied, p.Width-margin, func(a, b int64) int64 { return a + b })
	most := slices.Max(peaks)
	p.heading("Requests in the busiest second of every " + span(t.Step*int64(each)))
	for row := pictureRows - 1; row >= 0; row-- {
		label := ""
		if row == pictureRows-1 {
			label = Grouped(most)
		}
		p.printf("%*s %s\n", margin-1, label, strings.TrimRight(cells(peaks, most, row, pictureRows), " "))
	}
	if worst := slices.Max(denied); worst > 0 {
		p.printf("%*s %s\n", margin-1, "denied", p.paint(red, strings.TrimRight(cells(denied, worst, 0, 1), " ")))
	}
	from, until := Clock(t.From), Clock(t.From+t.Step*int64(len(t.Peak)))
	gap := max(len(peaks)-len(from)-len(until), 1)
	p.printf("%*s %s\n", margin-1, "", p.paint(dim, from+strings.Repeat(" ", gap)+until))
}

// columns joins so many steps into one column that all fit, and returns how many.
func columns(steps []int64, width int, join func(a, b int64) int64) (joined []int64, each int) {
	each = max((len(steps)+width-1)/width, 1)
	for i, n := range steps {
		if i%each == 0 {
			joined = append(joined, n)
			continue
		}
		last := &joined[len(joined)-1]
		*last = join(*last, n)
	}
	return joined, each
}

// cells draws one row of a bar chart, row 0 at the bottom. Whatever is not 0
// has at least the lowest bar.
func cells(values []int64, most int64, row, rows int) string {
	var b strings.Builder
	for _, v := range values {
		eighths := 0
		if v > 0 {
			eighths = max(int(float64(v)/float64(most)*float64(8*rows)+0.5), 1)
		}
		b.WriteString(bars[min(max(eighths-8*row, 0), 8)])
	}
	return b.String()
}
