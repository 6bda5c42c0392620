package distributed

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/aggregate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/pipeline"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/storage/rediscontrol"
	"github.com/hotparam/pipeline/internal/storage/redislimits"
)

// Aggregator finds hot keys by the counts of many processes and publishes them to the store.
//
//	sources ──> aggregate ──> publisher ──> Redis ──> hot set of all aggregators in memory
//
// Its parts are in the embedded Stages, to which a program adds the sources of counts, which call
// aggregate.Aggregator.Send, before it calls Run.
type Aggregator struct {
	lifecycle.Stages

	Feed      *rediscontrol.Feed
	Limits    *redislimits.Limiter // resets the charges of a key or a client
	Aggregate *aggregate.Aggregator
	Hot       *hotset.Replica // the hot set of all aggregators together

	// Reported, when set before Run, completes each report of this aggregator.
	Reported func(*report.Aggregator)

	name      string // its publisher ID
	instance  string // names this process, of several with one publisher ID
	led       atomic.Bool
	publisher *rediscontrol.Publisher
	owner     *ownership
	rules     atomic.Pointer[rules.Set]
	upstreams atomic.Pointer[[]hottype.UpstreamLimit]
	now       func() time.Time
	release   time.Duration
	unread    time.Duration
	log       *slog.Logger
}

// AggregatorConfig has the settings of an Aggregator's parts. The connections between them are filled in.
type AggregatorConfig struct {
	Aggregate aggregate.Config
	Publisher rediscontrol.PublisherConfig
	Store     *redisclient.Client
	// Unread is the time after the death of a process for which its input may have no reader; keys that a successor
	// inherits do not cool within that time.
	Unread time.Duration
	// Judged, when set, returns the partitions whose keys only this process has counted since a time.
	Judged func(since time.Time) report.Partitions
	// Overrides receives the live overrides after each change.
	Overrides func(rules.LiveOverrides)
	// Instance names this process in its reports to others.
	Instance string
	Log      *slog.Logger
}

// NewAggregator wires one of many aggregators.
func NewAggregator(c AggregatorConfig) *Aggregator {
	a := &Aggregator{Feed: rediscontrol.New(c.Store), Limits: redislimits.New(c.Store), log: c.Log,
		Hot:  &hotset.Replica{NoInputTTL: c.Aggregate.NoInputTTL},
		name: c.Publisher.ID, instance: cmp.Or(c.Instance, c.Publisher.ID),
		release: c.Store.Config().Timeout, unread: c.Unread}
	a.rules.Store(c.Aggregate.Rules)
	a.now = c.Store.Config().Now
	c.Aggregate.Now = a.now
	c.Publisher.Since = func() time.Time { return a.Aggregate.CountsSince() }
	c.Publisher.Window = a.judgingWindow
	if c.Judged != nil {
		c.Publisher.Judged = func() report.Partitions { return a.judgedPartitions(c.Judged) }
	}
	a.publisher = a.Feed.NewPublisher(c.Publisher)
	a.owner = &ownership{id: a.name, publish: a.publisher.Publish, log: c.Log, changed: make(chan struct{}, 1)}
	c.Aggregate.Publish = a.owner
	a.Aggregate = aggregate.New(c.Aggregate)
	a.Add(lifecycle.Buffers, "aggregate", a.runAndRelease)
	a.Add(lifecycle.Sinks, "redis", c.Store.Watch)
	a.Add(lifecycle.Sinks, "hot set", func(ctx context.Context) error { return a.Feed.FollowInto(ctx, a.Hot) })
	a.Add(lifecycle.Sinks, "overrides", func(ctx context.Context) error {
		return a.Feed.Overrides().Follow(ctx, c.Overrides)
	})
	a.Add(lifecycle.Sinks, "upstreams", a.runControllers)
	a.Add(lifecycle.Sinks, "aggregators", a.exchangeUse)
	return a
}

// Leads reports whether this aggregator sends notifications. The leader is the publishing aggregator whose name comes
// first. While no publisher is known, because Redis does not answer, the last leader continues.
func (a *Aggregator) Leads() bool {
	if first := a.Hot.FirstPublisher(a.now()); first != "" {
		a.led.Store(first == a.name && a.Feed.Stats().Publishing)
	}
	return a.led.Load()
}

// Rules returns the current rules.
func (a *Aggregator) Rules() *rules.Set { return a.rules.Load() }

// SetRules replaces the rules.
func (a *Aggregator) SetRules(set *rules.Set) {
	a.rules.Store(set)
	a.Aggregate.SetRules(set)
}

// judgingWindow returns the time after which a new process knows that a key of the rule is cold. A silence that began
// in its first window, in which it had counted too little to find the key, is noticed by then. The input of a dead
// process has a reader by then: a broker that comes back waits again for the dead process, so that outages add to this
// time.
func (a *Aggregator) judgingWindow(rule string) time.Duration {
	for _, r := range a.Rules().Rules {
		if r.Name == rule {
			return r.Hot.Window + aggregate.SilentAfter + a.unread
		}
	}
	return 0
}

// judgedPartitions returns the partitions whose keys this process has judged for a whole window of each rule.
func (a *Aggregator) judgedPartitions(read func(since time.Time) report.Partitions) report.Partitions {
	since, counts := a.now(), a.Aggregate.CountsSince()
	for _, r := range a.Rules().Rules {
		if full := a.now().Add(-a.judgingWindow(r.Name)); full.Before(since) {
			since = full
		}
	}
	if counts.IsZero() || counts.After(since) {
		return report.Partitions{}
	}
	return read(since)
}

// runAndRelease judges and then releases the publisher's id, so that no process waits for the end of the lease.
func (a *Aggregator) runAndRelease(ctx context.Context) error {
	err := a.Aggregate.Run(ctx)
	short, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.release)
	defer cancel()
	if e := a.publisher.Release(short); e != nil {
		a.log.Warn("the publisher lease was not released; the next publisher waits until it expires", "err", e)
	}
	return err
}

// Command makes all processes that share the store execute a command.
func (a *Aggregator) Command(ctx context.Context, c report.Command) error {
	return SendCommand(ctx, a.Feed, a.Limits, a.Rules(), c)
}

// runControllers runs the controllers by the reports of all limiters. Each aggregator computes the bounds; one of them
// publishes.
func (a *Aggregator) runControllers(ctx context.Context) error {
	token := rand.Text()
	read := func(time.Time) []report.Limiter {
		reports, err := a.Feed.ReadReports(ctx)
		if err != nil {
			return nil // the bounds hold; the limiters return to their configured limits by themselves
		}
		return reports
	}
	apply := func(_ time.Time, bounds []hottype.UpstreamLimit) {
		a.upstreams.Store(&bounds)
		if len(bounds) == 0 {
			return
		}
		if _, err := a.Feed.PublishBounds(ctx, token, bounds); err != nil {
			a.log.Debug("bounds of adaptive limits were not published; limiters keep the last ones", "err", err)
		}
	}
	adaptation := pipeline.Adaptation{Now: a.now, Rules: a.Rules, Hot: a.Hot, Read: read, Apply: apply, Bases: a.Feed,
		Log: a.log}
	return adaptation.Run(ctx)
}

// Upstreams returns the current bounds of adaptive limits.
func (a *Aggregator) Upstreams() []hottype.UpstreamLimit {
	if b := a.upstreams.Load(); b != nil {
		return *b
	}
	return nil
}
