package redislimits

import (
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/limitcore"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// A later refund returns at most the amount of an exact refund, and at least the amount of a refund of a charge that is
// refundSlack older: on a server and on a cluster, for every algorithm that may have refunds.
func TestRefunds_NeverExceedExactRefund(t *testing.T) {
	t.Parallel()
	for name, addrs := range serverAndCluster(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := open(t, addrs...)
			began := now()
			clock, r, trial := setClock(l.rdb, began), l.Settlements(), 0
			at := began
			l.now = func() time.Time { return at }
			rapid.Check(t, func(rt *rapid.T) {
				trial++
				at = began.Add(time.Duration(trial) * time.Hour)
				clock.Set(at)
				exact, old := limit.NewMemory(limit.MemoryConfig{}), limit.NewMemory(limit.MemoryConfig{})
				c := limit.Charge{Subject: limit.Subject{Space: "hot", Name: "k"}, Spec: limit.Spec{
					Algorithm: rapid.SampledFrom([]limit.Algorithm{limit.TokenBucket, limit.GCRA, limit.FixedWindow,
						limit.SlidingWindow}).Draw(rt, "algorithm"),
					Limit: rapid.Int64Range(1, 50).Draw(rt, "limit"),
					Burst: rapid.Int64Range(1, 50).Draw(rt, "burst"), Window: time.Second,
				}}
				take := func(cost int64) (redis, most, least limit.Result) {
					c.Cost = cost
					var results [3][1]limit.Result
					for i, s := range []limit.Store{l, exact, old} {
						if _, err := s.Take(t.Context(), at, []limit.Charge{c}, results[i][:]); err != nil {
							rt.Fatal(err)
						}
					}
					return results[0][0], results[1][0], results[2][0]
				}
				first, _, _ := take(rapid.Int64Range(1, c.Spec.Capacity()).Draw(rt, "cost"))
				charged, charge := at, c
				at = at.Add(time.Duration(rapid.Int64Range(0, 2000).Draw(rt, "ms")) * time.Millisecond)
				clock.Set(at)
				if first.Allowed {
					r.Refund(charged, charge)
					exact.RefundAt(charged, []limit.Charge{charge})
					old.RefundAt(charged.Add(-refundSlack), []limit.Charge{charge})
				}
				r.flush(t.Context())
				if redis, most, least := take(0); redis.Remaining > most.Remaining ||
					redis.Remaining < least.Remaining {
					rt.Errorf("%+v after %v: %d left, want %d to %d", charge, at.Sub(charged), redis.Remaining,
						least.Remaining, most.Remaining)
				}
				if err := l.Reset(t.Context(), &c.Subject); err != nil {
					rt.Fatal(err)
				}
			})
		})
	}
}

// A refund returns the remaining amount after it, equal to a peek at the same time.
func TestRefundAt_ReturnsRemaining(t *testing.T) {
	t.Parallel()
	for name, addrs := range serverAndCluster(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, at := open(t, addrs...), now()
			clock := setClock(l.rdb, at)
			l.now = func() time.Time { return at }
			rapid.Check(t, func(rt *rapid.T) {
				at = at.Add(time.Hour)
				clock.Set(at)
				c := limit.Charge{Subject: limit.Subject{Space: "hot", Name: "k"}, Spec: limit.Spec{
					Algorithm: rapid.SampledFrom([]limit.Algorithm{limit.TokenBucket, limit.GCRA, limit.FixedWindow,
						limit.SlidingWindow}).Draw(rt, "algorithm"),
					Limit: rapid.Int64Range(1, 50).Draw(rt, "limit"),
					Burst: rapid.Int64Range(1, 50).Draw(rt, "burst"), Window: time.Second,
				}}
				if limitcore.Spec(c.Spec).Refills() {
					c.Spec.Reserve = rapid.Int64Range(0, c.Spec.Burst-1).Draw(rt, "reserve")
				}
				var results [1]limit.Result
				ask := func(cost int64) limit.Result {
					c.Cost = cost
					if _, err := l.Take(t.Context(), at, []limit.Charge{c}, results[:]); err != nil {
						rt.Fatal(err)
					}
					return results[0]
				}
				if !ask(rapid.Int64Range(1, c.Spec.Capacity()).Draw(rt, "cost")).Allowed {
					return
				}
				charged := []time.Time{at}
				at = at.Add(time.Duration(rapid.Int64Range(0, 1000).Draw(rt, "ms")) * time.Millisecond)
				clock.Set(at)
				c.Cost = rapid.Int64Range(1, c.Cost).Draw(rt, "refund")
				if err := l.RefundAt(t.Context(), charged, []limit.Charge{c}, results[:]); err != nil {
					rt.Fatal(err)
				}
				refund := results[0]
				if look := ask(0); refund.Remaining != look.Remaining || refund.Limit != look.Limit ||
					refund.ResetAfter != look.ResetAfter {
					rt.Errorf("%+v: the refund says %+v, a look %+v", c, refund, look)
				}
				if err := l.Reset(t.Context(), &c.Subject); err != nil {
					rt.Fatal(err)
				}
			})
		})
	}
}

