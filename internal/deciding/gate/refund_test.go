package gate_test

import (
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/rules"
)

// refunds refunds to a shared store in memory.
type refunds struct{ to *limit.Memory }

func (r refunds) Charge(limit.Charge) {}

func (r refunds) Refund(at time.Time, c limit.Charge) { r.to.RefundAt(at, []limit.Charge{c}) }

const refundRules = `
rules:
  - {name: shared, match: {path: /shared}, params: [id], hot: {rate: 1}, limit: {rate: 1, burst: 5, refund_status: [304, 5xx]}}
  - {name: local, match: {path: /local}, params: [id], hot: {rate: 1}, limit: {rate: 1, burst: 5, scope: instance, refund_status: [304, 5xx]}}
  - {name: plain, match: {path: /plain}, params: [id], hot: {rate: 1}, limit: {rate: 1, burst: 5}}
`

// A response with one of the statuses refunds the charge of its request, and not more: a remembered denial is void
// then, and a bucket is never more than full.
func TestRefundByStatus(t *testing.T) {
	t.Parallel()
	store := newUnreliable(healthy)
	b := build(t, refundRules, gate.Config{Shared: store, Settlements: refunds{store.Memory}, Budget: time.Hour})
	b.hot("shared?id=1", "local?id=1", "plain?id=1")
	b.SetOverrides([]rules.Override{{ID: "o", Key: "shared?id=9", Action: rules.ActionLimit, Rate: 1, Burst: 5}})
	ask := func(target string) verdict.Verdict {
		v := b.Begin(t.Context(), b.now, request(target, "1.1.1.1"), true)
		if !v.Allowed && v.Reports.Refund() != nil {
			t.Errorf("%s: a denial that took nothing gives back: %+v", target, v)
		}
		return v
	}
	for _, target := range []string{"/shared?id=1", "/shared?id=9", "/local?id=1"} {
		var took []*verdict.Refund
		for range 10 {
			if v := ask(target); v.Allowed {
				took = append(took, v.Reports.Refund())
			}
		}
		if len(took) != 5 || took[0] == nil {
			t.Fatalf("%s: %d passed", target, len(took))
		}
		b.Refund(b.now, took[0], 200)
		if ask(target).Allowed {
			t.Errorf("%s: passes after a 200", target)
		}
		b.Refund(b.now, took[0], 304)
		b.Refund(b.now, took[1], 503)
		for i := range 3 {
			if ask(target).Allowed != (i < 2) {
				t.Errorf("%s: two gave back what they took, and not two pass", target)
			}
		}
		b.now = b.now.Add(4 * time.Second) // four have run back
		for _, r := range took[2:] {
			b.Refund(b.now, r, 304)
		}
		n := 0
		for range 10 {
			if ask(target).Allowed {
				n++
			}
		}
		if n != 5 {
			t.Errorf("%s: %d pass after four seconds and three late refunds, want a full bucket", target, n)
		}
		b.now = b.now.Add(time.Minute)
	}
	if v := ask("/plain?id=1"); v.Reports.Refund() != nil {
		t.Errorf("nothing is given back of %+v", v)
	}
	v := b.Begin(t.Context(), b.now, request("/shared?id=1", "1.1.1.1"), false)
	if !v.Allowed || v.Reports.Refund() != nil {
		t.Errorf("who does not say how it ended gets nothing back: %+v", v)
	}
	if n := b.Stats().Refunded; n != 15 {
		t.Errorf("%d were refunded, want 15", n)
	}
}

// While the store is out, this process's share is charged, and that charge is refunded.
func TestRefundOfAShare(t *testing.T) {
	t.Parallel()
	store := newUnreliable(failing)
	b := build(
		t,
		refundRules,
		gate.Config{Shared: store, Settlements: refunds{store.Memory}, Limiters: func() int { return 5 },
			Budget: time.Hour},
	)
	b.hot("shared?id=1")
	req := request("/shared?id=1", "1.1.1.1")
	for i := range 3 {
		v := b.Begin(t.Context(), b.now, req, true)
		if !v.Allowed || v.Reports.Refund() == nil || v.Reports.Refund().Charges[0].Store != verdict.ChargedFallback {
			t.Fatalf("%d: %+v", i, v)
		}
		if other := b.Decide(t.Context(), b.now, req); other.Allowed {
			t.Fatalf("%d: a share of one has two", i)
		}
		b.Refund(b.now, v.Reports.Refund(), 304)
	}
}

