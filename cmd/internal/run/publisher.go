package run

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/cmd/internal/config"
	"github.com/hotparam/pipeline/hotparam/admin"
	"github.com/hotparam/pipeline/hotparam/hotset"
	"github.com/hotparam/pipeline/hotparam/redisstore"
	"github.com/hotparam/pipeline/hotparam/rules"
)

// newPublisher gives the publisher of an aggregator. It keeps what the one
// before it published for as long as this process is too young to know better.
func newPublisher(cfg config.Aggregator, c *redisstore.Client, current *atomic.Pointer[rules.Set]) (*redisstore.Publisher, error) {
	if cfg.Lease >= cfg.Detect.Hold {
		return nil, fmt.Errorf("%w: --aggregator.lease %v: want less than --detect.hold, %v, or hot keys are over before a standby renews them", config.ErrUsage, cfg.Lease, cfg.Detect.Hold)
	}
	return c.NewPublisher(redisstore.PublisherConfig{
		ID: publisherName(cfg), Lease: cfg.Lease,
		Window: func(rule string) time.Duration {
			for _, r := range current.Load().Rules {
				if r.Name == rule {
					return r.Hot.Window
				}
			}
			return 0
		},
	}), nil
}

// releasing runs judge and then gives the publisher's id back, so that nobody
// waits for the end of the lease.
func releasing(judge func(context.Context) error, p *redisstore.Publisher, timeout time.Duration, log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		err := judge(ctx)
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		if e := p.Release(short); e != nil {
			log.Warn("the aggregator's name was not given back; whoever takes it waits for the lease to end", "err", e)
		}
		return err
	}
}

// hotStatus is the dashboard's line about the hot set: how old it is.
func hotStatus(m *hotset.Mirror, now time.Time) admin.Status {
	const old = 5 * time.Second // several publications late
	age, known := m.Age(now)
	switch {
	case !known:
		return admin.Status{Name: "hot set", Value: "not heard of yet"}
	case age > old:
		return admin.Status{Name: "hot set", Value: fmt.Sprintf("judged %.0f s ago: is an aggregator running?", age.Seconds())}
	}
	return admin.Status{Name: "hot set", Value: fmt.Sprintf("judged %.1f s ago", age.Seconds()), OK: true}
}

// roleStatus says whether this aggregator is the one that publishes.
func roleStatus(c *redisstore.Client, standby bool) admin.Status {
	switch {
	case c.Stats().Publishing:
		return admin.Status{Name: "role", Value: "publishes", OK: true}
	case standby:
		return admin.Status{Name: "role", Value: "stands by", OK: true}
	}
	return admin.Status{Name: "role", Value: "publishes nothing yet"}
}
