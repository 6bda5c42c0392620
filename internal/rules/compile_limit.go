package rules

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/conf"
	"github.com/hotparam/pipeline/internal/limitcore"
)

const (
	// maxAmount is the largest whole number that every store keeps exactly.
	maxAmount = 1<<53 - 1
	// defaultBuckets is the number of parts into which a bucketed window is divided: a request counts for up to a tenth
	// of the window longer.
	defaultBuckets = 10
	// maxWait is the longest time that a request is delayed.
	maxWait = time.Minute
	// smallBurst is the burst from which on light clients are not denied, even if they send at random moments.
	smallBurst = 10

	// MaxInFlight is the largest bound of requests in flight.
	MaxInFlight = 100_000

	inFlight       = rule.AlgorithmInFlight
	inFlightFields = "algorithm,limit,lease,scope,on_store_failure"
)

var (
	limitFields  = conf.Fields(reflect.TypeFor[rule.Limit]())
	amountFields = conf.Fields(reflect.TypeFor[rule.Amounts]())
	// algorithms are the algorithms that a limit may name; the first is the default.
	algorithms = slices.Insert(slices.Clone(limitcore.Algorithms()), 3, // behind the other buckets
		limitcore.Traits{Name: rule.Bursty, Required: []string{"rate"}, Optional: []string{"burst"}})
)

// algorithmNames returns the values that the field algorithm of a limit may have.
func algorithmNames() (names []string) {
	for _, a := range algorithms {
		names = append(names, string(a.Name))
	}
	return append(names, string(inFlight))
}

// limitOf compiles the limit of a rule with a cost, and the limits of its values.
func limitOf(v conf.Value, c *rule.Limit, cost hottype.Cost) (Limit, []ValueLimit) {
	l := Limit{Mode: c.Mode, Scope: c.Scope, OnStoreFailure: c.OnStoreFailure, Fair: c.Fair, Priority: c.Priority}
	switch {
	case v.At("algorithm").Failed():
		return l, nil
	case c.Algorithm == inFlight:
		return limitInFlight(v, c), nil
	case v.Has("lease"):
		v.At("lease").Fail("requires algorithm: in_flight")
	case !cost.IsRequests():
		return limitByCost(v, c, cost), nil
	case v.Has("in_flight"):
		v.At("in_flight").Fail("is for a rule with cost, whose requests are charged when they have been answered; " +
			"write algorithm: in_flight, or two rules with continue: true")
	}
	l.ClientHeader = clientHeader(v, c.ClientKey)
	if v.Has("refund_status") {
		l.RefundStatus = &c.RefundStatus
	}
	l.Set = true
	a := c.Amounts
	l.Adaptive = compileAdaptive(v, c, &a)
	l.Spec = compileSpec(v, &a, c)
	l.checkFair(v)
	l.checkPriority(v)
	l.checkRefund(v)
	var values []ValueLimit
	for i := range c.Values {
		of, one := c.Values[i].Amounts, l
		of.Window, of.WarmUp = cmp.Or(of.Window, l.Spec.Window), cmp.Or(of.WarmUp, a.WarmUp)
		of.Buckets, of.Delay = cmp.Or(of.Buckets, l.Spec.Buckets), cmp.Or(of.Delay, a.Delay)
		of.NoDelay = of.NoDelay || a.NoDelay
		one.Spec, one.Adaptive = compileSpec(v.At("values").Entry(i), &of, c), nil
		one.checkPriorityBurst(v.At("values").Entry(i))
		values = append(values, ValueLimit{Key: hottype.Key(c.Values[i].Key), Limit: one})
	}
	return l, values
}

func limitInFlight(v conf.Value, c *rule.Limit) Limit {
	v.Require("limit")
	for _, f := range limitFields {
		if text := otherLimitField(f.Name); text != "" && f.Name != "algorithm" && v.Has(f.Name) {
			v.At(f.Name).Fail("%s", text)
		}
	}
	if c.Limit > MaxInFlight {
		v.At("limit").Fail("%d is not a whole number between 1 and %d", c.Limit, MaxInFlight)
	}
	l := noLimit()
	l.InFlight = &InFlight{Limit: c.Limit, Lease: c.Lease, Scope: c.Scope, OnStoreFailure: c.OnStoreFailure}
	return l
}

