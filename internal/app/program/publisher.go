package program

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/counting/arrival"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/pipeline"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/rediscontrol"
)

// newPublisher gives the publisher of an aggregator. It keeps what the one
// before it published for as long as this process has not counted for long enough
// to know better.
func newPublisher(cfg config.Aggregator, feed *rediscontrol.Feed, current *atomic.Pointer[rules.Set],
	since func() time.Time, received func() (map[string]arrival.Flow, bool)) (*rediscontrol.Publisher, error) {
	if cfg.Lease >= cfg.Detect.HotTTL {
		return nil, config.Usage("--aggregator.lease %v: want less than --detect.hot_ttl, %v, or hot keys are over "+
			"before a standby renews them", cfg.Lease, cfg.Detect.HotTTL)
	}
	return feed.NewPublisher(rediscontrol.PublisherConfig{
		ID: publisherName(cfg), Lease: cfg.Lease, Hold: cfg.Detect.HotTTL, Keep: noInputTTL(cfg.Redis), Since: since,
		Received: received,
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

// withRelease runs judge and then releases the publisher's id, so that no process
// waits for the end of the lease.
func withRelease(judge func(context.Context) error, p *rediscontrol.Publisher, timeout time.Duration,
	log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		err := judge(ctx)
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		if e := p.Release(short); e != nil {
			log.Warn("the publisher lease was not released; the next publisher waits until it expires", "err", e)
		}
		return err
	}
}

// noInputTTL is the setting as the packages take it, which have a default for 0.
func noInputTTL(cfg config.Redis) time.Duration {
	if cfg.HotTTLNoInput == 0 {
		return -1
	}
	return cfg.HotTTLNoInput
}

// hotStatus is the line of the dashboard and of /readyz?verbose about the hot set:
// how old it is, and which aggregators are stale or have no input.
func hotStatus(m *hotset.Replica, now time.Time) admin.Status {
	age, known := m.Age(now)
	st := m.Stats(now)
	bad := func(format string, args ...any) admin.Status {
		return admin.Status{Name: "hot set", Value: fmt.Sprintf(format, args...)}
	}
	switch {
	case !known:
		return bad("no aggregator heard of yet: no key becomes hot")
	case st.Publishers+st.StalePublishers == 0:
		return bad("judged %.0f s ago: no aggregator is heard, no key becomes hot", age.Seconds())
	case st.StalePublishers > 0:
		return bad("judged %.1f s ago; %d of %d aggregators stale: %d hot keys kept", age.Seconds(),
			st.StalePublishers, st.Publishers+st.StalePublishers, st.KeysKept)
	case st.NoInputPublishers > 0:
		return bad("judged %.1f s ago; %d of %d aggregators have no input: hot keys kept", age.Seconds(),
			st.NoInputPublishers, st.Publishers)
	}
	return admin.Status{Name: "hot set", Value: fmt.Sprintf("judged %.1f s ago", age.Seconds()), OK: true}
}

func roleStatus(feed *rediscontrol.Feed, standby bool) admin.Status {
	switch {
	case feed.Stats().Publishing:
		return admin.Status{Name: "role", Value: "publishes", OK: true}
	case standby:
		return admin.Status{Name: "role", Value: "stands by", OK: true}
	}
	return admin.Status{Name: "role", Value: "publishes nothing yet"}
}

// adapt limits by what all limiters report. Each aggregator computes the bounds; one of them publishes.
func (a *aggregator) adapt(ctx context.Context) error {
	token := rand.Text()
	read := func(time.Time) []hottype.LimiterReport {
		reports, err := a.feed.ReadReports(ctx)
		if err != nil {
			return nil // the bounds hold; the limiters go back to the configured limits by themselves
		}
		return reports
	}
	return pipeline.Adapt(ctx, a.rules.Load, a.replica, read, func(_ time.Time, bounds []hottype.UpstreamLimit) {
		a.bounds.Store(&bounds)
		if len(bounds) == 0 {
			return
		}
		if _, err := a.feed.PublishBounds(ctx, token, bounds); err != nil {
			a.log.Debug("bounds of adaptive limits were not published; limiters keep the last ones", "err", err)
		}
	})
}

func (a *aggregator) upstreams() []hottype.UpstreamLimit {
	if b := a.bounds.Load(); b != nil {
		return *b
	}
	return nil
}
