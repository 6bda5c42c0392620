package redislimits

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/lua"
)

// everyAlgorithm returns a limit of each algorithm, and of each option beside an algorithm. Their states live for
// minutes, so no state expires before the test reads it.
func everyAlgorithm() map[string]limit.Spec {
	return map[string]limit.Spec{
		"bucket":         {Algorithm: limit.TokenBucket, Limit: 3, Window: 10 * time.Minute, Burst: 3},
		"quicker bucket": {Algorithm: limit.TokenBucket, Limit: 3, Window: 9 * time.Minute, Burst: 3},
		"lacking bucket": {Algorithm: limit.TokenBucket, Limit: 3, Window: 10 * time.Minute, Burst: 3,
			InitialDeficit: 1},
		"waiting bucket": {Algorithm: limit.TokenBucket, Limit: 3, Window: 10 * time.Minute, Burst: 1,
			Wait: 8 * time.Minute},
		"gcra":         {Algorithm: limit.GCRA, Limit: 3, Window: 10 * time.Minute, Burst: 2},
		"leaky bucket": {Algorithm: limit.LeakyBucket, Limit: 3, Window: 10 * time.Minute, Burst: 2},
		"fixed":        {Algorithm: limit.FixedWindow, Limit: 3, Window: 24 * time.Hour},
		"anchored":     {Algorithm: limit.AnchoredWindow, Limit: 3, Window: 10 * time.Minute},
		"sliding":      {Algorithm: limit.SlidingWindow, Limit: 3, Window: 10 * time.Minute},
		"log":          {Algorithm: limit.SlidingLog, Limit: 3, Window: 10 * time.Minute},
		"bucketed":     {Algorithm: limit.BucketedWindow, Limit: 3, Window: 10 * time.Minute, Buckets: 10},
		"block": {Algorithm: limit.FixedWindow, Limit: 3, Window: 24 * time.Hour, Block: time.Minute,
			BlockMax: time.Hour},
	}
}

// mortal is a server on which no key may live for ever, after any call.
type mortal struct {
	*testing.T
	raw *redis.Client
	c   *Limiter
}

func (m mortal) after(what string) {
	m.Helper()
	if keys := redistest.KeysWithoutTTL(m.T, m.raw, m.c.keys.prefix); keys != nil {
		m.Fatalf("after %s these keys have no expiry: %v", what, keys)
	}
}

// Law U9 holds on a real server for every call of the package, without exceptions: after each call every key has an
// expiry. At the end the server has run every script of the package.
func TestLimiter_LeavesOnlyKeysThatExpire(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := mortal{t, s.Client(),
		openWith(t, redisclient.Config{Addrs: []string{s.Addr()}, Namespace: "test", Timeout: redistest.Patience})}
	for _, travel := range []string{"alone", "together"} {
		for first, spec := range everyAlgorithm() {
			m.limits(travel, first, spec)
		}
	}
	m.windows()
	m.others()
	redistest.CheckScriptsRan(t, s, map[string]string{
		"Decide": lua.Decide(), "DecideMany": lua.DecideMany(), "Refund": lua.Refund(), "Exchange": lua.Exchange(),
		"CLThrottle": lua.CLThrottle(), "InFlight": lua.InFlight(),
	}, "ClaimHot", "PublishHot", "WriteOverride", "RestoreOverrides", "WriteReport", "WriteCommand", "WriteRules",
		"PublishBounds")
}

// limits charges, denies, blocks and refunds, and finds states of every other
// algorithm under the subject.
func (m mortal) limits(travel, first string, spec limit.Spec) {
	m.Helper()
	ctx, cancel := context.WithCancel(m.Context()) // decisions that may be cancelled travel together
	defer cancel()
	if travel == "alone" {
		ctx = context.Background()
	}
	for second, next := range everyAlgorithm() {
		m.raw.FlushAll(ctx)
		c := limit.Charge{Subject: limit.Subject{Space: "hot", Name: travel + first + second}, Spec: spec, Cost: 1}
		beside := limit.Charge{Subject: limit.Subject{Space: "beside", Name: c.Subject.Name}, Spec: next, Cost: 1}
		l, results := m.c, make([]limit.Result, 2)
		var charged []time.Time
		do := func(what string, refund bool, charges ...limit.Charge) {
			m.Helper()
			var err error
			if refund {
				err = l.RefundAt(ctx, charged, charges, results[:len(charges)])
			} else {
				_, charged, err = l.TakeAt(ctx, time.Time{}, charges, results[:len(charges)])
			}
			if err != nil {
				m.Fatalf("%s, %s: %v", c.Subject.Name, what, err)
			}
			m.after(fmt.Sprintf("%s of %s, then %s, %s", what, first, second, travel))
		}
		do("a charge", false, c)
		do("a charge beside another", false, c, beside)
		do("a refund", true, c, beside)
		for range 4 { // the last ones are denied, and may block
			do("a charge", false, c)
		}
		do("a refund", true, c)
		c.Spec = next
		do("a charge under other terms", false, c)
		do("a refund under other terms", true, c)
	}
}

