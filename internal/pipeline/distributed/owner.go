package distributed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/storage/rediscontrol"
	"github.com/hotparam/pipeline/internal/wait"
)

// ownership records whether another process holds the aggregator's id, as found by the attempts to publish.
type ownership struct {
	id      string
	publish func(context.Context, report.HotSet) error
	log     *slog.Logger
	changed chan struct{} // holds a signal that the fields below changed

	mu    sync.Mutex // guards the fields below
	tried bool       // an attempt has ended
	other bool       // another process holds the id, by the last attempt that Redis answered
}

// Publish publishes a hot set and records whether another process holds the id. An outage of Redis does not change
// that.
func (o *ownership) Publish(ctx context.Context, set report.HotSet) error {
	err := o.publish(ctx, set)
	if ctx.Err() != nil {
		return err
	}
	var standby *rediscontrol.StandbyError
	stands := errors.As(err, &standby)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tried = true
	if err == nil || stands {
		o.other = stands
	}
	wait.Signal(o.changed)
	return err
}

func (o *ownership) lastAttempt() (tried, other bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.tried, o.other
}

// CheckOwner returns an error while another process holds this aggregator's id.
func (a *Aggregator) CheckOwner() error {
	if _, other := a.owner.lastAttempt(); !other {
		return nil
	}
	return fmt.Errorf("another process holds the aggregator.id %q: this one reads nothing from Kafka until the lease of the "+
		"other (aggregator.lease) ends; with Kafka each aggregator needs an id of its own", a.owner.id)
}

// RunAsOwner runs a part repeatedly, each time for as long as no other process holds this aggregator's id, until ctx
// ends or the part fails. The part does not run before the first attempt to publish has ended. Only one part may be run
// in this way.
func (a *Aggregator) RunAsOwner(ctx context.Context, run func(context.Context) error) error {
	for said := false; ctx.Err() == nil; {
		tried, other := a.owner.lastAttempt()
		if other && !said {
			a.owner.log.Error("aggregate: " + a.CheckOwner().Error())
		}
		said = other
		if tried && !other {
			if err := a.owner.runWhileOwner(ctx, run); err != nil {
				return err
			}
			continue
		}
		select {
		case <-a.owner.changed:
		case <-ctx.Done():
		}
	}
	return nil
}

// runWhileOwner runs a part until another process holds the id.
func (o *ownership) runWhileOwner(ctx context.Context, run func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil {
			if _, other := o.lastAttempt(); other {
				stop()
			}
			select {
			case <-o.changed:
			case <-ctx.Done():
			}
		}
	})
	defer watching.Wait()
	defer stop()
	return run(ctx)
}