// The process that learns how a request ended may be another one, which never decided about its key.
func TestRefundByAnotherProcess(t *testing.T) {
	t.Parallel()
	store := newUnreliable(healthy)
	cfg := gate.Config{Shared: store, Settlements: refunds{store.Memory}, Budget: time.Hour}
	one, other := build(t, refundRules, cfg), build(t, refundRules, cfg)
	list := []rules.Override{{ID: "o", Key: "shared?id=9", Action: rules.ActionLimit, Rate: 1, Burst: 5},
		{ID: "gone", Key: "plain?id=9", Action: rules.ActionLimit, Rate: 1, Burst: 5}}
	one.hot("shared?id=1", "shared?id=9")
	one.SetOverrides(list)
	other.SetOverrides(list)
	for _, target := range []string{"/shared?id=1", "/shared?id=9"} {
		ask := func() verdict.Verdict {
			return one.Begin(t.Context(), one.now, request(target, "1.1.1.1"), true)
		}
		first := ask()
		for ask().Allowed {
		}
		other.Refund(other.now, first.Reports.Refund(), 200)
		other.Refund(other.now, first.Reports.Refund(), 304)
		one.now = one.now.Add(time.Millisecond)
		r := make([]limit.Result, 1)
		if ok, err := store.Take(t.Context(), one.now, []limit.Charge{{Cost: 1,
			Subject: limit.Subject{Space: "hot", Name: target[1:]},
			Spec:    limit.Spec{Algorithm: limit.TokenBucket, Limit: 1, Window: time.Second, Burst: 5}}}, r); !ok ||
			err != nil ||
			r[0].Remaining != 0 {
			t.Errorf("%s: %v, %+v, %v: one token was refunded", target, ok, r, err)
		}
	}
	if n := other.Stats().Refunded; n != 2 {
		t.Errorf("%d were refunded, want 2", n)
	}
}

// A refund counts its cost and voids denials if it is of a limit, of one of its statuses and of the last hour.
func TestRefundThatCounts(t *testing.T) {
	t.Parallel()
	b := build(t, refundRules, gate.Config{})
	b.hot("local?id=1")
	for range 6 {
		b.get("/local?id=1", "1.1.1.1")
	}
	for _, c := range []struct {
		key    hottype.Key
		cost   int64
		age    time.Duration
		status int
		want   uint64
	}{
		{"local?id=1", 0, 0, 304, 0}, {"local?id=1", -1, 0, 304, 0}, {"local?id=1", 1, time.Hour + 1, 304, 0},
		{"local?id=1", 1, 0, 303, 0}, {"local?id=1", 1, 0, 499, 0}, {"local?id=1", 1, 0, 600, 0},
		{"unknown?id=1", 1, 0, 304, 0}, {"local?id=1", 3, time.Hour, 599, 3}, {"local?id=1", 1, 0, 304, 1},
	} {
		before := b.Stats()
		b.Refund(b.now, &verdict.Refund{At: b.now.Add(-c.age), Charges: []verdict.KeyCharge{{
			Key: c.key, Cost: c.cost, Store: verdict.ChargedLocal,
			Statuses: hottype.Statuses{{From: 304, To: 304}, {From: 500, To: 599}}}}}, c.status)
		b.get("/local?id=1", "1.1.1.1")
		after := b.Stats()
		if n := after.Refunded - before.Refunded; n != c.want {
			t.Errorf("%+v: %d refunded", c, n)
		}
		if denied := after.CachedDenials > before.CachedDenials; denied == (c.want > 0) {
			t.Errorf("%+v: denied by memory: %v", c, denied)
		}
	}
}
