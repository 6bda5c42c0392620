package gate_test

import (
	"context"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
)

const servedRules = `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 10}, limit: {rate: 1, burst: 2}, cache: {ttl: 2s}}
  - {name: plain, match: {path: /plain}, params: [id], hot: {rate: 10}, limit: {rate: 1, burst: 2}}
  - {name: found, match: {path: /found}, params: [id], hot: {rate: 10}, cache: {}}
  - {name: head, match: {path: /both}, params: [id], hot: {rate: 10}, limit: {rate: 1, burst: 2}, cache: {}, continue: true}
  - {name: tail, match: {path: /both}, params: [u], hot: {rate: 10}, limit: {rate: 1, burst: 2}}
ip: {fixed: {limit: 5, window: 1m}}
overrides:
  - {key: "plain?id=7", action: cache}
  - {key: "topic?id=8", action: exempt}
  - {key: "topic?id=9", action: limit, rate: 3}
`

func (b *bundle) served(method, target, client string) verdict.Verdict {
	r := request(target, client)
	r.Method = method
	v, _ := b.DecideForCache(context.Background(), b.now, r)
	return v
}

func TestWhatACacheMayAnswer(t *testing.T) {
	t.Parallel()
	b := build(t, servedRules, gate.Config{})
	b.hot("topic?id=1", "topic?id=8", "topic?id=9", "plain?id=1", "found?id=1", "head?id=1", "tail?u=1",
		"topic?!malformed")
	for i, c := range []struct {
		method, target string
		ttl            time.Duration // 0: not served
		reason         hottype.Reason
	}{
		{"GET", "/topic?id=1", 2 * time.Second, hottype.ReasonCached},
		{"HEAD", "/topic?id=1&x=2", 2 * time.Second, hottype.ReasonCached},
		{"POST", "/topic?id=1", 0, hottype.ReasonHot},
		{"GET", "/topic?id=2", 0, hottype.ReasonCold},
		{"GET", "/topic?id=8", 0, hottype.ReasonExempt},
		{"GET", "/topic?id=9", 2 * time.Second, hottype.ReasonCached},
		{"GET", "/plain?id=1", 0, hottype.ReasonHot},
		{"GET", "/plain?id=7", time.Second, hottype.ReasonCached},
		{"GET", "/found?id=1", time.Second, hottype.ReasonCached},
		{"GET", "/both?id=1", time.Second, hottype.ReasonCached},
		{"GET", "/both?id=1&u=1", 0, hottype.ReasonHot}, // tail has a limit of its own
		{"GET", "/none", 0, hottype.ReasonNoRule},
	} {
		v := b.served(c.method, c.target, "10.0.0."+string(rune('1'+i)))
		var ttl time.Duration
		if v.Cache != nil {
			ttl = v.Cache.TTL
		}
		if !v.Allowed || ttl != c.ttl || v.Reason != c.reason {
			t.Errorf("%s %s: %+v", c.method, c.target, v)
		}
	}
}

// A hit charges the per-IP windows and nothing else, a refresh the key's limit and
// nothing else; each request is counted once.
func TestServedInTwoSteps(t *testing.T) {
	t.Parallel()
	b := build(t, servedRules, gate.Config{})
	b.hot("topic?id=1")
	for i := range 5 {
		v, count := b.DecideForCache(t.Context(), b.now, request("/topic?id=1", "10.0.0.1"))
		if v.Cache == nil || v.Rule != "ip_fixed" || v.Key != "topic?id=1" {
			t.Fatalf("request %d: %+v", i, v)
		}
		count(&v)
	}
	if v := b.served("GET", "/topic?id=1", "10.0.0.1"); v.Allowed || v.Cache != nil ||
		v.Reason != hottype.ReasonIPFixed {
		t.Errorf("the per-IP window is full: %+v", v)
	}
	if st := b.Stats(); st.Allowed[hottype.ReasonCached] != 5 || st.Allowed.Total() != 5 ||
		st.Denied[hottype.ReasonIPFixed] != 1 {
		t.Errorf("%+v", st)
	}
	refresh := func() verdict.Verdict {
		return b.ChargeKeys(context.Background(), b.now, request("/topic?id=1", "10.0.0.1"))
	}
	if first, second := refresh(), refresh(); !first.Allowed || !second.Allowed {
		t.Error("the key's limit was charged by answers from the cache")
	}
	v := refresh()
	if v.Allowed || v.Reason != hottype.ReasonHot || v.Limit != 2 || v.RetryAfter <= 0 {
		t.Errorf("%+v", v)
	}
	if st := b.Stats(); st.Allowed.Total() != 5 || st.Denied.Total() != 1 {
		t.Errorf("refreshes were counted: %+v", st)
	}
	_, count := b.DecideForCache(t.Context(), b.now, request("/topic?id=1", "10.0.0.2"))
	count(&v)
	r := b.Report(b.now)
	if len(r.Keys) != 1 || r.Keys[0].Allowed != 5 || r.Keys[0].Cached != 5 || r.Keys[0].Denied != 1 ||
		r.Denied[hottype.ReasonHot] != 1 {
		t.Errorf("%+v", r)
	}
}

// A cache answers for keys of cached rules until they cool or expire, and for keys of overrides.
func TestCacheable_FollowsHotSetAndOverrides(t *testing.T) {
	t.Parallel()
	b := build(t, servedRules, gate.Config{})
	b.hot("topic?id=1", "topic?id=8", "plain?id=1", "found?id=1")
	for key, want := range map[hottype.Key]bool{
		"topic?id=1": true, "topic?id=2": false, "topic?id=8": false, "plain?id=1": false, "plain?id=7": true,
		"found?id=1": true, "none?id=1": false,
	} {
		if got := b.Cacheable(b.now, key); got != want {
			t.Errorf("%s: %v", key, got)
		}
	}
	if late := b.now.Add(2 * time.Hour); b.Cacheable(late, "topic?id=1") || !b.Cacheable(late, "plain?id=7") {
		t.Error("an expired key is still hot, or an override is not")
	}
	b.hot("plain?id=1")
	if b.Cacheable(b.now, "topic?id=1") {
		t.Error("served although it is cold")
	}
}

// An override by a pattern takes in the reserved key of malformed requests, which must
// not become free by it.
func TestServeOverrideFreesNothingMalformed(t *testing.T) {
	t.Parallel()
	b := build(t, servedRules+"  - {key: \"topic?*\", action: cache}\nquery_bounds: {pairs: 2}\n", gate.Config{})
	malformed := "/topic?id=1&a=1&b=2&c=3"
	for i := range 3 {
		v := b.served("GET", malformed, "10.0.0.1")
		if v.Cache != nil || v.Allowed != (i < 2) || v.Reason != hottype.ReasonMalformed {
			t.Errorf("%d: %+v", i, v)
		}
	}
	if v := b.served("GET", "/topic?id=1", "10.0.0.2"); v.Cache == nil || v.Hot {
		t.Errorf("%+v", v)
	}
}
