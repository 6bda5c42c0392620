package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// waitFlags let a command end only when its change holds everywhere.
type waitFlags struct {
	Wait time.Duration `placeholder:"10s" help:"Wait, at most so long, until every limiter has the change; exit code 1 if one lags."`
}

// waitForAll waits until every limiter has what is stored now.
func (c *adminFlags) waitForAll(ctx context.Context, k *kong.Kong, most time.Duration) error {
	if most <= 0 {
		return nil
	}
	a, err := c.limiters(ctx)
	if err != nil {
		return err
	}
	return c.waitFor(ctx, k, most, a.Revision)
}

// limitersAnswer is what GET /v1/limiters says.
type limitersAnswer struct {
	Revision int64
	Limiters []struct {
		Instance string
		Revision int64
	}
}

func (c *adminFlags) limiters(ctx context.Context) (a limitersAnswer, err error) {
	_, err = c.ask(ctx, question{path: "/v1/limiters"}, &a)
	return a, err
}

// pollEvery is how often it is asked whether a change has arrived.
const pollEvery = 100 * time.Millisecond

// waitFor waits until no limiter has an older revision, and says which have where that takes too long.
func (c *adminFlags) waitFor(ctx context.Context, k *kong.Kong, most time.Duration, revision int64) error {
	if most <= 0 {
		return nil
	}
	began := time.Now()
	end, poll := time.After(most), time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		a, err := c.limiters(ctx)
		if err != nil {
			return err
		}
		var behind []string
		for _, l := range a.Limiters {
			if l.Revision < revision {
				behind = append(behind, printable(l.Instance))
			}
		}
		if len(behind) == 0 {
			fmt.Fprintf(k.Stdout, "%s it, after %v\n", counted(len(a.Limiters), "limiter has", "limiters have"),
				time.Since(began).Round(time.Millisecond))
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end:
			return fmt.Errorf(
				"%d of %d limiters do not have it after %v: %s; it is stored, and they get it when they can",
				len(behind), len(a.Limiters), most, strings.Join(behind, ", "))
		case <-poll.C:
		}
	}
}
