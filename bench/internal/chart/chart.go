// Package chart draws lines over seconds as SVG pictures, which documents show.
package chart

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"os"
)

// Sizes in pixels.
const (
	chartWidth = 780
	plotLeft   = 60
	plotWidth  = chartWidth - plotLeft - 20
	plotHeight = 150
	plotSpace  = plotHeight + 90
)

// The picture has its own background, so that it is readable on any page. Lines also differ by dashes.
const style = `<style>
.ground{fill:#fff;stroke:#d0d7de}text{font:12px system-ui,sans-serif;fill:#1f2328}.title{font-weight:600}.grid{stroke:#e4e8ec}
.mark{stroke:#57606a;stroke-dasharray:2 3}polyline{fill:none;stroke-width:2}
.c0{stroke:#0969da}.c1{stroke:#cf222e;stroke-dasharray:7 4}.c2{stroke:#bc4c00;stroke-dasharray:2 3}.c3{stroke:#1a7f37;stroke-dasharray:9 3 2 3}
@media(prefers-color-scheme:dark){.ground{fill:#0d1117;stroke:#30363d}text{fill:#e6edf3}.grid{stroke:#21262d}.mark{stroke:#8d96a0}
.c0{stroke:#58a6ff}.c1{stroke:#ff7b72}.c2{stroke:#f0883e}.c3{stroke:#3fb950}}
</style>
`

// Drawing holds plots over the same seconds, one below the other.
type Drawing []Plot

// Plot holds lines over seconds, from 0 to Most. Values above Most are drawn at the top.
type Plot struct {
	Title string
	Most  float64
	Mark  float64 // 0 for no mark
	Lines []Line
}

// Line is one line of a plot.
type Line struct {
	Name   string
	Values []float64 // one for each second, or NaN to draw nothing
}

// Write writes the picture to a file.
func (d Drawing) Write(file string) error {
	var b bytes.Buffer
	height := plotSpace*len(d) + 10
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img">`+"\n%s", chartWidth,
		height, style)
	fmt.Fprintf(&b, `<rect class="ground" x=".5" y=".5" width="%d" height="%d" rx="6"/>`+"\n", chartWidth-1, height-1)
	for i := range d {
		d[i].draw(&b, float64(i*plotSpace+40))
	}
	b.WriteString("</svg>\n")
	return os.WriteFile(file, b.Bytes(), 0o600)
}

func (p *Plot) draw(b *bytes.Buffer, top float64) {
	y := func(v float64) float64 { return top + plotHeight*(1-min(v/p.Most, 1)) }
	fmt.Fprintf(b, `<text class="title" x="%d" y="%.0f">%s</text>`+"\n", plotLeft, top-14, html.EscapeString(p.Title))
	for i := range 5 {
		v := p.Most * float64(i) / 4
		fmt.Fprintf(b,
			`<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text x="%d" y="%.1f" text-anchor="end">%.0f</text>`+"\n",
			plotLeft, plotLeft+plotWidth, y(v), y(v), plotLeft-6, y(v)+4, v)
	}
	if p.Mark > 0 {
		fmt.Fprintf(b, `<line class="mark" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`+"\n", plotLeft, plotLeft+plotWidth,
			y(p.Mark), y(p.Mark))
	}
	seconds := len(p.Lines[0].Values)
	x := func(i int) float64 { return plotLeft + plotWidth*float64(i)/float64(seconds) }
	for i := 0; i <= seconds; i += 10 {
		fmt.Fprintf(b, `<text x="%.1f" y="%.0f" text-anchor="middle">%d s</text>`+"\n", x(i), top+plotHeight+16, i)
	}
	for i, l := range p.Lines {
		fmt.Fprintf(b, `<polyline class="c%d" points="`, i)
		for k, v := range l.Values {
			if math.IsNaN(v) {
				continue
			}
			fmt.Fprintf(b, "%.1f,%.1f ", x(k), y(v))
		}
		left := plotLeft + 180*i
		fmt.Fprintf(b,
			`"/><line class="c%d" stroke-width="2" x1="%d" x2="%d" y1="%.0f" y2="%.0f"/><text x="%d" y="%.0f">%s</text>`+"\n",
			i, left, left+24, top+plotHeight+32, top+plotHeight+32, left+30, top+plotHeight+36,
			html.EscapeString(l.Name))
	}
}
