package rules

import (
	"slices"

	"github.com/hotparam/pipeline/hotparam/hottype"
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
		r.checkUnit(v.At("hot"), name)
	}
	if r.Cost == "" {
		return
	}
	switch limit := v.At("limit"); {
	case !v.Has("hot"):
		at.Fail("requires hot, because only heat goes by the cost")
	case c.Limit != nil && c.Limit.Algorithm != rule.AlgorithmInFlight && !limit.Failed():
		limit.Fail("a limit cannot charge the cost, which is known only when the request has been answered; write "+
			"{algorithm: %s, limit: 1}: as many requests of a key at once cost that many seconds a second", rule.AlgorithmInFlight)
	}
	for i := range r.Params {
		if p := &r.Params[i]; p.Normal.Duplicates == canon.DuplicatesEach {
			r.refuseEach(v.At("params").Entry(i), p)
		}
	}
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

// checkUnit reports a rate that is written in another unit than the cost of the rule.
func (r *Rule) checkUnit(v conf.Value, name string) {
	if v.InGo() || !v.Has(name) || v.At(name).Failed() {
		return
	}
	text, ok := v.At(name).Scalar(aRate, "!!int", "!!float", "!!str")
	if !ok {
		return
	}
	want, example := rule.RateUnit(r.Cost), "100 or 30/m, requests a second"
	switch {
	case rule.UnitOf(text) == want:
		return
	case r.Cost == hottype.CostTime:
		example = "500ms or 1s, the time of requests in a second"
	case r.Cost == hottype.CostBytes:
		example = "5MB or 64KiB, the bytes in a second"
	case r.Cost != "":
		example = "100 or 0.5, the sum of " + r.Cost.ResponseField() + " in a second"
	}
	cost := "each request counts for one"
	if r.Cost != "" {
		cost = "the cost is " + string(r.Cost)
	}
	v.At(name).Fail("%q has another unit than the rule, in which %s; write %s", conf.Cut(text), cost, example)
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
