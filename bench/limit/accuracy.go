package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"time"
)

// stretches are the lengths over which admitted requests are counted, and drawn.
var stretches = []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second,
	1500 * time.Millisecond, 2 * time.Second}

// accuracy is the score of a contender without faults.
type accuracy struct {
	Contender string  `json:"contender"`
	P50       float64 `json:"p50_ms"` // of admitted requests
	P99       float64 `json:"p99_ms"`
	Late99    float64 `json:"late_p99_ms"` // by which requests were sent late
	Errors    int     `json:"errors"`
	Keys      []tally `json:"keys"`
	// Most has for each stretch, in ms, the highest number of requests of one key that were admitted within it, and
	// May the number that the algorithm may admit.
	Most map[string][]int `json:"most"`
	May  []float64        `json:"may"`
	// Exceeded names each key and stretch for which more were admitted than the algorithm may.
	Exceeded []string `json:"exceeded,omitempty"`
	// Readers is the part of the requests of the readers that was admitted beside the greedy client, and Worst the part
	// of the reader with the least. Greedy counts the admitted requests of the greedy client, a second.
	Readers float64 `json:"readers"`
	Worst   float64 `json:"worst_reader"`
	Greedy  float64 `json:"greedy"`
}

// tally counts the requests of a key.
type tally struct {
	Key      string `json:"key"`
	Asked    int    `json:"asked"`
	Admitted int    `json:"admitted"`
	Fit      int    `json:"fit"` // the number that an exact bucket admits of the same requests
}

// examine runs a contender with the traffic that shows accuracy and fairness.
func examine(ctx context.Context, c contender, traffic []request, root string) (*accuracy, error) {
	dir, err := os.MkdirTemp(root, "run-")
	if err != nil {
		return nil, err
	}
	d, _, stop, err := deploy(ctx, c, false, dir)
	if err != nil {
		return nil, fmt.Errorf("limit: %s: %w", c.name, err)
	}
	defer stop()
	events := play(ctx, d.doors, traffic, nil)
	return score(c, events), ctx.Err()
}

func score(c contender, events []event) *accuracy {
	a := &accuracy{Contender: c.name, Errors: undecided(events), Most: map[string][]int{}, Late99: ms(lateness(events))}
	p50, p99, _ := quantiles(slices.DeleteFunc(slices.Clone(events), func(e event) bool { return !e.allowed }))
	a.P50, a.P99 = ms(p50), ms(p99)
	for _, d := range stretches {
		a.May = append(a.May, c.most(d))
	}
	for _, key := range []string{flooded, edges, below, random, crowded} {
		mine := of(events, key)
		a.Keys = append(a.Keys, tally{key, len(mine), admitted(mine), fit(mine)})
		for _, d := range stretches {
			n := most(mine, d)
			a.Most[key] = append(a.Most[key], n)
			if float64(n) > math.Floor(c.most(d)) {
				a.Exceeded = append(a.Exceeded, fmt.Sprintf("%s: %d in %v", key, n, d))
			}
		}
	}
	a.share(of(events, crowded))
	return a
}

// share sets the shares of the readers and of the greedy client.
func (a *accuracy) share(crowd []event) {
	asked, got := map[string]int{}, map[string]int{}
	for _, e := range crowd {
		asked[e.client]++
		if e.allowed {
			got[e.client]++
		}
	}
	seconds := float64(asked[greedy]) / (5 * rate)
	a.Greedy, a.Worst = float64(got[greedy])/seconds, 1
	sum, all := 0, 0
	for client, n := range asked {
		if client != greedy {
			sum, all = sum+got[client], all+n
			a.Worst = min(a.Worst, float64(got[client])/float64(n))
		}
	}
	a.Readers = float64(sum) / float64(all)
}

// tally returns the tally of a key.
func (a *accuracy) tally(key string) tally {
	for _, t := range a.Keys {
		if t.Key == key {
			return t
		}
	}
	return tally{}
}
