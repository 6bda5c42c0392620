package redislimits

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

func TestKeys_AreDocumented(t *testing.T) {
	t.Parallel()
	text, k := redistest.Documentation(t), newKeys("news")
	for _, name := range []string{
		strings.TrimSuffix(k.limitState(&limit.Subject{Space: "hot", Name: "topic?id=42"}), "topic?id=42"),
		strings.TrimSuffix(k.blockKey(k.limitState(&limit.Subject{Space: "hot", Name: "topic?id=42"})), "topic?id=42"),
		shardKeys("news", 0).prefix, shardKeys("news", shardCount-1).prefix,
	} {
		if !strings.Contains(text, "`"+name) {
			t.Errorf("docs/redis.md does not tell of %s", name)
		}
	}
}

// The ACL line of the documentation for limiters is enough for every kind of call that
// limits make, on a server and on a cluster.
func TestLimiter_WorksWithDocumentedACL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	redistest.Grant(t, []*redistest.Server{s})
	limiter := openWith(t, redisclient.Config{Addrs: []string{"redis://hotparam-limiter:pw@" + s.Addr()},
		Namespace: "news"})
	charge := limit.Charge{Subject: limit.Subject{Space: "hot", Name: "k"}, Cost: 1}
	for _, a := range []limit.Algorithm{
		limit.TokenBucket, limit.GCRA, limit.LeakyBucket, limit.FixedWindow, limit.AnchoredWindow, limit.SlidingWindow,
		limit.SlidingLog, limit.BucketedWindow,
	} {
		charge.Spec = limit.Spec{Algorithm: a, Limit: 1, Burst: 1, Window: time.Second, Buckets: 1}
		_, err := limiter.Take(t.Context(), now(), []limit.Charge{charge}, make([]limit.Result, 1))
		if err != nil {
			t.Errorf("%s: %v", a, err)
		}
	}
	if err := everything(t, limiter); err != nil {
		t.Errorf("limits with all that goes beside them: %v", err)
	}
}

func TestLimiterOnCluster_WorksWithDocumentedACL(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	redistest.Grant(t, c.Nodes, "+cluster|slots", "+cluster|shards", "+command")
	limiter := openWith(t, redisclient.Config{Addrs: c.Addrs(), Username: "hotparam-limiter", Password: "pw",
		Namespace: "news"})
	if err := everything(t, limiter); err != nil {
		t.Errorf("limits with all that goes beside them: %v", err)
	}
}

// everything makes each kind of call that limits make of Redis.
func everything(t *testing.T, c *Limiter) error {
	ctx, results := context.Background(), make([]limit.Result, 1)
	for i := range 4 * shardCount { // some for every shard
		charge := windowCharge(hottype.Client{Name: strconv.Itoa(i)}, limit.FixedWindow, 1, time.Hour, 1)
		charge.Spec.Block = time.Minute
		for range 2 { // and a denial
			if _, err := c.Take(ctx, now(), []limit.Charge{charge}, results); err != nil {
				return err
			}
		}
	}
	w := patient(c)
	w.ask(t, now(), windowCharge(visitor(1), limit.FixedWindow, 5, time.Hour, 1))
	if w.exchange(ctx); w.Stats().Errors > 0 {
		return errors.New("an exchange failed")
	}
	charge := windowCharge(visitor(2), limit.SlidingWindow, 5, time.Hour, 1)
	l := c.limiterOf(&charge.Subject)
	_, at, err := l.TakeAt(ctx, now(), []limit.Charge{charge}, results)
	if err != nil {
		return err
	}
	return l.RefundAt(ctx, at, []limit.Charge{charge}, results)
}
