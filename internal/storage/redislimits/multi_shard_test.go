package redislimits

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/limit/limittest"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// openCluster returns a client of a cluster.
func openCluster(t testing.TB, c *redistest.Cluster) *Limiter {
	t.Helper()
	return openWith(t, redisclient.Config{Addrs: c.Addrs(), Namespace: "test", PoolSize: 64, Timeout: 10 * time.Second})
}

// wait waits for refunds after a failure, for which the caller does not wait.
func (l *Limiter) wait() {
	for _, s := range l.shards {
		s.batcher.calls.Wait()
	}
}

// Every law holds if each subject may be on a node of its own.
func TestLimiterOnCluster_KeepsLaws(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	t.Run("laws", func(t *testing.T) {
		limittest.Run(t, func(t testing.TB) limittest.Fixture {
			s := openCluster(t, cluster)
			space := fmt.Sprintf("%p", s) // a namespace for each law, because they share the cluster
			for i, l := range s.shards {
				l.keys = shardKeys("test-"+space, i)
			}
			return limittest.Fixture{Store: s, OverNodes: true, SetClock: setClock(s.shards[0].rdb, time.Time{}).Set,
				Reset: func() { forget(t, s, space) }}
		})
	})
}

// Requests over several shards are decided as in memory, in every number, and refunded later too; docs/limits.md names
// the exceptions. A single limit for each subject avoids one exception, and inShards models the others.
func TestLimiterOnCluster_MatchesMemoryStore(t *testing.T) {
	t.Parallel()
	s := openCluster(t, redistest.StartCluster(t))
	for i, l := range s.shards {
		l.keys = shardKeys("test-equal", i)
	}
	clock := setClock(s.shards[0].rdb, time.Time{})
	m := &inShards{limit.NewMemory(limit.MemoryConfig{}), s.Shard}
	memory := limittest.Fixture{
		Store: m, Reset: func() { m.Memory = limit.NewMemory(limit.MemoryConfig{}) },
		Refund: func(_, at time.Time, charges []limit.Charge) { m.RefundAt(at, charges) },
	}
	limittest.RunEquivalence(t, memory, limittest.Fixture{
		Store: s, SetClock: clock.Set, OverNodes: true, Reset: func() { forget(t, s, "equal") },
		Refund: func(now, at time.Time, charges []limit.Charge) {
			clock.Set(now)
			if err := s.RefundAt(t.Context(), slices.Repeat([]time.Time{at}, len(charges)), charges,
				make([]limit.Result, len(charges))); err != nil {
				t.Fatal(err)
			}
		}})
}

// inShards is a Memory that a denied request leaves as it leaves a cluster: shards before the denying one have charged
// and refunded it.
type inShards struct {
	*limit.Memory
	shard func(*limit.Subject) int
}

func (m *inShards) Take(ctx context.Context, now time.Time, charges []limit.Charge, results []limit.Result) (bool,
	error) {
	ok, err := m.Memory.Take(ctx, now, charges, results)
	if err != nil || ok {
		return ok, err
	}
	for _, p := range splitByShard(charges, m.shard) {
		if ok, err := m.Memory.Take(ctx, now, p.charges, p.results); err != nil || !ok {
			return false, err
		}
		m.RefundAt(now, p.charges)
	}
	return false, nil
}