// Refunds that Redis does not take are bounded and counted.
func TestRefundsAreBounded(t *testing.T) {
	t.Parallel()
	r := open(t, "127.0.0.1:1").Settlements()
	for range maxSettlements + 5 {
		r.Refund(now(), hotCharge(10, 1))
	}
	if s := r.Stats(); s.Lost != 5 || len(r.refunds) != maxSettlements {
		t.Errorf("%+v, %d wait", s, len(r.refunds))
	}
	r.flush(t.Context())
	if s := r.Stats(); s.Lost != maxSettlements+5 || s.Refunded != 0 || len(r.refunds) != 0 {
		t.Errorf("%+v, %d wait", s, len(r.refunds))
	}
}

// Stats counts the costs that the server refunds, and the costs that it does not refund because the limit has changed,
// for charges in one call.
func TestRefundsAreCounted(t *testing.T) {
	t.Parallel()
	l := open(t, redistest.Start(t).Addr())
	r, results := l.Settlements(), make([]limit.Result, 1)
	var want SettlementsStats
	for i, name := range []string{"kept", "changed", "never charged", "changed too", "kept too"} {
		c := limit.Charge{Subject: limit.Subject{Space: "hot", Name: name}, Cost: 1 << i,
			Spec: limit.Spec{Algorithm: limit.TokenBucket, Limit: 100, Window: time.Hour, Burst: 100}}
		charged := c
		switch name {
		case "changed", "changed too":
			want.Lost += uint64(c.Cost)
			charged.Spec.Limit = 99
			fallthrough
		case "kept", "kept too":
			if ok, err := l.Take(t.Context(), now(), []limit.Charge{charged}, results); err != nil || !ok {
				t.Fatal(ok, err)
			}
		}
		r.Refund(now(), c)
	}
	want.Refunded = 1<<5 - 1 - want.Lost
	r.flush(t.Context())
	if got := r.Stats(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// An error of the server is the error of the refund, and every charge needs its time.
func TestRefundAt_ReturnsServerError(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := open(t, server.Addr())
	charges, results := aRequest()
	at := make([]time.Time, len(charges))
	if err := l.RefundAt(t.Context(), at[1:], charges, results); err == nil {
		t.Error("a charge has no time, and all are refunded")
	}
	server.Stop()
	if err := l.RefundAt(t.Context(), at, charges, results); err == nil {
		t.Error("no server, and all are refunded")
	}
}

// Costs for one limit are charged together, as far as they fit; requests whose costs are forgiven or lost are counted.
func TestSettlements_ChargeCosts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := open(t, server.Addr())
	s := l.Settlements()
	spec := limit.Spec{Algorithm: limit.TokenBucket, Limit: 1, Window: time.Hour, Burst: 130}
	charge := func(name string, cost int64) {
		s.Charge(limit.Charge{Subject: limit.Subject{Space: "hot", Name: name}, Spec: spec, Cost: cost})
	}
	for range 3 {
		charge("a", 40)
		charge("b", 50)
	}
	if len(s.charges) != 2 {
		t.Errorf("%d charges wait for two limits", len(s.charges))
	}
	s.flush(t.Context())
	for name, want := range map[string]int64{"a": 10, "b": 0} {
		var r [1]limit.Result
		if _, err := l.Take(t.Context(), now(), []limit.Charge{{Subject: limit.Subject{Space: "hot", Name: name},
			Spec: spec}}, r[:]); err != nil || r[0].Remaining != want {
			t.Errorf("%s: %+v, %v, want %d left", name, r[0], err, want)
		}
	}
	server.Stop()
	charge("a", 1)
	charge("a", 1)
	s.flush(t.Context())
	if got := s.Stats(); got.Forgiven != 3 || got.CostsLost != 2 || len(s.charges) != 0 {
		t.Errorf("%+v", got)
	}
	for i := range maxSettlements + 3 {
		charge(strconv.Itoa(i), 1)
	}
	if got := s.Stats(); got.CostsLost != 5 || len(s.charges) != maxSettlements {
		t.Errorf("%+v, %d wait", got, len(s.charges))
	}
}
