package main

import (
	"math"
	"strings"
)

// pictures returns the plots of a study by their files, from the folder of results.json. A document shows the first
// plot.
func pictures(r *results) map[string]picture {
	return map[string]picture{
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
		labels = append(labels, short(float64(size>>10))+" Ki")
	}
	return labels
}

var part = scale{high: 1, ticks: []float64{0, 0.25, 0.5, 0.75, 1}}

// curves returns a line for each stream of a group, over the numbers of counters.
func (r *results) curves(group string, of func(accuracy) float64) (lines []line) {
	for _, a := range r.Accuracy {
		if a.Group != group {
			continue
		}
		if k := len(lines) - 1; k < 0 || lines[k].name != a.Stream {
			lines = append(lines, line{name: a.Stream, dots: true})
		}
		k := len(lines) - 1
		lines[k].ys = append(lines[k].ys, of(a))
	}
	return lines
}

// curve returns the line of one stream.
func (r *results) curve(stream, name string, of func(accuracy) float64) line {
	l := line{name: name, dots: true}
	for _, a := range r.Accuracy {
		if a.Stream == stream {
			l.ys = append(l.ys, of(a))
		}
	}
	return l
}

func recallPicture(r *results) picture {
	of := func(a accuracy) float64 { return a.Recall }
	plot := func(title, group string) panel {
		return panel{title: title, xAxis: "counters", yAxis: "part found", xs: counterLabels(), ys: part,
			lines: r.curves(group, of)}
	}
	return picture{"Hot key-seconds that were found, hot from 200 requests/s", []panel{
		plot("Zipf, 100,000 requests/s", "zipf"), plot("Hostile traffic, 100,000 and 1,000,000 requests/s", "hostile"),
	}}
}

func errorPicture(r *results) picture {
	plot := func(stream string, left bool) panel {
		threshold := 0.0
		p := panel{
			title: stream, xAxis: "counters", yAxis: "requests, of a key in 5 s", xs: counterLabels(),
			ys: scale{low: 1, high: 100_000, log: true, ticks: []float64{1, 10, 100, 1000, 10_000, 100_000}},
			lines: []line{
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
		p.marks = []mark{{y: threshold / 4, words: "alarm: T/4", left: left}, {y: threshold, words: "threshold T"}}
		return p
	}
	return picture{"How wrong counts were", []panel{plot("Zipf 1.0, 10 M keys", false),
		plot("flood, 10 M keys once each", true)}}
}

func latencyPicture(r *results) picture {
	plot := func(group string) panel {
		return panel{
			title: map[string]string{"zipf": "Zipf", "hostile": "Hostile traffic"}[group], xAxis: "counters",
			yAxis: "part of the keys that became hot",
			xs:    counterLabels(), ys: part,
			lines: r.curves(group, func(a accuracy) float64 { return ratio(a.SameTick, a.Crossed) }),
		}
	}
	return picture{"Said in the same tenth of a second in which an exact count says it",
		[]panel{plot("zipf"), plot("hostile")}}
}

func costPicture(r *results) picture {
	memory := panel{
		title: "Memory", xAxis: "counters", yAxis: "MB", xs: counterLabels(),
		ys: scale{low: 0.1, high: 100, log: true, ticks: []float64{0.1, 1, 10, 100}},
	}
	times := panel{
		title: "CPU time of an update", xAxis: "counters", yAxis: "times that of exact counts in Go maps",
		xs: counterLabels(),
		ys: scale{high: 2, ticks: []float64{0, 0.5, 1, 1.5, 2}},
	}
	for _, c := range r.Cost {
		if k := len(times.lines) - 1; k < 0 || times.lines[k].name != c.Stream {
			memory.lines = append(memory.lines, line{name: c.Stream, dots: true})
			times.lines = append(times.lines, line{name: c.Stream, dots: true})
		}
		k := len(times.lines) - 1
		memory.lines[k].ys = append(memory.lines[k].ys, float64(c.Heap)/1e6)
		times.lines[k].ys = append(times.lines[k].ys, c.Times[0])
		times.ys.high = max(times.ys.high, math.Ceil(c.Times[0]))
	}
	for t := 2.5; t <= times.ys.high; t += 0.5 {
		times.ys.ticks = append(times.ys.ticks, t)
	}
	bound := line{name: "200 bytes a counter: the promise"}
	for _, size := range largeSizes {
		bound.ys = append(bound.ys, float64(size)*200/1e6)
	}
	memory.lines = append(memory.lines, bound)
	return picture{"What it costs", []panel{memory, times}}
}

// trackFrom is the time at which the picture of a situation begins.
const trackFrom = 20 // seconds before a situation begins

func surgePicture(r *results) picture {
	plot := func(title, situation string, label []string) panel {
		p := panel{
			title: title, xAxis: "seconds after the rise began", yAxis: "requests/s",
			ys:    scale{low: 1, high: 1000, log: true, ticks: []float64{1, 10, 100, 1000}},
			marks: []mark{{y: rate, words: "rate: 200", left: true}, {y: 20, words: "min_rate: 20", left: true}},
		}
		for _, o := range r.Criteria {
			if strings.HasPrefix(o.Situation, situation) {
				p.lines = []line{{name: "the key; by surge: " + o.Said[2] + "; by rate: " + o.Said[0], ys: o.Track}}
				p.xs = make([]string, len(o.Track))
			}
		}
		for i := range p.xs {
			for _, l := range label {
				if l == short(float64(i-trackFrom)) {
					p.xs[i] = l
				}
			}
		}
		return p
	}
	return picture{"A key that surges, and one that grows", []panel{
		plot("from 2 to 40/s at once", "a small key rises", []string{"0", "10", "20"}),
		plot("from 2 to 40/s in an hour", "the same rise", []string{"0", "1200", "2400", "3600"}),
	}}
}
