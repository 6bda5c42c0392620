package replay

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const pictureRows = 5

var bars = [...]string{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}

// writeChart draws the busiest second of each column, and below it the denied requests.
func (p *page) writeChart(t *Timeline) {
	const margin = 8
	peaks, each := joinColumns(t.Peak, p.Width-margin, func(a, b int64) int64 { return max(a, b) })
	denied, _ := joinColumns(t.Denied, p.Width-margin, func(a, b int64) int64 { return a + b })
	most := slices.Max(peaks)
	p.writeHeading("Requests in the busiest second of every " + formatSpan(t.Step*int64(each)))
	for row := pictureRows - 1; row >= 0; row-- {
		label := ""
		if row == pictureRows-1 {
			label = Grouped(most)
		}
		p.printf("%*s %s\n", margin-1, label, strings.TrimRight(drawBarRow(peaks, most, row, pictureRows), " "))
	}
	if worst := slices.Max(denied); worst > 0 {
		p.printf("%*s %s\n", margin-1, "denied",
			p.paintText(red, strings.TrimRight(drawBarRow(denied, worst, 0, 1), " ")))
	}
	from, until := Clock(t.From), Clock(t.From+t.Step*int64(len(t.Peak)))
	gap := max(len(peaks)-len(from)-len(until), 1)
	p.printf("%*s %s\n", margin-1, "", p.paintText(dim, from+strings.Repeat(" ", gap)+until))
}

// joinColumns joins consecutive steps, `each` of them into one column, so that the columns fit into width.
func joinColumns(steps []int64, width int, join func(a, b int64) int64) (joined []int64, each int) {
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

// drawBarRow draws one row of a bar chart; row 0 is at the bottom. A value that is not 0 has at least the lowest bar.
func drawBarRow(values []int64, most int64, row, rows int) string {
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

// Printable writes s with printable characters only. Other characters, such as characters that change the direction of
// text, are written as \x1b or \u202e.
func Printable(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1, r < 0x80 && !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}

// Fit cuts printable text to the given number of columns, with an ellipsis at the cut.
func Fit(s string, columns int) string {
	used, cut := 0, 0
	for i, r := range s {
		w := 1
		if isWide(r) {
			w = 2
		}
		if used+w > columns {
			return s[:cut] + "…"
		}
		if used += w; used < columns {
			cut = i + utf8.RuneLen(r)
		}
	}
	return s
}

// isWide reports, accurately enough for a table, whether a terminal draws r in two columns: East Asian letters, symbols
// and emoji.
func isWide(r rune) bool {
	return r >= 0x1100 && r <= 0x115f || r >= 0x2e80 && r <= 0xa4cf || r >= 0xac00 && r <= 0xd7a3 ||
		r >= 0xf900 && r <= 0xfaff || r >= 0xfe30 && r <= 0xfe6f || r >= 0xff00 && r <= 0xff60 ||
		r >= 0xffe0 && r <= 0xffe6 || r >= 0x1f300 && r <= 0x1faff || r >= 0x20000 && r <= 0x3fffd
}
