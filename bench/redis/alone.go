package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// A caller alone mostly waits for two processes to wake, which takes another time each second: so all contenders are
// asked in one process, in a random order anew each time. No context of a call ends later than our client's own
// time-out of 1 s, as no decision of a program does, since a later end costs ours a timer.
const (
	askedAlone = 2500 // how often each is asked in a round
	oneContext = time.Second
)

// alone asks all contenders in turn.
func (b *bench) alone(ctx context.Context, what string, perSecond int) error {
	if err := b.rdb.FlushAll(ctx).Err(); err != nil {
		return err
	}
	all := contenders()
	open, took := make([]*limiter, len(all)), make([][]time.Duration, len(all))
	for i, c := range all {
		l, err := c.open(ctx, b.addr, perSecond, false)
		if err != nil {
			return err
		}
		defer l.close()
		open[i] = l
	}
	for len(took[0]) < askedAlone {
		if err := inTurn(ctx, open, took); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	us := func(d time.Duration) float64 { return float64(d) / 1e3 }
	for i, c := range all {
		slices.Sort(took[i])
		n := len(took[i])
		sum := time.Duration(0)
		for _, d := range took[i][:n*95/100] {
			sum += d
		}
		b.lone.Add(what, c.name, us(sum)/float64(n*95/100), us(took[i][n/10]), us(took[i][n/2]), us(took[i][n*99/100]))
	}
	return nil
}

// inTurn asks with one context.
func inTurn(ctx context.Context, open []*limiter, took [][]time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, oneContext)
	defer cancel()
	for start := time.Now(); time.Since(start) < oneContext/2; {
		for _, i := range rand.Perm(len(open)) {
			began := time.Now()
			if _, err := open[i].ask(ctx, hotTopic, 0); err != nil {
				return err
			}
			took[i] = append(took[i], time.Since(began))
		}
	}
	return nil
}
