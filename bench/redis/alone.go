package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// askedAlone is the number of decisions by each contender in a round.
const askedAlone = 2500

// alone asks all contenders in one process, each time in another random order, because a single caller mostly waits for
// two processes to wake, and that time changes from second to second. Contexts end no later than our client's own
// time-out of 1 s, as in the decisions of a program, because a later end costs our client a timer.
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
	for range askedAlone {
		within, cancel := context.WithTimeout(ctx, time.Second)
		for _, i := range rand.Perm(len(open)) {
			began := time.Now()
			if _, err := open[i].ask(within, hotTopic, 0); err != nil {
				cancel()
				return fmt.Errorf("%s: %s: %w", what, all[i].name, err)
			}
			took[i] = append(took[i], time.Since(began))
		}
		cancel()
	}
	for i, c := range all {
		slices.Sort(took[i])
		most, sum := took[i][:askedAlone*95/100], time.Duration(0)
		for _, d := range most {
			sum += d
		}
		b.lone.Add(what, c.name, float64(sum)/float64(len(most))/1e3, float64(took[i][askedAlone/2])/1e3)
	}
	return nil
}
