package redislimits

import (
	"context"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// If a request has limits on two nodes, and the second node does not answer or denies, the charge on the first node is
// refunded exactly once.
func TestLimiterOnCluster_RefundsChargeOfFirstNodeOnce(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	probe := openWith(t, redisclient.Config{Addrs: cluster.Addrs(), Namespace: "test", Timeout: redistest.Patience})
	master := func(c *limit.Charge) *redistest.Server {
		return cluster.Master(t, probe.limiterOf(&c.Subject).keys.limitState(&c.Subject))
	}
	bucket := hotCharge(100, 1)
	window := windowCharge(visitor(0), limit.FixedWindow, 3, 30*24*time.Hour, 1)
	for n := byte(1); master(&window) == master(&bucket); n++ {
		window.Subject.Client = visitor(n)
	}
	front := cluster.FaultProxy(t, probe.limiterOf(&window.Subject).keys.limitState(&window.Subject))
	take := func(c *Limiter, within time.Duration, charges ...limit.Charge) (bool, int64, error) {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		results := make([]limit.Result, len(charges))
		ok, err := c.Take(ctx, time.Time{}, charges, results)
		return ok, results[0].Remaining, err
	}
	left := func() int64 {
		peek := bucket
		peek.Cost = 0
		_, n, err := take(probe, redistest.Patience, peek)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	redistest.Eventually(t, "a first answer", func() bool {
		_, _, err := take(probe, redistest.Patience, bucket, window)
		return err == nil
	})
	bucket.Cost = 7 // the charge exceeds one refund, so a second refund would show
	if _, _, err := take(probe, redistest.Patience, bucket); err != nil {
		t.Fatal(err)
	}
	bucket.Cost = 2
	before := left()
	for name, manner := range map[string]redistest.Fault{
		"silent": redistest.Silent, "cut": redistest.CutAfter(0), "rejects": redistest.FixedReply("-ERR no\r\n"),
		"nonsense": redistest.FixedReply("+OK\r\n"),
	} {
		c := openWith(t, redisclient.Config{Addrs: cluster.Addrs(), Namespace: "test", Timeout: redistest.Patience})
		redistest.Eventually(t, "the client knows the nodes",
			func() bool { _, n, err := take(c, redistest.Patience, bucket); return err == nil && n < 100 })
		before = left()
		front.Set(manner)
		_, _, err := take(c, 2*time.Second, bucket, window)
		front.Set(nil)
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		c.wait() // the refund of a request that has failed is made in the background
		if got := left(); got != before {
			t.Errorf("%s: %d left, %d before: %v; %+v", name, got, before, err, c.Stats())
		}
	}
	window.Cost = 4 // never fits
	if ok, n, err := take(probe, redistest.Patience, bucket, window); ok || err != nil || n != before ||
		left() != before {
		t.Errorf("denied: %v, %d and %d left, %d before, %v", ok, n, left(), before, err)
	}
}

// After a failover to a server whose clock is behind, a client over its own limit does not drain the bucket of a hot
// key, and a denial shows blocks and remaining tokens as a peek does.
func TestLimiterOnCluster_DenialIsPeekWithClockBehind(t *testing.T) {
	t.Parallel()
	l, ctx := openCluster(t, redistest.StartCluster(t)), t.Context()
	start := time.Now()
	clock := setClock(l.rdb, start)
	bucket := hotCharge(100, 10)
	bucket.Spec.Limit, bucket.Spec.Window = 10, time.Second
	blocked := hotCharge(5, 0)
	blocked.Subject.Name, blocked.Spec.Block, blocked.Spec.BlockMax = "topic?id=blocked", time.Hour, time.Hour
	never := windowCharge(visitor(1), limit.FixedWindow, 3, 24*time.Hour, 4)
	for n := byte(2); l.Shard(&never.Subject) == l.Shard(&bucket.Subject) ||
		l.Shard(&never.Subject) == l.Shard(&blocked.Subject); n++ {
		never.Subject.Client = visitor(n)
	}
	take := func(charges ...limit.Charge) (bool, []limit.Result) {
		results := make([]limit.Result, len(charges))
		ok, err := l.Take(ctx, time.Time{}, charges, results)
		if err != nil {
			t.Fatal(err)
		}
		return ok, results
	}
	for _, cost := range []int64{5, 1} { // the second is denied: a block begins
		over := blocked
		over.Cost = cost
		take(over)
	}
	take(bucket)
	clock.Set(start.Add(-5 * time.Second))
	for range 20 {
		ok, results := take(bucket, blocked, never)
		if ok || results[0].Remaining != 90 || results[1].Remaining != 0 || results[1].ResetAfter < 59*time.Minute {
			t.Fatalf("%v %+v", ok, results)
		}
	}
}