// windows exchanges sums that are new, that grow and that shrink, and finds a value of another type under the name.
func (m mortal) windows() {
	m.Helper()
	for i, algorithm := range []limit.Algorithm{limit.FixedWindow, limit.SlidingWindow} {
		c := windowCharge(visitor(byte(i)), algorithm, 10, time.Hour, 2)
		for _, before := range []string{"nothing", "nonsense"} {
			if before == "nonsense" {
				hour := time.Hour.Microseconds()
				m.raw.Set(m.Context(), m.c.keys.sumsKey(hour, time.Now().UnixMicro()/hour*hour, &c.Subject),
					"what is this", time.Hour)
			}
			for range 2 {
				w, done := patient(m.c), make(chan error, 1)
				ctx, cancel := context.WithCancel(m.Context())
				go func() { done <- w.Run(ctx) }()
				redistest.Eventually(m.T, "an exchange", func() bool { return w.Fresh(time.Now(), &c.Subject) })
				now := time.Now()
				w.ask(m.T, now, c)
				w.RefundAt(now, []limit.Charge{windowCharge(c.Subject.Client, algorithm, 10, time.Hour, 1)})
				cancel() // the last exchange writes the sum
				if err := redistest.Next(m.T, done, "end of Run"); err != nil {
					m.Fatal(err)
				}
				m.after(fmt.Sprintf("an exchange of a %s that found %s", algorithm, before))
			}
		}
	}
}

// others makes the calls that do not use the Limiter.
func (m mortal) others() {
	m.Helper()
	ctx := m.Context()
	check := func(what string, err error) {
		m.Helper()
		if err != nil {
			m.Fatalf("%s: %v", what, err)
		}
		m.after(what)
	}
	for range 3 {
		_, err := m.c.Throttle(ctx, "k", 1, 1, time.Minute, 1)
		check("Throttle", err)
	}
	f, err := m.c.InFlight("k", 2, time.Minute)
	check("InFlight", err)
	for _, id := range []string{"a", "b", "c", "a"} {
		_, err := f.Acquire(ctx, id)
		check("Acquire", err)
	}
	_, err = f.Release(ctx, "a")
	check("Release", err)
}

// A bucket that another script has written expires when it is full, not at the end of that second: each charge sets a
// new expiry, also if the bucket is full within the same second.
func TestBucketOutlivesItsOldExpiry(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	raw, l := s.Client(), openLimiter(t, s.Addr())
	bucket := limit.Spec{Algorithm: limit.TokenBucket, Limit: 1_000_000_000, Window: 1000 * time.Second,
		Burst: 1_000_000_000}
	for name, beside := range map[string]int{"alone": 0, "beside another": 1} {
		for range 20 { // more than a few end in the same second
			charges := []limit.Charge{{Subject: limit.Subject{Space: "hot", Name: name}, Spec: bucket, Cost: 9_000_000},
				{Subject: limit.Subject{Space: "beside", Name: name}, Spec: bucket, Cost: 1}}[:1+beside]
			key, results := l.keys.limitState(&charges[0].Subject), make([]limit.Result, 1+beside)
			for step := range 2 {
				if _, err := l.Take(t.Context(), time.Time{}, charges, results); err != nil {
					t.Fatal(err)
				}
				if step == 1 {
					break
				}
				text := raw.Get(t.Context(), key).Val()
				if len(text) < 18 || text[:2] != "t0" {
					t.Fatalf("%s: state %q", name, text)
				}
				raw.Set(t.Context(), key, "t"+text[2:], 5*time.Second) // 9 s: it means something for longer
				charges[0].Cost = 1
			}
			if life := raw.PTTL(t.Context(), key).Val(); life < results[0].ResetAfter-time.Second {
				t.Errorf("%s: lives %v, whole in %v", name, life, results[0].ResetAfter)
			}
			raw.FlushAll(t.Context())
		}
	}
}

// A bucket that does not start full is remembered for a day after it is full, from its first call on, whether this is
// allowed or denied.
func TestInitialDeficit_IsStoredForADay(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	raw, l := s.Client(), openLimiter(t, s.Addr())
	for name, c := range map[string]struct {
		cost, lack int64
		full       time.Duration // as the state is written, one token a minute
	}{
		"allowed": {2, 1, 3 * time.Minute}, "denied": {2, 4, 4 * time.Minute}, "never allowed": {6, 1, time.Minute},
	} {
		charge := limit.Charge{Subject: limit.Subject{Space: "hot", Name: name}, Cost: c.cost, Spec: limit.Spec{
			Algorithm: limit.TokenBucket, Limit: 1, Window: time.Minute, Burst: 5, InitialDeficit: c.lack}}
		if _, err := l.Take(t.Context(), time.Time{}, []limit.Charge{charge}, make([]limit.Result, 1)); err != nil {
			t.Fatal(err)
		}
		life := raw.PTTL(t.Context(), l.keys.limitState(&charge.Subject)).Val()
		if want := 24*time.Hour + c.full; life > want+2*time.Millisecond || life < want-redistest.Patience {
			t.Errorf("%s: lives %v, want %v", name, life, want)
		}
	}
}
