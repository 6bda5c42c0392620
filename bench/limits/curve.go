package main

import (
	"context"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// span is the time that a panel shows. epoch, its left edge, is the edge of a second and so of every window.
const span = 3200 * time.Millisecond

var epoch = time.Unix(1_700_000_000, 0)

// demand is a number of calls at a time, each of cost 1.
type demand struct {
	at    time.Duration
	calls int
}

// saturating calls all the time, from shortly before the edge of a window on.
func saturating() []demand {
	var all []demand
	for at := 800 * time.Millisecond; at < span; at += 10 * time.Millisecond {
		all = append(all, demand{at, 1})
	}
	return all
}

// bursts returns some bursts with pauses between them, two of them around an edge.
func bursts() []demand {
	return []demand{
		{200 * time.Millisecond, 6}, {800 * time.Millisecond, 12}, {1100 * time.Millisecond, 12},
		{1600 * time.Millisecond, 12}, {2500 * time.Millisecond, 12}, {2950 * time.Millisecond, 12},
	}
}

// curve holds the results of a demand.
type curve struct {
	admitted []time.Duration // time at which each call was admitted, in order
	gone     []time.Duration // time at which each of them continues, after its wait
	asked    int
}

// judge takes all calls of the demand from the limit.
func judge(spec limit.Spec, wanted []demand) (curve, error) {
	var c curve
	store, results := limit.NewMemory(limit.MemoryConfig{}), make([]limit.Result, 1)
	charges := []limit.Charge{{Subject: limit.Subject{Space: "picture"}, Spec: spec, Cost: 1}}
	for _, d := range wanted {
		for range d.calls {
			ok, err := store.Take(context.Background(), epoch.Add(d.at), charges, results)
			if err != nil {
				return c, err
			}
			c.asked++
			if ok {
				c.admitted = append(c.admitted, d.at)
				c.gone = append(c.gone, d.at+charges[0].Wait(&results[0]))
			}
		}
	}
	return c, nil
}
