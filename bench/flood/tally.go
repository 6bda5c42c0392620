package main

import (
	"slices"
	"time"
)

// second holds the outcomes of the requests that were sent in one second.
type second struct {
	Asked    int `json:"asked"`
	Answered int `json:"answered"`
	Refused  int `json:"refused"` // by the limit
	Failed   int `json:"failed"`  // at the upstream
}

func (s *second) add(other second) {
	s.Asked += other.Asked
	s.Answered += other.Answered
	s.Refused += other.Refused
	s.Failed += other.Failed
}

// percent returns the share of requests that were answered, or 100 if nothing was asked.
func (s *second) percent() float64 {
	if s.Asked == 0 {
		return 100
	}
	return 100 * float64(s.Answered) / float64(s.Asked)
}

// outcome is the end of a request.
type outcome int

// The outcomes of a request.
const (
	answered outcome = iota
	refused
	failed
)

// tally counts the requests of one group of clients by the second in which they were sent.
type tally struct {
	course []second
	waits  [][]time.Duration // of answered requests, by second, or nil if they are not kept
}

// newTally returns a tally. It keeps the time of each answered request if waits is true.
func newTally(seconds int, waits bool) *tally {
	t := &tally{course: make([]second, seconds)}
	if waits {
		t.waits = make([][]time.Duration, seconds)
	}
	return t
}

// add counts a request that was sent at a time since the beginning and took some time.
func (t *tally) add(sent, took time.Duration, o outcome) {
	at := int(sent / time.Second)
	if at >= len(t.course) {
		return
	}
	s := &t.course[at]
	s.Asked++
	switch o {
	case answered:
		s.Answered++
		if t.waits != nil {
			t.waits[at] = append(t.waits[at], took)
		}
	case refused:
		s.Refused++
	case failed:
		s.Failed++
	}
}

// between returns the sum of the seconds from one second until before another.
func (t *tally) between(from, to int) (sum second) {
	for _, s := range t.course[from:to] {
		sum.add(s)
	}
	return sum
}

// quantile returns a quantile of the times of answered requests of some tallies, or 0 without any.
func quantile(q float64, from, to int, tallies ...*tally) time.Duration {
	var all []time.Duration
	for _, t := range tallies {
		for _, list := range t.waits[from:to] {
			all = append(all, list...)
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[int(q*float64(len(all)-1))]
}
