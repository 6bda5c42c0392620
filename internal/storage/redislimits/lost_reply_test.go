package redislimits

import (
	"context"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// lossy is a client whose answers about one bucket pass a front, on one server or on a cluster.
type lossy struct {
	*shardLimiter
	front  *redistest.FaultProxy
	bucket limit.Charge
}

func openLossy(t *testing.T, timeout time.Duration, cluster bool) *lossy {
	t.Helper()
	l := &lossy{bucket: limit.Charge{
		Subject: limit.Subject{Space: "hot", Name: "topic?id=42"}, Cost: 1,
		Spec: limit.Spec{Algorithm: limit.TokenBucket, Limit: 1, Window: time.Hour, Burst: 100},
	}}
	cfg := redisclient.Config{Namespace: "test", Timeout: timeout}
	if cluster {
		c := redistest.StartCluster(t)
		cfg.Addrs = c.Addrs()
		l.front = c.FaultProxy(t, openWith(t, cfg).limiterOf(&l.bucket.Subject).keys.limitState(&l.bucket.Subject))
	} else {
		l.front = redistest.StartFaultProxy(t, redistest.Start(t).Addr())
		cfg.Addrs = []string{l.front.Addr()}
	}
	l.shardLimiter = openWith(t, cfg).limiterOf(&l.bucket.Subject)
	return l
}

// left returns the level of the bucket.
func (l *lossy) left(t *testing.T) (left int64) {
	t.Helper()
	c, results := l.bucket, make([]limit.Result, 1)
	c.Cost = 0
	redistest.Eventually(t, "the level of the bucket", func() bool {
		_, err := l.Take(t.Context(), time.Time{}, []limit.Charge{c}, results)
		return err == nil
	})
	return results[0].Remaining
}

// A Take or a refund whose answer is lost returns an error within the Timeout, and has charged or refunded once,
// however the answer was lost.
func TestLimiter_ChargesOnceIfAnswerIsLost(t *testing.T) {
	t.Parallel()
	for name, cluster := range map[string]bool{"server": false, "cluster": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const timeout = 300 * time.Millisecond
			l, ctx := openLossy(t, timeout, cluster), context.Background()
			other := limit.Charge{Subject: limit.Subject{Space: "other", Name: "log"}, Cost: 1,
				Spec: limit.Spec{Algorithm: limit.SlidingLog, Limit: 50, Window: time.Hour}}
			take := func(charges ...limit.Charge) error {
				_, err := l.Take(ctx, time.Time{}, charges, make([]limit.Result, len(charges)))
				return err
			}
			refund := func() error {
				c := l.bucket
				c.Cost = 2
				return l.RefundAt(ctx, now(), []limit.Charge{c}, make([]limit.Result, 1))
			}
			calls := []struct {
				name  string
				costs int64
				call  func() error
			}{
				{"take", 1, func() error { return take(l.bucket) }},
				{"take with a log", 1, func() error { return take(l.bucket, other) }},
				{"refund", -2, refund},
			}
			redistest.Eventually(t, "a first answer",
				func() bool { return take(l.bucket) == nil && take(l.bucket, other) == nil && refund() == nil })
			_ = take(l.bucket, l.bucket, l.bucket) // something to give back
			for loss, manner := range map[string]redistest.Fault{"cut": redistest.CutAfter(0),
				"half": redistest.CutAfter(3), "silence": redistest.Silent} {
				for _, c := range calls {
					before := l.left(t)
					l.front.Set(manner)
					began := time.Now()
					err := c.call()
					took := time.Since(began)
					l.front.Set(nil)
					if err == nil {
						t.Errorf("%s, %s: no error", c.name, loss)
					}
					if took > timeout+slack {
						t.Errorf("%s, %s: the error came after %v, with a timeout of %v", c.name, loss, took, timeout)
					}
					if got := before - l.left(t); got != c.costs {
						t.Errorf("%s, %s: charged %d, want %d: %v", c.name, loss, got, c.costs, err)
					}
				}
			}
		})
	}
}