// forget deletes the keys of one namespace on all nodes.
func forget(t testing.TB, s *Limiter, space string) {
	err := s.shards[0].rdb.(*redis.ClusterClient).
		ForEachMaster(context.Background(), func(ctx context.Context, m *redis.Client) error {
			for _, key := range m.Keys(ctx, "hp:{test-"+space+"/*").Val() {
				if err := m.Del(ctx, key).Err(); err != nil {
					return err
				}
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
}

// A master of six nodes dies in the middle of a trace: every answer before and after is the answer of one store, and
// requests in the gap get an error in time that charges nothing permanently.
func TestLimiterOnCluster_SurvivesFailover(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartClusterOfSix(t)
	s, m := openCluster(t, cluster), limit.NewMemory(limit.MemoryConfig{})
	for i, l := range s.shards {
		l.keys = shardKeys("test-failover", i)
	}
	ctx, now := context.Background(), time.UnixMicro(1_700_000_000_000_000)
	clock := setClock(s.shards[0].rdb, now)
	var outage time.Duration
	step := func(rt *rapid.T) {
		now = now.Add(time.Duration(rapid.Int64Range(0, 200_000).Draw(rt, "us")) * time.Microsecond)
		clock.Set(now)
		charges := drawClusterRequest(rt)
		want, got := make([]limit.Result, len(charges)), make([]limit.Result, len(charges))
		ok, err := m.Take(ctx, now, charges, want)
		if err != nil {
			rt.Fatal(err)
		}
		var admitted bool
		lost := s.Stats().RefundsLost
		for failing := time.Now(); ; { // the client may have to learn the new server of a slot
			admitted, err = s.Take(ctx, now, charges, got)
			// denied elsewhere, and not known here
			moving := err != nil && isMoving(err) ||
				slices.ContainsFunc(got, func(r limit.Result) bool { return r.Remaining < 0 })
			if !moving || time.Since(failing) > 10*time.Second {
				break
			}
			outage = time.Since(failing)
			s.wait()
		}
		if s.Stats().RefundsLost > lost { // a charge that a busy server did not confirm to be undone may stay
			forget(t, s, "failover")
			m = limit.NewMemory(limit.MemoryConfig{})
			return
		}
		if err != nil || admitted != ok {
			rt.Fatalf("%+v: %v %v, want %v", charges, admitted, err, ok)
		}
		for i := range want {
			if got[i] != want[i] {
				rt.Fatalf("charge %d of %+v:\n%+v, want\n%+v", i, charges, got[i], want[i])
			}
		}
	}
	trace := func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			for range 10 {
				step(rt)
			}
		})
	}
	trace(t)
	victim := s.shards[s.Shard(&limit.Subject{Space: "hot", Name: "topic?id=0"})].keys.limitState(
		&limit.Subject{Space: "hot", Name: "topic?id=0"})
	cluster.Failover(t, victim)
	trace(t)
	if st := s.Stats(); st.Refunds == 0 {
		t.Errorf("nothing was given back: %+v", st)
	}
	t.Logf("the client found the new master after %v", outage)
}

// isMoving reports whether an error comes from a cluster that has not recovered for all clients.
func isMoving(err error) bool {
	return strings.Contains(err.Error(), "CLUSTERDOWN") || strings.Contains(err.Error(), "MOVED") ||
		strings.Contains(err.Error(), "refused") ||
		strings.Contains(err.Error(), "EOF") || strings.Contains(err.Error(), "reset") ||
		strings.Contains(err.Error(), "READONLY")
}

// drawClusterRequest draws a request with the windows of a client and hot keys.
func drawClusterRequest(rt *rapid.T) []limit.Charge {
	client := hottype.ClientFromAddr(netip.AddrFrom4([4]byte{192, 0, 2, byte(rapid.IntRange(0, 3).Draw(rt, "client"))}))
	cost := rapid.Int64Range(0, 3).Draw(rt, "cost")
	charges := []limit.Charge{
		{Subject: limit.Subject{Space: "ip_fixed", Client: client},
			Spec: limit.Spec{Algorithm: limit.FixedWindow, Limit: 6, Window: time.Second}, Cost: cost},
		{Subject: limit.Subject{Space: "ip_sliding", Client: client},
			Spec: limit.Spec{Algorithm: limit.SlidingWindow, Limit: 20, Window: 5 * time.Second}, Cost: cost},
	}
	algorithms := []limit.Spec{
		{Algorithm: limit.TokenBucket, Limit: 10, Window: time.Second, Burst: 5},
		{Algorithm: limit.SlidingLog, Limit: 5, Window: time.Second},
		{Algorithm: limit.AnchoredWindow, Limit: 5, Window: time.Second},
		{Algorithm: limit.BucketedWindow, Limit: 5, Window: time.Second, Buckets: 10},
		{Algorithm: limit.GCRA, Limit: 10, Window: time.Second, Burst: 5, Block: 300 * time.Millisecond,
			BlockMax: time.Second},
	}
	for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(algorithms)-1), 0, 3, rapid.ID[int]).
		Draw(rt, "hot") {
		charges = append(charges, limit.Charge{
			Subject: limit.Subject{Space: "hot", Name: fmt.Sprint("topic?id=", i)}, Spec: algorithms[i], Cost: cost,
		})
	}
	return charges
}

