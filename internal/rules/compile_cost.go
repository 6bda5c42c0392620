package rules

import (
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/conf"
)

// compileCost sets the cost of the rule, and reports fields that do not fit it.
func (r *Rule) compileCost(v conf.Value, c *rule.Rule) {
	at := v.At("cost")
	r.Cost, r.ShowCost = c.Cost, c.ShowCost
	if c.ShowCost && c.Cost.ResponseField() == "" {
		v.At("show_cost").Fail("requires cost: response.NAME")
	}
	switch name := c.Cost.ResponseField(); {
	case c.Cost.IsRequests():
		r.Cost = ""
	case c.Cost == hottype.CostTime, c.Cost == hottype.CostBytes:
	case name == "":
		at.Fail("%q is none of requests, time, bytes and response.NAME, a field of the response such as response.X-Cost",
			conf.Cut(string(c.Cost)))
		return
	case !headerName.MatchString(name):
		at.Fail("%q is not the name of a header", conf.Cut(name))
		return
	}
	for _, name := range []string{"rate", "min_rate", "max_rate"} {
		checkUnit(v.At("hot"), name, r.Cost)
	}
	if c.Limit != nil && !v.At("limit").Broken() {
		r.checkLimitUnits(v.At("limit"), len(c.Limit.Values))
	}
	if r.Cost == "" {
		return
	}
	if !v.Has("hot") {
		at.Fail("requires hot, because heat and the limit of a hot key go by the cost")
	}
	for i := range r.Params {
		if p := &r.Params[i]; p.Normal.Duplicates == canon.DuplicatesEach {
			r.refuseEach(v.At("params").Entry(i), p)
		}
	}
}

// checkLimitUnits reports amounts of a limit that are written in another unit than the cost of the rule.
func (r *Rule) checkLimitUnits(v conf.Value, values int) {
	for _, name := range []string{"rate", "min", "max", "burst"} {
		checkUnit(v, name, r.Cost)
	}
	for i := range values {
		checkUnit(v.At("values").Entry(i), "rate", r.Cost)
		checkUnit(v.At("values").Entry(i), "burst", r.Cost)
	}
}

// costLimitFields are the fields of a limit by cost, without algorithm.
var costLimitFields = []string{"rate", "burst", "in_flight", "scope", "on_store_failure", "mode"}

// limitByCost compiles the limit of a rule with a cost: requests for a hot key are charged when their cost is known.
func limitByCost(v conf.Value, c *rule.Limit, cost hottype.Cost) Limit {
	l := Limit{Mode: c.Mode, Scope: c.Scope, OnStoreFailure: c.OnStoreFailure, Set: true}
	if c.Algorithm != limit.TokenBucket {
		v.At("algorithm").Fail("%s does not charge a cost that is known when the request has been answered; "+
			"token_bucket and %s do", c.Algorithm, inFlight)
	}
	for _, f := range limitFields {
		if f.Name != "algorithm" && v.Has(f.Name) && !slices.Contains(costLimitFields, f.Name) {
			v.At(f.Name).Fail("a limit by cost has %s, not %s", strings.Join(costLimitFields, ", "), f.Name)
		}
	}
	v.Require("rate")
	if v.Failed() {
		return l
	}
	l.Spec = costSpec(cost, c.Rate, burstOf(&c.Amounts))
	v.Validate(l.Spec.Validate)
	if l.InFlight = c.InFlight; l.InFlight == nil {
		l.InFlight = inFlightByCost(cost, c.Rate.PerSecond(), l)
	}
	return l
}

// inFlightByCost returns the bound of requests in flight beside a limit by cost: a limit of 0 stands for as many as the
// burst holds at the mean cost. At a rate of r seconds a second r requests are in flight on average (Little).
func inFlightByCost(cost hottype.Cost, perSecond float64, like Limit) *InFlight {
	f := conf.Default[rule.InFlight](schema)
	f.Scope, f.OnStoreFailure = like.Scope, like.OnStoreFailure
	if cost == hottype.CostTime {
		f.Limit = min(MaxInFlight, LeastCount(perSecond)+1)
	}
	return f
}

// InFlight returns the bound of requests in flight of an override with ActionLimit for keys of a rule with a cost, or
// nil for other overrides and rules.
func (o Override) InFlight(r *Rule) *InFlight {
	if o.Action != ActionLimit || r.Cost == "" {
		return nil
	}
	return inFlightByCost(r.Cost, o.Rate, r.Limit)
}