// warnOfGreed warns about a rule whose slots one client may all hold, as long as it sends bodies slowly.
func (ip *IPLimits) warnOfGreed(at conf.Value, r *Rule) {
	at = at.At("limit")
	if isDefault := r.Limit.Set && !at.Has("in_flight"); isDefault {
		return
	}
	if f := r.Limit.InFlight; f != nil && f.Limit > 1 && (ip.InFlight == nil || ip.InFlight.Limit >= f.Limit) {
		at.Warn("one client can hold all %d slots of a key, such as by bodies that come slowly; "+
			"give ip.in_flight a smaller limit", f.Limit)
	}
}

// otherLimitField returns the error for a field that only other limits have, or "" for an unknown field.
func otherLimitField(name string) string {
	if name != "algorithm" && slices.Contains(strings.Split(inFlightFields, ","), name) ||
		!slices.ContainsFunc(limitFields, func(f conf.Field) bool { return f.Name == name }) {
		return ""
	}
	return string(inFlight) + " has limit, lease, scope and on_store_failure, not " + name
}

// compileAdaptive compiles the adaptive part of a limit. It returns nil if the limit is not adaptive. A limit without a
// rate has the rate max while the upstream's capacity is not known.
func compileAdaptive(v conf.Value, c *rule.Limit, a *rule.Amounts) *Adaptive {
	if !c.Adaptive {
		for _, name := range []string{"min", "max", "upstream"} {
			if v.Has(name) {
				v.At(name).Fail("requires adaptive: true")
			}
		}
		return nil
	}
	v.Require("min", "max")
	if v.Failed() {
		return nil
	}
	least, most := c.Min.PerSecond(), c.Max.PerSecond()
	switch {
	case c.Algorithm != limit.TokenBucket:
		v.At("adaptive").Fail("%s does not adapt; token_bucket does", c.Algorithm)
	case c.Scope == ScopeInstance:
		v.At("adaptive").Fail("an adaptive limit is shared by all limiters; leave out scope: instance")
	case least > most:
		v.At("min").Fail("%v is more than max, %v requests a second", least, most)
	case least < 0.1:
		v.At("min").Fail("%v requests a second are less than 0.1, too few to see whether the upstream is back", least)
	}
	if n := a.Rate.PerSecond(); !v.Has("rate") {
		a.Rate = c.Max
	} else if n < least || n > most {
		v.At("rate").Fail("%v is not between min and max, %v and %v requests a second", n, least, most)
	}
	return &Adaptive{Min: least, Max: most, Burst: burstOf(a), Upstream: c.Upstream}
}

// burstOf returns the burst of amounts, or 0 if it is not set.
func burstOf(a *rule.Amounts) int64 {
	if a.Burst == nil {
		return 0
	}
	return *a.Burst
}

// defaultBurst returns the capacity of a bucket whose burst is not set: the requests of one second, and at least 1.
func defaultBurst(r rule.Rate) int64 { return max(1, LeastCount(r.PerSecond())) }

// checkAmounts reports amounts that the algorithm does not have, and amounts that are missing. The rate of an adaptive
// limit, and window and warm-up of a value, may come from elsewhere in the rule.
func checkAmounts(v conf.Value, a *rule.Amounts, algorithm limit.Algorithm) {
	named := func(t limitcore.Traits) bool { return t.Name == algorithm }
	known := algorithms[max(0, slices.IndexFunc(algorithms, named))]
	has := slices.Concat(known.Required, known.Optional)
	for _, f := range amountFields {
		switch last := len(has) - 1; {
		case !slices.Contains(has, f.Name) && v.Has(f.Name):
			v.At(f.Name).Fail("%s has %s and %s, not %s", algorithm, strings.Join(has[:last], ", "), has[last], f.Name)
		case slices.Contains(known.Required, f.Name) && f.Of(reflect.ValueOf(a).Elem()).IsZero():
			v.Require(f.Name)
		}
	}
}

