package redislimits

import (
	"context"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// onOtherNodes returns a bucket and a window of a client whose states are on different nodes.
func onOtherNodes(t *testing.T, cluster *redistest.Cluster, c *Limiter,
	burst int64) (bucket, window limit.Charge, other *redistest.Server) {
	t.Helper()
	master := func(s *limit.Subject) *redistest.Server {
		return cluster.Master(t, c.limiterOf(s).keys.limitState(s))
	}
	bucket = hotCharge(burst, 1)
	window = limit.Charge{Cost: 1, Spec: limit.Spec{Algorithm: limit.FixedWindow, Limit: 100, Window: 24 * time.Hour}}
	for n := byte(1); n > 0; n++ {
		window.Subject = limit.Subject{Space: "ip_fixed", Client: visitor(n)}
		if other = master(&window.Subject); other != master(&bucket.Subject) {
			return bucket, window, other
		}
	}
	t.Fatal("all clients are on one node")
	return
}

// A request that one node denies is denied, also if the node of its other limit
// does not answer.
func TestLimiterOnCluster_DeniesIfOneNodeDenies(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	c := openWith(t, redisclient.Config{Addrs: cluster.Addrs(), Namespace: "test", Timeout: redistest.Patience})
	bucket, window, other := onOtherNodes(t, cluster, c, 1)
	charges, results := []limit.Charge{window, bucket}, make([]limit.Result, 2)
	redistest.Eventually(t, "a first answer", func() bool {
		ok, err := c.Take(t.Context(), time.Time{}, charges, results)
		return ok && err == nil
	})
	other.Freeze()
	defer other.Thaw()
	within, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	ok, err := c.Take(within, time.Time{}, charges, results)
	if ok || err != nil || results[1].Allowed || results[1].RetryAfter <= 0 {
		t.Errorf("%v, %v: %+v", ok, err, results)
	}
	if r := results[0]; !r.Allowed || r.Limit != 100 || r.Remaining != -1 {
		t.Errorf("of the limit that is not known: %+v", r)
	}
}

// If a later node fails, the charges on earlier nodes are refunded, once.
func TestLimiterOnCluster_RefundsFailedRequestOnce(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	c := openWith(t, redisclient.Config{Addrs: cluster.Addrs(), Namespace: "test", Timeout: redistest.Patience})
	bucket, window, other := onOtherNodes(t, cluster, c, 100)
	window.Spec.Algorithm = limit.SlidingLog // it fails on a state that is not a string
	key := c.limiterOf(&window.Subject).keys.limitState(&window.Subject)
	if err := other.Client().LPush(t.Context(), key, "x").Err(); err != nil {
		t.Fatal(err)
	}
	take := func(charges ...limit.Charge) error {
		_, err := c.Take(t.Context(), time.Time{}, charges, make([]limit.Result, len(charges)))
		return err
	}
	forty := bucket
	forty.Cost = 40
	redistest.Eventually(t, "a first answer", func() bool { return take(forty) == nil })
	for range 20 {
		if err := take(window, bucket); err == nil {
			t.Fatal("a list is taken for a log")
		}
	}
	redistest.Eventually(t, "all is given back", func() bool { return left(t, c, bucket) >= 60 })
	c.wait()
	if n := left(t, c, bucket); n != 60 {
		t.Errorf("%d left, want 60; %+v", n, c.Stats())
	}
	if st := c.Stats(); st.Refunds != 20 || st.RefundsLost != 0 {
		t.Errorf("%+v", st)
	}
}