// maxDebt is the time in which a limit by cost earns back the most that costs may exceed it. Costs beyond that are
// forgiven, so that a crowd that came before the key was hot does not deny the key for longer.
const maxDebt = 60

// costSpec returns a limit by cost. Costs are charged when requests have been answered, and may exceed the limit by the
// debt. The debt is the reserve of the bucket: requests leave the reserve to the costs.
func costSpec(cost hottype.Cost, r rule.Rate, burst int64) limit.Spec {
	unit := cost.Unit()
	perSecond := r.PerSecond() * float64(unit)
	s := limit.Spec{Algorithm: limit.TokenBucket, Limit: r.N * unit, Window: r.Per,
		Reserve: max(1, LeastCount(maxDebt*perSecond))}
	if r.N > maxAmount/unit {
		s.Limit, s.Window = LeastCount(perSecond), time.Second
	}
	switch {
	case burst == 0:
		s.Burst = max(1, LeastCount(perSecond))
	case cost.ResponseField() != "":
		s.Burst = min(burst, maxAmount/unit) * unit
	default:
		s.Burst = burst // is written in microseconds or bytes
	}
	s.Burst = min(s.Burst, maxAmount) + min(s.Reserve, maxAmount)
	return s
}

// DescribeCostLimit describes a limit by cost: "0.5 s/s, burst 1 s".
func DescribeCostLimit(cost hottype.Cost, s limit.Spec) string {
	unit := float64(cost.Unit())
	return cost.FormatRate(float64(s.Limit)/s.Window.Seconds()/unit) + ", burst " +
		cost.FormatAmount(float64(s.Capacity())/unit)
}

// CountsTime reports whether some rule counts by time.
func (s *Set) CountsTime() bool {
	return slices.ContainsFunc(s.Rules, func(r *Rule) bool { return r.Cost == hottype.CostTime })
}

// HasCosts reports whether some rule counts by another cost than requests.
func (s *Set) HasCosts() bool {
	return slices.ContainsFunc(s.Rules, func(r *Rule) bool { return r.Cost != "" })
}

// refuseEach changes duplicates from each, by which one expensive request would make any other value expensive.
func (r *Rule) refuseEach(v conf.Value, p *Param) {
	if v.Has("duplicates") {
		v.At("duplicates").Fail("each value would have the cost of the whole request, so that one expensive request makes " +
			"any other value hot; write first or last, as the upstream reads it, or all")
		return
	}
	p.Normal.Duplicates = canon.DuplicatesAll
	v.Warn("with cost, several values of %s make one key together, which a client can vary; write duplicates: first or "+
		"last, as the upstream reads it, or parse_as", p.Name)
}

// checkUnit reports a rate or burst that is written in another unit than a cost.
func checkUnit(v conf.Value, name string, cost hottype.Cost) {
	if v.InGo() || !v.Has(name) || v.At(name).Failed() {
		return
	}
	text, ok := v.At(name).Scalar(aRate, "!!int", "!!float", "!!str")
	if !ok {
		return
	}
	if rule.UnitOf(text) == rule.RateUnit(cost) {
		return
	}
	number, requests, when := "100 or 0.5", "100 or 30/m, requests a second", "in a second"
	if name == "burst" {
		number, requests, when = "100", "100, requests at once", "at once"
	}
	example := requests
	switch {
	case cost == hottype.CostTime:
		example = "500ms or 1s, the time of requests " + when
	case cost == hottype.CostBytes:
		example = "5MB or 64KiB, the bytes " + when
	case cost != "":
		example = number + ", the sum of " + cost.ResponseField() + " " + when
	}
	counts := "each request counts for one"
	if cost != "" {
		counts = "the cost is " + string(cost)
	}
	v.At(name).Fail("%q has another unit than the rule, in which %s; write %s", conf.Cut(text), counts, example)
}

// warnOfWaiting warns about rules by time whose upstream has no known number of workers.
func (p *parser) warnOfWaiting() {
	for i := range p.set.Upstreams {
		if p.set.Upstreams[i].Workers > 0 {
			return
		}
	}
	for i, r := range p.set.Rules {
		if r.Cost == hottype.CostTime {
			p.rules[i].At("cost").Warn("no upstream has workers, so that time in which requests wait behind expensive ones " +
				"counts as theirs; give upstreams: [{name: default, workers: N}], the number on which it works at once")
		}
	}
}
