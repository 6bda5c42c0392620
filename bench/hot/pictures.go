package main

import (
	"github.com/hotparam/pipeline/bench/internal/plot"
)

// pictures returns the plots by their files, from the folder of results.json. A document shows the first plot.
func pictures(r *results) map[string]plot.Picture {
	return map[string]plot.Picture{
		"../../docs/performance/hot.svg": {Title: "Mean error of the counts of hot keys, over the memory",
			Panels: []plot.Panel{
				r.panel("zipfian", "error, %", errorScale, func(x row) float64 { return 100 * x.Error }),
				r.panel("flood of unique keys", "error, %", errorScale, func(x row) float64 { return 100 * x.Error }),
			}},
		"found.svg": {Title: "The flood of unique keys, over the memory", Panels: []plot.Panel{
			r.panel("flood of unique keys", "recall", partScale, func(x row) float64 { return x.Recall }),
			r.panel("flood of unique keys", "precision", partScale, func(x row) float64 { return x.Precision }),
		}},
	}
}

var (
	errorScale = plot.Scale{Low: 0.01, High: 100, Log: true, Ticks: []float64{0.01, 0.1, 1, 10, 100}}
	partScale  = plot.Scale{High: 1, Ticks: []float64{0, 0.25, 0.5, 0.75, 1}}
)

// panel draws a line for each contender over the budgets.
func (r *results) panel(name, axis string, ys plot.Scale, of func(row) float64) plot.Panel {
	p := plot.Panel{Title: name, XAxis: "memory given", YAxis: axis, Ys: ys}
	for _, size := range budgets {
		label := plot.Short(float64(size>>10)) + " K"
		if size >= 1<<20 {
			label = plot.Short(float64(size>>20)) + " M"
		}
		p.Xs = append(p.Xs, label)
	}
	for _, who := range r.contenders() {
		l := plot.Line{Name: who, Dots: true}
		for _, x := range rowsOf(r.Sizes, name) {
			if x.Contender == who {
				l.Ys = append(l.Ys, of(x))
			}
		}
		if len(l.Ys) == len(budgets) {
			p.Lines = append(p.Lines, l)
		}
	}
	return p
}
