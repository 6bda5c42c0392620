package main

import (
	"bytes"
	"fmt"
	"time"
)

// Sizes in pixels: two panels side by side, each with its plot.
const (
	width, height = 760, 262
	plotWidth     = 316
	plotHeight    = 150
	plotTop       = 62
	highest       = 44 // number of calls at the top of a plot
)

// The picture has its own background, so that it is readable on any page.
const style = `<style>
.ground{fill:#fff;stroke:#d0d7de}text{font:12px system-ui,sans-serif;fill:#1f2328}.title{font-size:14px;font-weight:600}.small{font-size:11px;fill:#57606a}
.grid{stroke:#d8dee4}.edge{stroke:#8c959f;stroke-dasharray:1 3}.bound{fill:none;stroke:#cf222e;stroke-width:1.5;stroke-dasharray:6 4}
.let{fill:none;stroke:#0969da;stroke-width:2}.gone{fill:none;stroke:#1a7f37;stroke-width:2}.ask{stroke:#57606a;stroke-width:2}.asks{fill:#57606a}
.r{fill:#cf222e}.b{fill:#0969da}.g{fill:#1a7f37}
@media(prefers-color-scheme:dark){.ground{fill:#0d1117;stroke:#30363d}text{fill:#e6edf3}.small{fill:#8d96a0}.grid{stroke:#21262d}.edge{stroke:#6e7681}
.bound{stroke:#ff7b72}.let{stroke:#58a6ff}.gone{stroke:#3fb950}.ask{stroke:#8d96a0}.asks{fill:#8d96a0}.r{fill:#ff7b72}.b{fill:#58a6ff}.g{fill:#3fb950}}
</style>
`

// panel is one plot with its axes. It begins at left.
type panel struct {
	*bytes.Buffer
	left float64
	span time.Duration // at the right edge
	most float64       // at the top
}

func (p panel) x(at time.Duration) float64 {
	return p.left + plotWidth*at.Seconds()/p.span.Seconds()
}

func (p panel) y(calls float64) float64 {
	return plotTop + plotHeight*(1-min(calls, p.most)/p.most)
}

// picture draws a subject.
func picture(s subject) ([]byte, error) {
	var b bytes.Buffer
	begin(&b, s.title)
	for i, what := range []struct {
		name   string
		demand []demand
	}{{"asked 100 times a second, from 0.8 s on", saturating()}, {"asked in bursts", bursts()}} {
		c, err := judge(s.spec, what.demand)
		if err != nil {
			return nil, err
		}
		p := panel{&b, left(i), span, highest}
		fmt.Fprintf(p, `<text class="small" x="%.0f" y="46">%s: %d of %d admitted</text>`+"\n", p.left, what.name,
			len(c.admitted), c.asked)
		p.axes(10, time.Second)
		p.demand(what.demand)
		p.bound(s, what.demand[0].at)
		p.steps("let", c.admitted)
		if s.waits {
			p.steps("gone", c.gone)
		}
	}
	legend(&b, s)
	b.WriteString("</svg>\n")
	return b.Bytes(), nil
}

// begin writes the head of each picture.
func begin(b *bytes.Buffer, title string) {
	fmt.Fprintf(b,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n", width, height, width, height, title)
	b.WriteString(style)
	fmt.Fprintf(b, `<rect class="ground" x=".5" y=".5" width="%d" height="%d" rx="6"/>`+"\n", width-1, height-1)
	fmt.Fprintf(b, `<text class="title" x="16" y="24">%s</text>`+"\n", title)
}

// left returns the left edge of the i-th panel.
func left(i int) float64 { return float64(44 + i*(plotWidth+52)) }

// axes draws seconds, which are also the edges of aligned windows, and calls.
func (p panel) axes(step int, every time.Duration) {
	for calls := 0; calls <= int(p.most); calls += step {
		y := p.y(float64(calls))
		fmt.Fprintf(p,
			`<path class="grid" d="M%.1f %.1fh%d"/><text class="small" x="%.1f" y="%.1f" text-anchor="end">%d</text>`+
				"\n", p.left, y, plotWidth, p.left-6, y+4, calls)
	}
	for at := time.Duration(0); at <= p.span; at += every {
		fmt.Fprintf(p,
			`<path class="edge" d="M%.1f %dv%d"/><text class="small" x="%.1f" y="%d" text-anchor="middle">%d s</text>`+
				"\n", p.x(at), plotTop, plotHeight, p.x(at), plotTop+plotHeight+16, at/time.Second)
	}
}

// demand marks the bursts below the plot. A client that calls all the time needs no marks.
func (p panel) demand(wanted []demand) {
	for _, d := range wanted {
		if d.calls > 1 {
			fmt.Fprintf(p, `<path class="ask" d="M%.1f %dv-8"/><text class="small asks" x="%.1f" y="%d">%d</text>`+"\n",
				p.x(d.at), plotTop+plotHeight, p.x(d.at)+3, plotTop+plotHeight-3, d.calls)
		}
	}
}

// bound draws the promised bound for the stretch that begins with the first call.
func (p panel) bound(s subject, from time.Duration) {
	fmt.Fprintf(p, `<path class="bound" d="M%.1f %.1f`, p.x(from), p.y(s.bound(0)))
	last := s.bound(0)
	for at := from; at < span && last <= highest; at += 10 * time.Millisecond {
		next := s.bound(at - from)
		if next-last >= most { // a step
			fmt.Fprintf(p, `H%.1f`, p.x(at))
		}
		last = next
		fmt.Fprintf(p, `L%.1f %.1f`, p.x(at), p.y(next))
	}
	fmt.Fprintln(p, `"/>`)
}

// steps draws a staircase with one step for each call.
func (p panel) steps(class string, times []time.Duration) {
	if len(times) == 0 {
		return
	}
	fmt.Fprintf(p, `<path class="%s" d="M%.1f %.1f`, class, p.x(times[0]), p.y(0))
	for i, at := range times {
		if at > span {
			break
		}
		if i+1 < len(times) && times[i+1] == at {
			continue
		}
		fmt.Fprintf(p, `H%.1fV%.1f`, p.x(at), p.y(float64(i+1)))
	}
	fmt.Fprintf(p, `H%.1f"/>`+"\n", p.x(span))
}

func legend(b *bytes.Buffer, s subject) {
	const y = height - 14
	text := func(class string, x int, words string) {
		fmt.Fprintf(b, `<text class="%s" x="%d" y="%d">%s</text>`+"\n", class, x, y, words)
	}
	text("b", 44, "— admitted")
	x := 130
	if s.waits {
		text("g", x, "— goes on")
		x += 80
	}
	text("r", x, "- - the most in any stretch d: "+s.promise)
}
