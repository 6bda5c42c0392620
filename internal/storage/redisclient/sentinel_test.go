package redisclient_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/storage/rediscontrol"
	"github.com/hotparam/pipeline/internal/storage/redislimits"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// within is the documented time from the Sentinels' switch until limits are shared and
// no client counts on the old master any more.
const within = 2 * time.Second

// Under load the master is killed, frozen, or replaced while it is healthy. Limits are shared again within the
// documented time, nothing is counted twice, only counts that no other server received are lost, and followers get the
// next hot set.
func TestClient_SurvivesFailoverUnderLoad(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*testing.T, *redistest.Sentinels){
		"killed":   func(_ *testing.T, s *redistest.Sentinels) { s.Master.Kill() },
		"frozen":   func(_ *testing.T, s *redistest.Sentinels) { s.Master.Freeze() },
		"replaced": func(t *testing.T, s *redistest.Sentinels) { s.Switch(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.StartSentinels(t)
			c, log := openSentinels(t, s.Addrs())
			redistest.Running(t, c.Watch)
			feed := rediscontrol.New(c)
			hot := follow(t, feed)
			publish(t, feed, 1)
			redistest.Next(t, hot, "the first hot set")

			l := startLoad(t, redislimits.New(c))
			redistest.Eventually(t, "load", func() bool { return l.allowed.Load() > 100 })
			before := l.allowed.Load()
			s.AwaitReplica(t)
			fail(t, s)
			s.AwaitSwitch(t)
			switched, allowed := time.Now(), l.allowed.Load()
			redistest.Eventually(t, "shared limits", func() bool { return l.allowed.Load() > allowed+100 })
			took := time.Since(switched)
			redistest.Eventually(t, "the last to leave the old master",
				func() bool { return time.Since(switched) > within })
			settled := l.allowed.Load()
			if took > within {
				t.Errorf("limits are shared %v after the switch, want %v", took, within)
			}
			if name == "frozen" {
				s.Master.Thaw() // it does not know yet that it was replaced
			}
			publish(t, feed, 2)
			for redistest.Next(t, hot, "the next hot set") != 2 { // a set from before
			}
			l.stop()

			used, known, unknown := l.used(t), l.allowed.Load(), l.unknown.Load()
			t.Logf("%s: shared %v after the switch; %d allowed, %d unknown, %d counted", name,
				took.Round(time.Millisecond), known, unknown, used)
			if used > known+unknown {
				t.Errorf("%d counted, but only %d were allowed and %d have no answer: some were counted twice", used,
					known, unknown)
			}
			if used < before+known-settled {
				t.Errorf("%d counted: of %d allowed before the failure and %d from %v after the switch some are lost",
					used, before, known-settled, within)
			}
			redistest.Eventually(t, "the log to name the new master",
				func() bool { return strings.Contains(log.String(), s.Replica.Addr()) })
		})
	}
}

func openSentinels(t *testing.T, addrs []string) (*redisclient.Client, *redistest.Log) {
	t.Helper()
	log := new(redistest.Log)
	c, err := redisclient.Open(redisclient.Config{
		Addrs: addrs, SentinelMaster: redistest.MasterName, Namespace: "test", Timeout: 500 * time.Millisecond,
		Log: log.Logger(),
	})
	return redistest.MustOpen(t, c, err), log
}

// follow returns a channel with the number of keys of each hot set that arrives.
func follow(t *testing.T, f *rediscontrol.Feed) <-chan int {
	t.Helper()
	sizes := make(chan int, 1000)
	redistest.Running(t, func(ctx context.Context) error {
		return f.Follow(ctx, func(_ string, set report.HotSet) { sizes <- len(set.Keys) })
	})
	return sizes
}

// publish writes a hot set of n keys, as an aggregator does until it has succeeded.
func publish(t *testing.T, f *rediscontrol.Feed, n int) {
	t.Helper()
	p := f.Publisher("agg")
	set := report.HotSet{At: time.Now()}
	for i := range n {
		set.Keys = append(set.Keys, hottype.HotKey{Key: hottype.Key(fmt.Sprint("topic?id=", i)), Rule: "topic",
			Until: time.Now().Add(time.Minute)})
	}
	redistest.Eventually(t, "a publication", func() bool { return p.Publish(t.Context(), set) == nil })
}

// load asks for one from the same limit of a day, again and again.
type load struct {
	limiter          *redislimits.Limiter
	allowed, unknown atomic.Int64 // unknown have no answer
	stop             func()
}

// perDay is more than a test can use up.
const perDay = 1_000_000_000

var charge = limit.Charge{
	Subject: limit.Subject{Space: "hot", Name: "topic?id=42"}, Cost: 1,
	Spec: limit.Spec{Algorithm: limit.FixedWindow, Limit: perDay, Window: 24 * time.Hour},
}

func startLoad(t *testing.T, limiter *redislimits.Limiter) *load {
	t.Helper()
	l := &load{limiter: limiter}
	ctx, cancel := context.WithCancel(context.Background())
	var askers sync.WaitGroup
	for range 8 {
		askers.Go(func() {
			for ctx.Err() == nil {
				l.take(ctx)
			}
		})
	}
	l.stop = sync.OnceFunc(func() { cancel(); askers.Wait() })
	t.Cleanup(l.stop)
	return l
}

// take asks as a gate does, with its budget.
func (l *load) take(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Millisecond)
	defer cancel()
	if ok, err := l.limiter.Take(ctx, time.Time{}, []limit.Charge{charge}, make([]limit.Result, 1)); err != nil {
		l.unknown.Add(1)
	} else if ok {
		l.allowed.Add(1)
	}
}

// used returns the cost that Redis has counted in the end.
func (l *load) used(t *testing.T) int64 {
	t.Helper()
	result := make([]limit.Result, 1)
	free := charge
	free.Cost = 0
	redistest.Eventually(t, "what is left", func() bool {
		_, err := l.limiter.Take(t.Context(), time.Time{}, []limit.Charge{free}, result)
		return err == nil
	})
	return perDay - result[0].Remaining
}

// The majority decides: one unreachable Sentinel changes nothing, and a wrong name
// or password is reported.
func TestSentinels_FollowTheMajority(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t)
	s.Nodes[2].Kill()
	c, _ := openSentinels(t, s.Addrs())
	if err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	refusal := "WRONGPASS"
	if s.Nodes[0].Before(6, 2) { // Sentinels know no users
		refusal = "'auth' command"
	}
	for _, tt := range []struct {
		change func(*redisclient.Config)
		want   string
	}{
		{func(c *redisclient.Config) { c.SentinelMaster = "other" }, "it watches no master of this name"},
		{func(c *redisclient.Config) { c.SentinelUsername, c.SentinelPassword = "ann", "wrong" }, refusal},
		{func(c *redisclient.Config) { c.Addrs = []string{"127.0.0.1:1"} }, "connection refused"},
	} {
		cfg := redisclient.Config{Addrs: s.Addrs(), SentinelMaster: redistest.MasterName, Namespace: "test"}
		tt.change(&cfg)
		c, err := redisclient.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		redistest.Eventually(t, tt.want, func() bool { // on a busy machine a Sentinel may answer too late
			if err = c.Ping(t.Context()); err == nil || strings.Contains(err.Error(), "wrong;") {
				t.Fatalf("%v; want %q", err, tt.want)
			}
			return strings.Contains(err.Error(), tt.want)
		})
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
