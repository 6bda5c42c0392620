package main

import (
	"time"

	"github.com/hotparam/pipeline/bench/internal/plot"
)

// pictures returns the plot by its file, from the folder of results.json. A document shows it.
func pictures(r *results) map[string]plot.Picture {
	panel := func(title, key string, high float64) plot.Panel {
		p := plot.Panel{Title: title, XAxis: "stretch of time", YAxis: "admitted, at most",
			Ys: plot.Scale{High: high, Ticks: []float64{0, 100, 200, 300}}}
		limit := plot.Line{Name: "the bucket: 20 and 100 a second"}
		for _, d := range stretches {
			p.Xs = append(p.Xs, seconds(d))
			limit.Ys = append(limit.Ys, bucket(burst)(d))
		}
		p.Lines = []plot.Line{limit}
		for _, a := range r.Accuracy {
			l := plot.Line{Name: a.Contender, Dots: true}
			for _, n := range a.Most[key] {
				l.Ys = append(l.Ys, float64(n))
			}
			p.Lines = append(p.Lines, l)
		}
		return p
	}
	return map[string]plot.Picture{"../../docs/performance/limit.svg": {
		Title: "The most requests that pass within a stretch of time",
		Panels: []plot.Panel{
			panel("bursts around the ends of seconds", edges, 320),
			panel("a flood, five times the limit", flooded, 320),
		}}}
}

func seconds(d time.Duration) string { return plot.Short(d.Seconds()) + " s" }
