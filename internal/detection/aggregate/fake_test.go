package aggregate

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is a Publisher that remembers sets, and fails or hangs as set.
type recorder struct {
	mu    sync.Mutex
	err   error
	hangs bool // until ctx ends
	sets  []report.HotSet
	times []time.Time // of every attempt
}

var errDown = errors.New("store is down")

func (r *recorder) Publish(ctx context.Context, set report.HotSet) error {
	r.mu.Lock()
	r.times = append(r.times, time.Now())
	err, hangs := r.err, r.hangs
	if err == nil && !hangs {
		r.sets = append(r.sets, set)
	}
	r.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (r *recorder) become(err error, hangs bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err, r.hangs = err, hangs
}

// published returns the sets that were published since its last call.
func (r *recorder) published() []report.HotSet {
	r.mu.Lock()
	defer r.mu.Unlock()
	sets := r.sets
	r.sets = nil
	return sets
}

func (r *recorder) attempts() []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	times := r.times
	r.times = nil
	return times
}

// rulesOf returns one rule, "topic", by which a key is hot at a rate over 5 s.
func rulesOf(rate float64) *rules.Set {
	return &rules.Set{Rules: []*rules.Rule{{
		Name: "topic",
		Hot:  rules.HotCriteria{Rate: rate, Window: 5 * time.Second, Cooldown: 3 * time.Second, ReleaseRatio: 0.7},
	}}}
}

// bubble runs an Aggregator in fake time, and stops it.
func bubble(t *testing.T, cfg Config, f func(t *testing.T, a *Aggregator, stop func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if cfg.Rules == nil {
			cfg.Rules = rulesOf(2)
		}
		a := New(cfg)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if err := a.Run(ctx); err != nil {
				t.Errorf("Run: %v", err)
			}
		}()
		stop := sync.OnceFunc(func() {
			cancel()
			<-ended
		})
		defer stop()
		synctest.Wait()
		f(t, a, stop)
	})
}

// send sends n of a key now and waits until the goroutines are idle.
func send(t *testing.T, a *Aggregator, key hottype.Key, n int64) {
	t.Helper()
	c := hottype.Count{Key: key, N: n, Second: time.Now().Unix()}
	if err := a.Send(t.Context(), []hottype.Count{c}); err != nil {
		t.Errorf("Send: %v", err)
	}
	synctest.Wait()
}

// pass advances the fake time.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func keys(set report.HotSet) (keys []hottype.Key) {
	for _, h := range set.Keys {
		keys = append(keys, h.Key)
	}
	return keys
}
