package rules

import (
	"time"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/limit"
)

// maxAmount is the largest whole number that every store keeps exactly.
const maxAmount = 1<<53 - 1

// amounts are the fields that say how much a limit lets pass. Which of them a
// limit has depends on its algorithm.
type amounts struct {
	rate         rate
	burst, limit int64
	window       time.Duration
}

func (a *amounts) fields() fields {
	return fields{
		"rate":   func(v value) { a.rate = v.rate() },
		"burst":  func(v value) { a.burst = v.integer(1, maxAmount) },
		"limit":  func(v value) { a.limit = v.integer(1, maxAmount) },
		"window": func(v value) { a.window = v.duration(time.Millisecond, 24*time.Hour, time.Millisecond) },
	}
}

// spec makes a limit of what a mapping has got.
func (a *amounts) spec(v value, got map[string]value, algorithm limit.Algorithm) limit.Spec {
	needs, strange, has := []string{"rate"}, []string{"limit", "window"}, "rate and burst"
	s := limit.Spec{Algorithm: algorithm, Limit: a.rate.n, Window: a.rate.window, Burst: a.burst}
	if algorithm != limit.TokenBucket {
		needs, strange, has = []string{"limit", "window"}, []string{"rate", "burst"}, "limit and window"
		if a.window > 0 {
			needs = needs[:1] // also where it comes from the rule
		}
		s = limit.Spec{Algorithm: algorithm, Limit: a.limit, Window: a.window}
	}
	for _, f := range strange {
		if w, ok := got[f]; ok {
			w.fail("%s has %s, not %s", algorithm, has, f)
		}
	}
	v.require(got, needs...)
	if v.failed() {
		return s
	}
	if algorithm == limit.TokenBucket && s.Burst == 0 {
		s.Burst = a.rate.burst()
	}
	if err := s.Validate(); err != nil {
		v.fail("%s", err)
	}
	return s
}

// limit reads the limit of a rule and of particular keys of it.
func (v value) limit() (Limit, []ValueLimit) {
	l := noLimit()
	l.Set = !v.isNull()
	var a amounts
	var values []value
	algorithm := limit.TokenBucket
	fs := a.fields()
	fs["algorithm"] = func(v value) {
		algorithm = limit.Algorithm(v.word(string(limit.TokenBucket), string(limit.FixedWindow), string(limit.SlidingWindow)))
	}
	fs["mode"] = func(v value) { l.Mode = hotparam.Mode(v.word("enforce", "shadow")) }
	fs["scope"] = func(v value) { l.Scope = v.scope() }
	fs["on_store_failure"] = func(v value) { l.OnStoreFailure = v.failurePolicy() }
	fs["block"] = func(v value) { v.only("0s") }
	fs["wait"] = func(v value) { v.only("0s") }
	fs["values"] = func(v value) { v.list(func(v value) { values = append(values, v) }) }
	got := v.mapping(fs)
	if !l.Set || algorithm == "" {
		return l, nil
	}
	l.Spec = a.spec(v, got, algorithm)
	var list []ValueLimit
	for _, e := range values {
		list = append(list, e.valueLimit(l))
	}
	return l, list
}

// valueLimit reads the limit of one key. All but the amounts is the rule's, and
// the window too unless it is given.
func (v value) valueLimit(l Limit) ValueLimit {
	var a amounts
	if l.Spec.Algorithm != limit.TokenBucket {
		a.window = l.Spec.Window
	}
	var key string
	fs := a.fields()
	fs["key"] = func(v value) { key = v.text() }
	got := v.mapping(fs)
	v.require(got, "key")
	l.Spec = a.spec(v, got, l.Spec.Algorithm)
	return ValueLimit{Key: hotparam.Key(key), Limit: l}
}

func (v value) scope() Scope { return Scope(v.word("instance", "cluster")) }

func (v value) failurePolicy() FailurePolicy {
	return FailurePolicy(v.word("local", "open", "closed"))
}

// only takes the one value of a field that a later version will give more.
func (v value) only(neutral string) {
	if s := v.node.Value; s != neutral && (neutral != "0s" || s != "0") || v.kind() == "a list" || v.kind() == "a mapping" {
		v.fail("only %s is supported", neutral)
	}
}
