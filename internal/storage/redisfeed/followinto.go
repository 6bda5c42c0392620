package redisfeed

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/wait"
)

const (
	// sightEvery is how often a replica is asked who has fallen silent.
	sightEvery = time.Second
	// aloneAfter is how long a program may run before it says that nobody
	// publishes at all.
	aloneAfter = 10 * time.Second
)

// FollowInto is Follow into a replica, and what most programs want. Once each way
// it logs which aggregators fall silent, which say that they get no counts, and
// whether there is any.
func (f *Feed) FollowInto(ctx context.Context, m *hotset.Replica) error {
	var looking sync.WaitGroup
	looking.Go(func() {
		s := sights{log: f.log, began: f.now()}
		wait.Every(ctx, sightEvery, func() { s.look(m, f.now()) })
	})
	err := f.Follow(ctx, m.Replace)
	looking.Wait()
	return err
}

// sights says what a replica sees of the publishers.
type sights struct {
	log   *slog.Logger
	began time.Time
	alone bool // it has been said that there is none
}

func (s *sights) look(m *hotset.Replica, now time.Time) {
	for _, sight := range m.CheckPublishers(now) {
		s.tell(sight)
	}
	switch _, heard := m.Age(now); {
	case heard && s.alone:
		s.alone = false
		s.log.Info("redisfeed: an aggregator publishes the hot set")
	case !heard && !s.alone && now.Sub(s.began) > aloneAfter:
		s.alone = true
		s.log.Warn(
			"redisfeed: no aggregator has ever published a hot set here: no key becomes hot; is one running, with the same namespace?")
	}
}

func (s *sights) tell(sight hotset.PublisherChange) {
	log := s.log.With("publisher", sight.Publisher, "hot_keys", sight.Keys)
	switch {
	case sight.State == hotset.Silent:
		log.Warn("redisfeed: an aggregator has fallen silent: its hot keys stay hot, no other key becomes hot",
			"kept_until", sight.Until.UTC())
	case sight.State == hotset.Blind:
		log.Warn(
			"redisfeed: an aggregator is blind, it gets no counts: its hot keys stay hot, no other key becomes hot")
	case sight.State == hotset.Live:
		log.Info("redisfeed: the aggregator sees again")
	case sight.Keys > 0:
		log.Warn("redisfeed: the aggregator was silent for too long: its hot keys are not hot any more")
	default:
		log.Info("redisfeed: the silent aggregator is forgotten; it had no hot keys")
	}
}
