package learn

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/operator/replay"
)

const (
	// maxSpenders is the number of values of a parameter whose time is kept.
	maxSpenders = 64
	// A value is costly if it takes at least costlyShare of the time of all requests, and each of its requests takes at
	// least costlyFactor times as long as the mean of the others.
	costlyShare, costlyFactor = 0.1, 5
	// maxCostly is the number of values that are listed.
	maxCostly = 3
)

// spending adds up the time that the values of a parameter took, by the algorithm Space-Saving (Metwally, Agrawal and
// El Abbadi, 2005): a value that is not kept takes the place and the time of the value with the least time. So no time
// is too short, and too long by at most a 64th of all, far less than costlyShare.
type spending struct{ by map[string]*spent }

type spent struct {
	time     time.Duration
	requests int64
}

func (s *spending) add(value string, took time.Duration) {
	v := s.by[value]
	if v == nil {
		v = s.replaceLeast()
		s.by[strings.Clone(value)] = v
	}
	v.time += took
	v.requests++
}

// replaceLeast returns the entry of a new value.
func (s *spending) replaceLeast() *spent {
	if s.by == nil {
		s.by = map[string]*spent{}
	}
	if len(s.by) < maxSpenders {
		return &spent{}
	}
	least := ""
	for name, v := range s.by {
		if l := s.by[least]; l == nil || v.time < l.time || v.time == l.time && name < least {
			least = name
		}
	}
	v := s.by[least]
	delete(s.by, least)
	return &spent{time: v.time}
}

// costly is a value that takes much of the time of all requests.
type costly struct {
	of, value        string
	share, requests  float64
	each, eachOthers time.Duration
}

// findCostly returns the costly values of all parameters, the costliest first.
func (s *survey) findCostly() (list []costly) {
	for _, pl := range s.places {
		for _, p := range pl.params {
			for value, v := range p.spending.by {
				others, rest := s.spent.time-v.time, s.spent.requests-v.requests
				if rest <= 0 || v.time < time.Duration(costlyShare*float64(s.spent.time)) {
					continue
				}
				c := costly{p.name + " of " + pl.pattern, value, float64(v.time) / float64(s.spent.time),
					float64(v.requests) / float64(s.spent.requests), v.time / time.Duration(v.requests),
					others / time.Duration(rest)}
				if c.each >= costlyFactor*c.eachOthers {
					list = append(list, c)
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b costly) int {
		return cmp.Or(cmp.Compare(b.share, a.share), cmp.Compare(a.of, b.of), cmp.Compare(a.value, b.value))
	})
	return list[:min(len(list), maxCostly)]
}

// describeCostly names values that are few and take much of the time.
func (p *Proposal) describeCostly() (lines []string) {
	for _, c := range p.survey.findCostly() {
		name, path, _ := strings.Cut(c.of, " of ")
		pair := hideSecrets("?" + strings.TrimPrefix(name, "path.") + "=" + c.value)[1:]
		lines = append(lines, fmt.Sprintf("Expensive: %s of %s is %.1f %% of the requests and takes %.0f %% of the time "+
			"(%v each, others %v). A rule with cost: time finds and limits such values; docs/detection.md#hot-by-cost.",
			replay.Fit(replay.Printable(pair), 60), path, 100*c.requests, 100*c.share, c.each.Round(time.Millisecond),
			c.eachOthers.Round(time.Millisecond)))
	}
	return lines
}
