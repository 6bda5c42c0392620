// Package plot draws curves as SVG pictures of two plots, side by side, which documents show.
package plot

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"strconv"
)

// Sizes in pixels: two panels side by side, each with its plot and its legend.
const (
	width      = 780
	plotWidth  = 310
	plotHeight = 180
	plotTop    = 66
	legendTop  = plotTop + plotHeight + 58
	lineHeight = 17
)

// The picture has its own background, so that it is readable on any page. Lines differ by dashes and marks too, not by
// colour alone.
const style = `<style>
.ground{fill:#fff;stroke:#d0d7de}text{font:12px system-ui,sans-serif;fill:#1f2328}.title{font-size:14px;font-weight:600}.small{font-size:11px;fill:#57606a}
.grid{stroke:#e4e8ec}.axis{stroke:#8c959f}.mark{stroke:#57606a;stroke-dasharray:2 3}path{fill:none}.line{stroke-width:2}
.c0{stroke:#0969da}.c1{stroke:#bc4c00}.c2{stroke:#1a7f37}.c3{stroke:#8250df}.c4{stroke:#cf222e}.c5{stroke:#57606a}.c6{stroke:#bf8700}

.note{fill:#57606a;font-size:11px;paint-order:stroke;stroke:#fff;stroke-width:4px}.dot{stroke-width:1.5;fill:#fff}.d1{stroke-dasharray:7 4}.d2{stroke-dasharray:2 3}
@media(prefers-color-scheme:dark){.ground{fill:#0d1117;stroke:#30363d}text{fill:#e6edf3}.small{fill:#8d96a0}.grid{stroke:#21262d}.axis{stroke:#6e7681}.mark{stroke:#8d96a0}
.c0{stroke:#58a6ff}.c1{stroke:#f0883e}.c2{stroke:#3fb950}.c3{stroke:#bc8cff}.c4{stroke:#ff7b72}.c5{stroke:#8d96a0}.c6{stroke:#d4a72c}.dot{fill:#0d1117}.note{fill:#8d96a0;stroke:#0d1117}}
</style>
`

// Picture is one file.
type Picture struct {
	Title  string
	Panels []Panel
}

// Panel is one plot. Points are at equal distances; Xs has a label or "" for each.
type Panel struct {
	Title, XAxis, YAxis string
	Xs                  []string
	Ys                  Scale
	Lines               []Line
	Marks               []Mark
}

// Scale is the y axis.
type Scale struct {
	Low, High float64
	Log       bool // then values below Low are drawn at the bottom, as 0
	Ticks     []float64
}

// Line is one curve. NaN leaves a point out.
type Line struct {
	Name string
	Ys   []float64
	Dots bool
}

// Mark is a dotted line with a word at its right end, or at its left.
type Mark struct {
	Y     float64
	Words string
	Left  bool
}

// at returns the position of a value, 0 at the bottom and 1 at the top.
func (s Scale) at(v float64) float64 {
	if s.Log {
		return min(1, max(0, (math.Log(max(v, s.Low))-math.Log(s.Low))/(math.Log(s.High)-math.Log(s.Low))))
	}
	return min(1, max(0, (v-s.Low)/(s.High-s.Low)))
}