// A server that stands still delays a caller without a deadline by the Timeout, also if the connection has to be made
// first. Once the server continues, it has charged the request at most once.
func TestLimiter_KeepsTimeoutWithFrozenServer(t *testing.T) {
	t.Parallel()
	const timeout = 300 * time.Millisecond
	frozen := func(t *testing.T, s *redistest.Server, addrs []string) {
		c := hotCharge(100, 1)
		take := func(client *Limiter, cost int64) (limit.Result, error) {
			c.Cost = cost
			r := make([]limit.Result, 1)
			_, err := client.Take(context.Background(), time.Time{}, []limit.Charge{c}, r)
			return r[0], err
		}
		open := func() *Limiter {
			return openWith(t, redisclient.Config{Addrs: addrs, Namespace: "test", Timeout: timeout})
		}
		warm, cold := open(), open()
		redistest.Eventually(t, "a first answer", func() bool { _, err := take(warm, 1); return err == nil })
		before, err := take(warm, 0)
		if err != nil {
			t.Fatal(err)
		}
		s.Freeze()
		for name, client := range map[string]*Limiter{"warm": warm, "cold": cold} {
			began := time.Now()
			_, err := take(client, 1)
			if took := time.Since(began); err == nil || took > timeout+slack {
				t.Errorf("%s: %v after %v", name, err, took)
			}
		}
		s.Thaw()
		var after limit.Result
		redistest.Eventually(t, "an answer after the thaw",
			func() bool { after, err = take(cold, 0); return err == nil })
		if n := before.Remaining - after.Remaining; n > 2 {
			t.Errorf("two Takes charged %d", n)
		}
	}
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		frozen(t, s, []string{s.Addr()})
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		cluster, c := redistest.StartCluster(t), hotCharge(100, 1)
		probe := openWith(t, redisclient.Config{Addrs: cluster.Addrs(), Namespace: "test"})
		frozen(t, cluster.Master(t, probe.limiterOf(&c.Subject).keys.limitState(&c.Subject)), cluster.Addrs())
	})
}

// The text of a script is sent to a server only if the server reported that it has lost its scripts, so a lost answer
// charges at most once, whichever answer it is.
func TestScriptTextIsSentOnce(t *testing.T) {
	t.Parallel()
	for name, cluster := range map[string]bool{"server": false, "cluster": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := openLossy(t, redistest.Patience, cluster)
			before := l.left(t)
			for lost, costs := range []int64{1, 0, 1} { // none, NOSCRIPT, the answer to the text
				if err := l.rdb.ScriptFlush(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
				l.front.Set(redistest.At(int64(lost), redistest.CutAfter(0)))
				_, err := l.Take(t.Context(), time.Time{}, []limit.Charge{l.bucket}, make([]limit.Result, 1))
				l.front.Set(nil)
				if (err != nil) != (lost > 0) {
					t.Errorf("answer %d is lost: error %v", lost, err)
				}
				after := l.left(t)
				if before-after != costs {
					t.Errorf("answer %d is lost: charged %d, want %d", lost, before-after, costs)
				}
				before = after
			}
		})
	}
}

// While a slot moves to another node, and after it has, each Take is redirected and
// charged once.
func TestTakeFollowsAMovingSlot(t *testing.T) {
	t.Parallel()
	cluster, c := redistest.StartCluster(t), hotCharge(100, 1)
	client := openWith(t, redisclient.Config{Addrs: cluster.Addrs(), Namespace: "test", Timeout: redistest.Patience})
	results, charged := make([]limit.Result, 1), int64(0)
	take := func(when string) {
		t.Helper()
		_, err := client.Take(t.Context(), time.Time{}, []limit.Charge{c}, results)
		charged++
		if err != nil || results[0].Remaining != 100-charged {
			t.Errorf("%s: %+v, %v; want %d left", when, results[0], err, 100-charged)
		}
	}
	key := client.limiterOf(&c.Subject).keys.limitState(&c.Subject)
	redistest.Eventually(t, "a first answer", func() bool { return client.rdb.Ping(t.Context()).Err() == nil })
	take("at home")
	from := cluster.Master(t, key)
	to := cluster.Nodes[0]
	if to == from {
		to = cluster.Nodes[1]
	}
	cluster.Move(t, key, to, func() { take("on the way") })
	take("at its new home")
	take("there again")
}
