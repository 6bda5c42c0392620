package main

import (
	"math"
	"strings"

	"github.com/hotparam/pipeline/bench/internal/plot"
)

// pictures returns the plots of a study by their files, from the folder of results.json. A document shows the first
// plot.
func pictures(r *results) map[string]plot.Picture {
	return map[string]plot.Picture{
		"../../docs/detection/recall.svg": recallPicture(r),

		"error.svg":   errorPicture(r),
		"latency.svg": latencyPicture(r),
		"cost.svg":    costPicture(r),
		"surge.svg":   surgePicture(r),
	}
}

// counterLabels returns the labels of the x axis of most plots.
func counterLabels() (labels []string) {
	for _, size := range largeSizes {
		labels = append(labels, plot.Short(float64(size>>10))+" Ki")
	}
	return labels
}

var part = plot.Scale{High: 1, Ticks: []float64{0, 0.25, 0.5, 0.75, 1}}

// curves returns a line for each stream of a group, over the numbers of counters.
func (r *results) curves(group string, of func(accuracy) float64) (lines []plot.Line) {
	for _, a := range r.Accuracy {
		if a.Group != group {
			continue
		}
		if k := len(lines) - 1; k < 0 || lines[k].Name != a.Stream {
			lines = append(lines, plot.Line{Name: a.Stream, Dots: true})
		}
		k := len(lines) - 1
		lines[k].Ys = append(lines[k].Ys, of(a))
	}
	return lines
}

// curve returns the line of one stream.
func (r *results) curve(stream, name string, of func(accuracy) float64) plot.Line {
	l := plot.Line{Name: name, Dots: true}
	for _, a := range r.Accuracy {
		if a.Stream == stream {
			l.Ys = append(l.Ys, of(a))
		}
	}
	return l
}

func recallPicture(r *results) plot.Picture {
	of := func(a accuracy) float64 { return a.Recall }
	draw := func(title, group string) plot.Panel {
		return plot.Panel{Title: title, XAxis: "counters", YAxis: "part found", Xs: counterLabels(), Ys: part,
			Lines: r.curves(group, of)}
	}
	return plot.Picture{Title: "Hot key-seconds that were found, hot from 200 requests/s", Panels: []plot.Panel{
		draw("Zipf, 100,000 requests/s", "zipf"), draw("Hostile traffic, 100,000 and 1,000,000 requests/s", "hostile"),
	}}
}

func errorPicture(r *results) plot.Picture {
	draw := func(stream string, left bool) plot.Panel {
		threshold := 0.0
		p := plot.Panel{
			Title: stream, XAxis: "counters", YAxis: "requests, of a key in 5 s", Xs: counterLabels(),
			Ys: plot.Scale{Low: 1, High: 100_000, Log: true, Ticks: []float64{1, 10, 100, 1000, 10_000, 100_000}},
			Lines: []plot.Line{
				r.curve(stream, "the most that is possible (detect.Check)",
					func(a accuracy) float64 { return a.Promised }),
				r.curve(stream, "E: what the detector said", func(a accuracy) float64 { return float64(a.Said) }),
				r.curve(stream, "the greatest real error of any key",
					func(a accuracy) float64 { return float64(a.Real) }),
			},
		}
		for _, a := range r.Accuracy {
			if a.Stream == stream {
				threshold = float64(a.Threshold)
			}
		}
		p.Marks = []plot.Mark{{Y: threshold / 4, Words: "alarm: T/4", Left: left}, {Y: threshold, Words: "threshold T"}}
		return p
	}
	return plot.Picture{Title: "How wrong counts were", Panels: []plot.Panel{draw("Zipf 1.0, 10 M keys", false),
		draw("flood, 10 M keys once each", true)}}
}

func latencyPicture(r *results) plot.Picture {
	draw := func(group string) plot.Panel {
		return plot.Panel{
			Title: map[string]string{"zipf": "Zipf", "hostile": "Hostile traffic"}[group], XAxis: "counters",
			YAxis: "part of the keys that became hot",
			Xs:    counterLabels(), Ys: part,
			Lines: r.curves(group, func(a accuracy) float64 { return ratio(a.SameTick, a.Crossed) }),
		}
	}
	return plot.Picture{Title: "Said in the same tenth of a second in which an exact count says it",
		Panels: []plot.Panel{draw("zipf"), draw("hostile")}}
}

func costPicture(r *results) plot.Picture {
	memory := plot.Panel{
		Title: "Memory", XAxis: "counters", YAxis: "MB", Xs: counterLabels(),
		Ys: plot.Scale{Low: 0.1, High: 100, Log: true, Ticks: []float64{0.1, 1, 10, 100}},
	}
	times := plot.Panel{
		Title: "CPU time of an update", XAxis: "counters", YAxis: "times that of exact counts in Go maps",
		Xs: counterLabels(),
		Ys: plot.Scale{High: 2, Ticks: []float64{0, 0.5, 1, 1.5, 2}},
	}
	for _, c := range r.Cost {
		if k := len(times.Lines) - 1; k < 0 || times.Lines[k].Name != c.Stream {
			memory.Lines = append(memory.Lines, plot.Line{Name: c.Stream, Dots: true})
			times.Lines = append(times.Lines, plot.Line{Name: c.Stream, Dots: true})
		}
		k := len(times.Lines) - 1
		memory.Lines[k].Ys = append(memory.Lines[k].Ys, float64(c.Heap)/1e6)
		times.Lines[k].Ys = append(times.Lines[k].Ys, c.Times[0])
		times.Ys.High = max(times.Ys.High, math.Ceil(c.Times[0]))
	}
	for t := 2.5; t <= times.Ys.High; t += 0.5 {
		times.Ys.Ticks = append(times.Ys.Ticks, t)
	}
	bound := plot.Line{Name: "200 bytes a counter: the promise"}
	for _, size := range largeSizes {
		bound.Ys = append(bound.Ys, float64(size)*200/1e6)
	}
	memory.Lines = append(memory.Lines, bound)
	return plot.Picture{Title: "What it costs", Panels: []plot.Panel{memory, times}}
}

// trackFrom is the time at which the picture of a situation begins.
const trackFrom = 20 // seconds before a situation begins

func surgePicture(r *results) plot.Picture {
	draw := func(title, situation string, label []string) plot.Panel {
		p := plot.Panel{
			Title: title, XAxis: "seconds after the rise began", YAxis: "requests/s",
			Ys:    plot.Scale{Low: 1, High: 1000, Log: true, Ticks: []float64{1, 10, 100, 1000}},
			Marks: []plot.Mark{{Y: rate, Words: "rate: 200", Left: true}, {Y: 20, Words: "min_rate: 20", Left: true}},
		}
		for _, o := range r.Criteria {
			if strings.HasPrefix(o.Situation, situation) {
				name := "the key; by surge: " + o.Said[2] + "; by rate: " + o.Said[0]
				p.Lines = []plot.Line{{Name: name, Ys: o.Track}}
				p.Xs = make([]string, len(o.Track))
			}
		}
		for i := range p.Xs {
			for _, l := range label {
				if l == plot.Short(float64(i-trackFrom)) {
					p.Xs[i] = l
				}
			}
		}
		return p
	}
	return plot.Picture{Title: "A key that surges, and one that grows", Panels: []plot.Panel{
		draw("from 2 to 40/s at once", "a small key rises", []string{"0", "10", "20"}),
		draw("from 2 to 40/s in an hour", "the same rise", []string{"0", "1200", "2400", "3600"}),
	}}
}