// SVG returns the file.
func (p Picture) SVG() []byte {
	rows := 0
	for _, q := range p.Panels {
		rows = max(rows, len(q.Lines))
	}
	height := legendTop + rows*lineHeight + 8
	var b bytes.Buffer
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n", width, height, width, height, html.EscapeString(p.Title))
	b.WriteString(style)
	fmt.Fprintf(&b, `<rect class="ground" x=".5" y=".5" width="%d" height="%d" rx="6"/>`+"\n", width-1, height-1)
	text(&b, "title", 16, 24, "start", p.Title)
	for i, q := range p.Panels {
		q.draw(&b, float64(62+i*(plotWidth+72)))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func text(b *bytes.Buffer, class string, x, y float64, anchor, words string) {
	fmt.Fprintf(b, `<text class="%s" x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", class, x, y, anchor,
		html.EscapeString(words))
}

// draw draws a panel with its left edge at left.
func (p Panel) draw(b *bytes.Buffer, left float64) {
	x := func(i int) float64 { return left + 12 + (plotWidth-24)*float64(i)/float64(max(len(p.Xs)-1, 1)) }
	y := func(v float64) float64 { return plotTop + plotHeight*(1-p.Ys.at(v)) }
	text(b, "", left, plotTop-24, "start", p.Title)
	text(b, "small", left-44, plotTop-8, "start", p.YAxis)
	for _, t := range p.Ys.Ticks {
		fmt.Fprintf(b, `<path class="grid" d="M%.1f %.1fh%d"/>`+"\n", left, y(t), plotWidth)
		label := Short(t)
		if p.Ys.Log && t == p.Ys.Low {
			label = "≤ " + label
		}
		text(b, "small", left-6, y(t)+4, "end", label)
	}
	fmt.Fprintf(b, `<path class="axis" d="M%.1f %dh%d"/>`+"\n", left, plotTop+plotHeight, plotWidth)
	for i, label := range p.Xs {
		if label != "" {
			fmt.Fprintf(b, `<path class="axis" d="M%.1f %dv4"/>`+"\n", x(i), plotTop+plotHeight)
			text(b, "small", x(i), plotTop+plotHeight+17, "middle", label)
		}
	}
	text(b, "small", left+plotWidth/2, plotTop+plotHeight+34, "middle", p.XAxis)
	for _, m := range p.Marks {
		fmt.Fprintf(b, `<path class="mark" d="M%.1f %.1fh%d"/>`+"\n", left, y(m.Y), plotWidth)
	}
	for i, l := range p.Lines {
		l.draw(b, i, x, y)
		p.legend(b, i, left, l)
	}
	for _, m := range p.Marks {
		if m.Left {
			text(b, "note", left+2, y(m.Y)-4, "start", m.Words)
		} else {
			text(b, "note", left+plotWidth-2, y(m.Y)-4, "end", m.Words)
		}
	}
}

// look returns the class of the i-th line.
func look(i int) string { return fmt.Sprintf("line c%d d%d", i%7, i%3) }

func (l Line) draw(b *bytes.Buffer, i int, x func(int) float64, y func(float64) float64) {
	fmt.Fprintf(b, `<path class="%s" d="`, look(i))
	pen := byte('M')
	for k, v := range l.Ys {
		if math.IsNaN(v) {
			pen = 'M'
			continue
		}
		fmt.Fprintf(b, "%c%.1f %.1f", pen, x(k), y(v))
		pen = 'L'
	}
	b.WriteString("\"/>\n")
	if !l.Dots {
		return
	}
	for k, v := range l.Ys {
		if !math.IsNaN(v) {
			dot(b, i, x(k), y(v))
		}
	}
}

// dot draws the mark of the i-th line: a disc, a square or a triangle.
func dot(b *bytes.Buffer, i int, x, y float64) {
	shapes := []string{"a3.5 3.5 0 1 0 .01 0z", "h3.2v6.4h-6.4v-6.4z", "l3.8 6.6h-7.6z"}
	up := []float64{3.5, 3.2, 4.2}[i%3]
	fmt.Fprintf(b, `<path class="dot c%d" d="M%.1f %.1f%s"/>`+"\n", i%7, x, y-up, shapes[i%3])
}

func (p Panel) legend(b *bytes.Buffer, i int, left float64, l Line) {
	y := float64(legendTop + i*lineHeight)
	fmt.Fprintf(b, `<path class="%s" d="M%.1f %.1fh28"/>`+"\n", look(i), left, y-4)
	if l.Dots {
		dot(b, i, left+14, y-4)
	}
	text(b, "small", left+36, y, "start", l.Name)
}

// Short formats a number of an axis.
func Short(v float64) string {
	switch {
	case v >= 1e6:
		return strconv.FormatFloat(v/1e6, 'f', -1, 64) + " M"
	case v >= 1e4:
		return strconv.FormatFloat(v/1e3, 'f', -1, 64) + " k"
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}
