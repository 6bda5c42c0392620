package demo

import (
	"context"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
)

// Load sends the demo's visitors to targets until ctx ends, and writes a line a
// second.
func Load(ctx context.Context, out io.Writer, targets []string, topics int) error {
	c := NewVisitors(targets, max(topics, 10), uint64(time.Now().UnixNano()))
	c.SetRate(Quiet, quietRate)
	c.SetRate(Crawler, crawlerRate)
	plan := newPlan(0)
	start := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.Run(ctx) })
	group.Go(func() error {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		var last [kinds]Seen
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
			rate := int64(0)
			if viral(plan.phase(time.Since(start))) {
				rate = viralRate
			}
			c.SetRate(Viral, rate)
			for k, name := range []string{"quiet", "viral", "crawlers"} {
				seen := c.Seen(Kind(k))
				d := seen.Sub(last[k])
				last[k] = seen
				fmt.Fprintf(out, "%s %d ok %d denied %d failed   ", name, d.OK, d.Denied, d.Failed)
			}
			fmt.Fprintln(out)
		}
	})
	return group.Wait()
}