// compileSpec compiles the amounts a of limit c, or of one of its values.
func compileSpec(v conf.Value, a *rule.Amounts, c *rule.Limit) limit.Spec {
	s := limit.Spec{Algorithm: c.Algorithm, Limit: a.Rate.N, Window: a.Rate.Per, Burst: burstOf(a)}
	if a.Rate.N == 0 {
		s.Limit, s.Window = a.Limit, a.Window
	}
	checkAmounts(v, a, c.Algorithm)
	if v.Has("burst") && c.Algorithm == limit.TokenBucket && s.Burst == 0 && !v.Failed() {
		v.At("burst").Fail("0 is not a whole number between 1 and %d", maxAmount) // it would allow nothing
	}
	if v.Failed() {
		return s
	}
	switch c.Algorithm {
	case limit.TokenBucket:
		s.Burst = cmp.Or(s.Burst, defaultBurst(a.Rate))
	case limit.BucketedWindow:
		s.Buckets = cmp.Or(a.Buckets, defaultBuckets)
	case limit.WarmingUp:
		s.WarmUp = a.WarmUp
	case limit.LeakyBucket:
		applyDelay(v, a, &s)
	case rule.Bursty:
		compileBursty(a, &s)
	}
	if n := a.InitialTokens; n != nil && *n > s.Burst {
		v.At("initial_tokens").Fail("initial_tokens %d is more than the burst, %d", *n, s.Burst)
	} else if n != nil {
		s.InitialDeficit = s.Burst - *n
	}
	s.Wait, s.Block, s.BlockMax = max(s.Wait, c.Wait), c.Block, c.BlockMax
	v.Validate(s.Validate)
	return s
}

// applyDelay applies nginx's meaning of delay and nodelay to a leaky bucket: delay requests of the burst, or all of it,
// are allowed without delay. This part is GCRA and not a queue; the rest of the burst is delayed as long as necessary.
func applyDelay(v conf.Value, a *rule.Amounts, s *limit.Spec) {
	switch {
	case a.Delay == nil && !a.NoDelay:
	case a.Delay != nil && a.NoDelay:
		v.Fail("nodelay and delay exclude each other")
	case a.Delay != nil && *a.Delay > s.Burst:
		v.Fail("delay %d is more than the burst, %d", *a.Delay, s.Burst)
	case a.NoDelay || *a.Delay == s.Burst:
		s.Algorithm = limit.GCRA
	default:
		waits := s.Burst - *a.Delay
		each := (s.Window + time.Duration(s.Limit) - 1) / time.Duration(s.Limit)
		if time.Duration(waits) > maxWait/each {
			v.Fail("%d calls at %d per %v would wait for more than %v", waits, s.Limit, s.Window, maxWait)
		} else {
			s.Wait = (time.Duration(waits)*each + time.Microsecond - 1).Truncate(time.Microsecond)
		}
		s.Algorithm, s.Burst = limit.GCRA, *a.Delay
	}
}

// compileBursty makes a token bucket of bursty. Guava stores unused permits, up to the permits of one second (burst),
// and starts with 0. A call takes the stored permits and one more that is not due yet: the next call waits for it
// (resync, reserveEarliestAvailable in SmoothRateLimiter). So the capacity of the bucket is one more than the stored
// permits.
func compileBursty(a *rule.Amounts, s *limit.Spec) {
	if a.Burst == nil {
		s.Burst = defaultBurst(a.Rate)
	}
	s.Algorithm, s.InitialDeficit, s.Burst = limit.TokenBucket, s.Burst, s.Burst+1
}

// checkFair reports limits that cannot be divided among clients.
func (l *Limit) checkFair(v conf.Value) {
	fair := v.At("fair")
	switch s := l.Spec; {
	case !l.Fair && l.ClientHeader != "":
		v.At("client_key").Fail("requires fair: true")
	case !l.Fair || fair.Failed():
	case !limitcore.Spec(s).Refills():
		fair.Fail("%s has no level that clients could share; token_bucket, gcra and leaky_bucket have", s.Algorithm)
	case s.Block > 0:
		fair.Fail("block denies the key to everybody for a while; leave out one of them")
	case l.Adaptive != nil:
		fair.Fail("has no effect with adaptive: true, whose cap on requests in flight denies before the bucket has a " +
			"level that clients could share; leave out one of them, or list the classes to serve first in priority")
	case s.Capacity() < smallBurst:
		fair.Warn("a burst of %d is small: clients at random moments get less than their share below %d", s.Capacity(),
			smallBurst)
	}
}

// checkRefund reports limits that cannot refund an earlier charge.
func (l *Limit) checkRefund(v conf.Value) {
	at := v.At("refund_status")
	switch {
	case !v.Has("refund_status") || at.Failed():
	case len(*l.RefundStatus) == 0:
		at.Fail("is empty; name statuses such as [304, 5xx]")
	case l.Spec.Algorithm == limit.SlidingLog:
		at.Fail("sliding_log refunds only charges at a known microsecond; " +
			"bucketed_window does the same")
	case l.Mode == hottype.ModeShadow:
		at.Fail("has no effect in mode shadow, which allows everything")
	}
}
