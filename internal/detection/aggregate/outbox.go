package aggregate

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/wait"
)

// outbox holds the newest hot set until it is published.
type outbox struct {
	cfg     Config
	pending chan struct{} // holds one signal: there is a set
	pause   *backoff.ExponentialBackOff
	down    bool // the last attempt of run failed
	standby bool // the last attempt found that another process publishes

	mu      sync.Mutex // guards all below
	set     *report.HotSet
	stats   Publications
	failure string // of the last attempt, if it failed; standing by does not count as failure
}

func newOutbox(cfg Config) *outbox {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = firstPause, maxPause
	pause.Reset()
	return &outbox{cfg: cfg, pending: make(chan struct{}, 1), pause: pause}
}

func (o *outbox) putSet(set report.HotSet) {
	o.mu.Lock()
	if o.set != nil {
		o.stats.Coalesced++
	}
	o.set = &set
	o.mu.Unlock()
	wait.Signal(o.pending)
}

func (o *outbox) takeSet() *report.HotSet {
	o.mu.Lock()
	defer o.mu.Unlock()
	set := o.set
	o.set = nil
	return set
}

// putBackSet keeps a set that could not be published, unless a newer set came.
func (o *outbox) putBackSet(set *report.HotSet) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.set == nil {
		o.set = set
	}
}

// run publishes sets until ctx ends. After a failure it pauses; sets that come meanwhile wait, and the newest is tried
// next.
func (o *outbox) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.pending:
		}
		set := o.takeSet()
		if set == nil {
			continue
		}
		err := o.publish(ctx, *set)
		if ctx.Err() != nil {
			return // Run publishes a newer set
		}
		o.logTransition(err, len(set.Keys))
		if err == nil {
			continue
		}
		o.putBackSet(set)
		// A process that stands by asks again at the moment at which the place may be free.
		pause, stands := standsBy(err)
		if !stands {
			pause = o.pause.NextBackOff()
		}
		if !wait.For(ctx, pause) {
			return
		}
		wait.Signal(o.pending)
	}
}

// standby is an error of a Publisher by which another process publishes in place of this one, and may stop to after the
// time that Standby returns.
type standby interface {
	error
	Standby() time.Duration
}

func standsBy(err error) (wait time.Duration, yes bool) {
	var s standby
	if !errors.As(err, &s) {
		return 0, false
	}
	return max(s.Standby(), time.Millisecond), true
}

// logTransition logs when an outage or standing by begins and ends.
func (o *outbox) logTransition(err error, keys int) {
	_, stands := standsBy(err)
	down := err != nil && !stands
	switch {
	case stands && !o.standby:
		o.cfg.Log.Info("aggregate: standing by: another process publishes under this id; counting goes on", "owner",
			err)
	case down && !o.down:
		o.cfg.Log.Error("aggregate: the hot set cannot be published; trying again until it can",
			"err", err, "keys", keys)
	case err == nil && o.standby:
		o.cfg.Log.Info("aggregate: taken over: this process publishes the hot set now", "keys", keys)
	case err == nil && o.down:
		o.cfg.Log.Info("aggregate: the hot set is published again", "keys", keys)
	}
	if !down {
		o.standby = stands // an outage does not show who publishes
	}
	o.down = down
}

func (o *outbox) publishFinal(ctx context.Context, set report.HotSet) {
	err := o.publish(ctx, set)
	if _, stands := standsBy(err); err != nil && !stands {
		o.cfg.Log.Warn("aggregate: the last hot set was not published; the copies of readers expire by themselves",
			"err", err, "keys", len(set.Keys))
	}
}

func (o *outbox) publish(ctx context.Context, set report.HotSet) error {
	if o.cfg.Publish == nil {
		return nil
	}
	attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	began := time.Now()
	err := o.cfg.Publish.Publish(attempt, set)
	o.recordAttempt(ctx, err, time.Since(began))
	return err
}

// recordAttempt counts an attempt. An attempt that the end of ctx cut short has not failed.
func (o *outbox) recordAttempt(ctx context.Context, err error, took time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, stands := standsBy(err)
	if err != nil && !stands {
		if ctx.Err() == nil {
			o.stats.PublishErrors++
			o.failure = err.Error()
		}
		return
	}
	o.stats.Standby, o.failure = stands, ""
	o.pause.Reset()
	if stands {
		return
	}
	o.stats.Published++
	o.stats.PublishLast = took
	o.stats.PublishTotal += took
	o.stats.LastPublished = o.cfg.Now()
}
