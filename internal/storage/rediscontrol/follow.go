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
	// pollEvery is how long a lost notice costs. An idle poll reads one small string.
	pollEvery = 500 * time.Millisecond
	// syncGap keeps a storm of notices from becoming a storm of reads.
	syncGap = 10 * time.Millisecond
	// quiet is the silence after which a subscription is pinged; after twice that it is made anew.
	quiet = 2 * time.Second
)

// follow keeps something in step with Redis: it looks when a notice says so, when its subscription was made anew, and
// at every poll in any case. It returns nil when ctx has ended and nothing of it runs any more.
func (f *Feed) follow(ctx context.Context, what, channel string, state *followState,
	sync func(context.Context) (changed bool, err error)) error {
	return (&follower{f, what, channel, state, sync}).run(ctx)
}

type follower struct {
	feed    *Feed
	what    string // for the log
	channel string
	state   *followState
	// sync looks at Redis once, hands on what is new and reports whether there was anything.
	sync func(context.Context) (changed bool, err error)
}

func (f *follower) run(ctx context.Context) error {
	notices := make(chan struct{}, 1) // one pending look is as good as ten
	listener := make(chan struct{})
	go func() {
		defer close(listener)
		f.listen(ctx, notices)
	}()
	defer func() { <-listener }()

	noticed := false
	for ctx.Err() == nil {
		f.look(ctx, noticed)
		looked := time.Now()
		// The followers of a process poll together, which wakes it once, and those of many processes do not.
		if noticed = wait.ForHint(ctx, pollEvery-time.Since(f.feed.polled)%pollEvery, notices); noticed {
			wait.For(ctx, syncGap-time.Since(looked))
		}
	}
	return nil
}

// look syncs once, bounded in time, and logs when trouble begins and ends.
func (f *follower) look(ctx context.Context, noticed bool) {
	bounded, cancel := context.WithTimeout(ctx, 2*f.feed.timeout)
	changed, err := f.sync(bounded)
	cancel()
	if ctx.Err() != nil {
		return // the end of ctx is not Redis' failure
	}
	before := f.state.recordPoll(f.feed.now(), err)
	switch {
	case err != nil && before == nil:
		f.feed.log.Warn("rediscontrol: cannot read "+f.what+"; what is known stays in force", "err", err)
	case err == nil && before != nil:
		f.feed.log.Info("rediscontrol: reading " + f.what + " again")
	}
	if changed && !noticed && f.state.read().Syncs > 1 {
		f.state.add(func(s *FollowStats) { s.MissedNotices++ })
	}
}

// listen subscribes, again and again, until ctx ends.
func (f *follower) listen(ctx context.Context, notices chan<- struct{}) {
	pause := backoff.NewExponentialBackOff() // randomised: a fleet does not come back as one
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

// subscribe listens until the connection breaks or ctx ends, and reports whether the subscription ever
// stood. A silent one is pinged: behind a firewall that forgot it, it never breaks. The poll reports
// errors.
func (f *follower) subscribe(ctx context.Context, notices chan<- struct{}) (stood bool) {
	sub := f.feed.rdb.Subscribe(ctx, f.channel)
	// Closing is what ends a blocked receive; a second Close only says so.
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
		default: // the answer to a ping
			continue
		}
		wait.Signal(notices)
	}
}

const (
	// publisherCheckEvery is how often a replica is asked who has fallen silent.
	publisherCheckEvery = time.Second
	// noPublisherAfter is how long a program runs before it logs that no aggregator publishes.
	noPublisherAfter = 10 * time.Second
)

// FollowInto is Follow into a replica. It logs which aggregators fall silent or get no counts, whether
// there is any, and the end of each.
func (f *Feed) FollowInto(ctx context.Context, m *hotset.Replica) error {
	var looking sync.WaitGroup
	looking.Go(func() {
		s := publisherLog{log: f.log, began: f.now()}
		wait.Every(ctx, publisherCheckEvery, func() { s.look(m, f.now()) })
	})
	err := f.Follow(ctx, m.Replace)
	looking.Wait()
	return err
}

// publisherLog says what a replica sees of the publishers.
type publisherLog struct {
	log   *slog.Logger
	began time.Time
	alone bool // it has been said that there is none
}

func (s *publisherLog) look(m *hotset.Replica, now time.Time) {
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
		log.Info("rediscontrol: the aggregator sees again")
	case sight.Keys > 0:
		log.Warn("rediscontrol: the aggregator was silent for too long: its hot keys are not hot any more")
	default:
		log.Info("rediscontrol: the silent aggregator is forgotten; it had no hot keys")
	}
}