// With any number of concurrent callers, no limit allows more than it states, and when all is quiet again every
// refunded token is back.
func TestLimiterOnCluster_NeverAllowsTooMuch(t *testing.T) {
	t.Parallel()
	s := openCluster(t, redistest.StartCluster(t))
	ctx, now := context.Background(), time.UnixMicro(1_700_000_000_000_000)
	setClock(s.shards[0].rdb, now)
	bucket := limit.Spec{Algorithm: limit.TokenBucket, Limit: 1, Window: time.Hour, Burst: 100}
	window := limit.Spec{Algorithm: limit.FixedWindow, Limit: 5, Window: time.Hour}
	request := func(client byte) []limit.Charge {
		return []limit.Charge{
			{Subject: limit.Subject{Space: "ip_fixed",
				Client: hottype.ClientFromAddr(netip.AddrFrom4([4]byte{192, 0, 2, client}))}, Spec: window, Cost: 1},
			{Subject: limit.Subject{Space: "hot", Name: "topic?id=42"}, Spec: bucket, Cost: 1},
		}
	}
	var admitted [16]atomic.Int64
	var callers sync.WaitGroup
	for i := range 64 {
		callers.Go(func() {
			client := byte(i % len(admitted))
			for range 20 {
				ok, err := s.Take(ctx, now, request(client), make([]limit.Result, 2))
				if err != nil {
					t.Error(err)
				} else if ok {
					admitted[client].Add(1)
				}
			}
		})
	}
	callers.Wait()
	var sum int64
	for i := range admitted {
		n := admitted[i].Load()
		if sum += n; n > window.Limit {
			t.Errorf("client %d: %d admitted, at most %d", i, n, window.Limit)
		}
	}
	results := make([]limit.Result, 1)
	if _, err := s.Take(ctx, now,
		[]limit.Charge{{Subject: limit.Subject{Space: "hot", Name: "topic?id=42"}, Spec: bucket}},
		results); err != nil {
		t.Fatal(err)
	}
	if left := results[0].Remaining; sum > bucket.Burst || left != bucket.Burst-sum {
		t.Errorf("%d admitted and %d left of %d; %+v", sum, left, bucket.Burst, s.Stats())
	}
}

// BenchmarkClusterRace measures how often a request is denied only because another request, which is denied itself,
// holds the tokens that it needs until they are refunded. Half of 64 callers are over the limit of their client. The
// hot key's bucket fills faster than the other half can empty it, but holds only as many tokens as the other half has
// callers. Without the callers over their limit, no request of the others would be denied.
func BenchmarkClusterRace(b *testing.B) {
	s := openCluster(b, redistest.StartCluster(b))
	hot := limit.Charge{Subject: limit.Subject{Space: "hot", Name: "topic?id=42"},
		Spec: limit.Spec{Algorithm: limit.TokenBucket, Limit: 1_000_000, Window: time.Second, Burst: 32}, Cost: 1}
	const callers = 64
	var wrong, denied, next atomic.Int64
	var group sync.WaitGroup
	b.ResetTimer()
	for c := range callers {
		group.Go(func() {
			window := limit.Spec{Algorithm: limit.FixedWindow, Limit: 1 << 30, Window: time.Hour}
			if c%2 == 0 {
				window.Limit = 0 // over its limit with any request
			}
			client := limit.Charge{Subject: limit.Subject{Space: "ip_fixed",
				Client: hottype.ClientFromAddr(netip.AddrFrom4([4]byte{192, 0, 2, byte(c)}))}, Spec: window, Cost: 1}
			for next.Add(1) <= int64(b.N) {
				results := make([]limit.Result, 2)
				ok, err := s.Take(context.Background(), time.Time{}, []limit.Charge{client, hot}, results)
				switch {
				case err != nil:
					b.Error(err)
				case c%2 == 0:
					denied.Add(1)
				case !ok:
					wrong.Add(1)
				}
			}
		})
	}
	group.Wait()
	b.ReportMetric(float64(wrong.Load())/float64(max(1, b.N)), "wrong/op")
	b.ReportMetric(float64(denied.Load())/float64(max(1, b.N)), "denied/op")
}
