package rediscontrol

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/wait"
	"github.com/redis/go-redis/v9"
)

const (
	// pollEvery is the delay after a lost notice. An idle poll reads one small string.
	pollEvery = 500 * time.Millisecond
	// syncGap keeps a storm of notices from becoming a storm of reads.
	syncGap = 10 * time.Millisecond
	// quiet is the silence after which a subscription is pinged; after twice that time it is renewed.
	quiet = 2 * time.Second
)

// followChannel keeps state in step with Redis: it syncs after a notice, after its subscription was renewed, and at
// every poll in any case. It returns nil when ctx has ended and all of its goroutines have returned.
func (f *Feed) followChannel(ctx context.Context, what, channel string, state *followState,
	sync func(context.Context) (changed bool, err error)) error {
	return (&follower{f, what, channel, state, sync}).run(ctx)
}

type follower struct {
	feed    *Feed
	what    string // for the log
	channel string
	state   *followState
	// sync reads Redis once, hands on the news and reports whether there was any.
	sync func(context.Context) (changed bool, err error)
}

func (f *follower) run(ctx context.Context) error {
	notices := make(chan struct{}, 1) // one pending poll is as good as ten
	listener := make(chan struct{})
	go func() {
		defer close(listener)
		f.listen(ctx, notices)
	}()
	defer func() { <-listener }()

	noticed := false
	for ctx.Err() == nil {
		f.poll(ctx, noticed)
		polledAt := time.Now()
		// The followers of one process poll together, which wakes it once; different processes poll at different times.
		if noticed = wait.ForHint(ctx, pollEvery-time.Since(f.feed.polled)%pollEvery, notices); noticed {
			wait.For(ctx, syncGap-time.Since(polledAt))
		}
	}
	return nil
}

// poll syncs once, bounded in time, and logs when trouble begins and ends.
func (f *follower) poll(ctx context.Context, noticed bool) {
	bounded, cancel := context.WithTimeout(ctx, 2*f.feed.timeout)
	changed, err := f.sync(bounded)
	cancel()
	if ctx.Err() != nil {
		return // the end of ctx is not Redis' failure
	}
	before := f.state.recordPoll(f.feed.now(), err)
	switch {
	case err != nil && before == nil:
		f.feed.log.Warn("rediscontrol: cannot read "+f.what+"; the known state stays in force", "err", err)
	case err == nil && before != nil:
		f.feed.log.Info("rediscontrol: reading " + f.what + " again")
	}
	if changed && !noticed && f.state.read().Syncs > 1 {
		f.state.add(func(s *FollowStats) { s.MissedNotices++ })
	}
}

// listen subscribes, again and again, until ctx ends.
func (f *follower) listen(ctx context.Context, notices chan<- struct{}) {
	pause := backoff.NewExponentialBackOff() // randomized, so that a fleet does not return at once
	pause.InitialInterval = 50 * time.Millisecond
	pause.MaxInterval = time.Second
	for ctx.Err() == nil {
		if f.subscribe(ctx, notices) {
			pause.Reset()
		}
		if !wait.For(ctx, pause.NextBackOff()) {
			return
		}
	}
}

// subscribe listens until the connection breaks or ctx ends, and reports whether it was ever subscribed. It pings a
// silent connection, because one that a firewall forgot never breaks. It ignores errors, because the poll reports them.
func (f *follower) subscribe(ctx context.Context, notices chan<- struct{}) (stood bool) {
	sub := f.feed.rdb.Subscribe(ctx, f.channel)
	// Close ends a blocked receive; a second Close only returns an error.
	stop := context.AfterFunc(ctx, func() { _ = sub.Close() })
	defer func() {
		stop()
		_ = sub.Close()
	}()
	asked := false
	for {
		msg, err := sub.ReceiveTimeout(ctx, quiet)
		var timeout net.Error
		switch {
		case errors.As(err, &timeout) && timeout.Timeout() && !asked:
			if sub.Ping(ctx) != nil {
				return stood
			}
			asked = true
			continue
		case err != nil:
			return stood
		}
		asked = false
		switch msg.(type) {
		case *redis.Subscription:
			stood = true
			f.state.subscriptions.Add(1)
		case *redis.Message:
			f.state.add(func(s *FollowStats) { s.Notices++ })
		default: // the reply to a ping
			continue
		}
		wait.Signal(notices)
	}
}

const (
	// publisherCheckEvery is the interval at which a replica is checked for silent publishers.
	publisherCheckEvery = time.Second
	// noPublisherAfter is how long a program runs before it logs that no aggregator publishes.
	noPublisherAfter = 10 * time.Second
)

// FollowInto follows the hot set into a replica. It logs which aggregators fall silent or get no counts, whether any
// publishes, and when each of these ends.
func (f *Feed) FollowInto(ctx context.Context, m *hotset.Replica) error {
	var checking sync.WaitGroup
	checking.Go(func() {
		s := publisherLog{log: f.log, began: f.now()}
		wait.Every(ctx, publisherCheckEvery, func() { s.checkPublishers(m, f.now()) })
	})
	err := f.Follow(ctx, m.Replace)
	checking.Wait()
	return err
}

// publisherLog logs the changes of the publishers of a replica.
type publisherLog struct {
	log   *slog.Logger
	began time.Time
	alone bool // true after logging that no aggregator publishes
}

// checkPublishers logs the publishers whose state has changed, and whether any has ever published.
func (s *publisherLog) checkPublishers(m *hotset.Replica, now time.Time) {
	for _, sight := range m.CheckPublishers(now) {
		s.record(sight)
	}
	switch _, heard := m.Age(now); {
	case heard && s.alone:
		s.alone = false
		s.log.Info("rediscontrol: an aggregator publishes the hot set")
	case !heard && !s.alone && now.Sub(s.began) > noPublisherAfter:
		s.alone = true
		s.log.Warn(
			"rediscontrol: no aggregator has ever published a hot set here: no key becomes hot; is one running, with the same namespace?")
	}
}

func (s *publisherLog) record(sight hotset.PublisherChange) {
	log := s.log.With("publisher", sight.Publisher, "hot_keys", sight.Keys)
	switch {
	case sight.State == hotset.Stale:
		log.Warn("rediscontrol: aggregator not seen: its hot keys are kept, no key becomes hot",
			"kept_until", sight.Until.UTC())
	case sight.State == hotset.Stopped:
		log.Info("rediscontrol: the aggregator has stopped: its hot keys are kept until another one takes over",
			"kept_until", sight.Until.UTC())
	case sight.State == hotset.NoInput:
		log.Warn(
			"rediscontrol: an aggregator has no input: its hot keys stay hot, no other key becomes hot")
	case sight.State == hotset.Live:
		log.Info("rediscontrol: the aggregator receives counts again")
	case sight.Keys > 0:
		log.Warn("rediscontrol: the aggregator was silent for too long: its hot keys are no longer hot")
	default:
		log.Info("rediscontrol: the silent aggregator is forgotten; it had no hot keys")
	}
}
