package hotparam_test

import (
	"context"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/pipeline"
	"github.com/hotparam/pipeline/internal/report"
)

const explainedRules = `
parse_as: go
rules:
  - {name: topic, match: {path: /topic}, params: [id], malformed: deny, hot: {rate: 200, window: 5s},
     limit: {rate: 100, scope: instance}}
  - {name: login, match: {path: /login}, per_client: {fixed: {limit: 10, window: 1m}}}
ip: {fixed: {limit: 50, window: 1s}}
classes: [{name: bot, match: {header: User-Agent, pattern: "bot"}, ip: {fixed: {limit: 5, window: 1s}},
  per_client: {sliding: {limit: 7, window: 1h, mode: shadow}}}]
overrides:
  - {id: file, key: "topic?id=7", action: block, reason: old}
  - {id: tried, key: "topic?id=8", action: block, mode: shadow}
`

// TestPipeline_Explain_SaysWhatDecides has a key that is hot, keys with overrides, and clients with and without a
// class. Live overrides precede the overrides of the rules.
func TestPipeline_Explain_SaysWhatDecides(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, hotparam.Config{}, explainedRules)
	parts, err := pipeline.Extend(p)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	publisher := hotset.NewLocalPublisher(parts.Hot, "test")
	hot := []hottype.HotKey{{Key: "topic?id=42", Rule: "topic", Rate: 300, Until: now.Add(time.Hour)}}
	if err := publisher.Publish(context.Background(), report.HotSet{At: now, Keys: hot}); err != nil {
		t.Fatal(err)
	}
	for _, o := range []rule.Override{{ID: "live", Key: "topic?id=7", Action: rule.ActionExempt},
		{ID: "banned", Client: "192.0.2.9", Action: rule.ActionBlock},
		{ID: "slow", Client: "192.0.2.8", Action: rule.ActionLimit, Rate: 1}} {
		if _, err := p.SetOverride(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	const topic = "rule topic: hot from 200/s over 5s, then token_bucket 100 per 1s, burst 100 (instance, enforce)"
	const every, ofBots = "every client: fixed_window 50 per 1s", "class bot: fixed_window 5 per 1s"
	const never = "rule login: no key is hot, because the rule has no hot"
	const banned = "override banned: block of client 192.0.2.9"
	const slow = "override slow: limit of client 192.0.2.8 token_bucket 1 per 1s, burst 1, " +
		"in the place of the windows below"
	explained := func(key hottype.Key, override string, limits ...string) hotparam.Explanation {
		return hotparam.Explanation{Rule: "topic", Key: key, ParseAs: "go-servemux", Override: override, Limits: limits}
	}
	with := func(e hotparam.Explanation, change func(*hotparam.Explanation)) hotparam.Explanation {
		change(&e)
		return e
	}
	for _, c := range []struct {
		target, client, agent string
		want                  []hotparam.Explanation
	}{
		{"/topic?id=42", "192.0.2.1", "", []hotparam.Explanation{with(explained("topic?id=42", "", topic, every),
			func(e *hotparam.Explanation) { e.Hot, e.Client = true, "192.0.2.1" })}},
		{"/topic?id=43", "", "a bot", []hotparam.Explanation{with(explained("topic?id=43", "", topic, ofBots),
			func(e *hotparam.Explanation) { e.Class = "bot" })}},
		{"/login", "", "", []hotparam.Explanation{{Rule: "login", Key: "login", ParseAs: "go-servemux", Limits: []string{
			never, "rule login: hot or not, every client: fixed_window 10 per 1m0s", every}}}},
		{"/login", "", "a bot", []hotparam.Explanation{{Rule: "login", Key: "login", ParseAs: "go-servemux", Class: "bot",
			Limits: []string{never, "rule login: hot or not, every client of class bot: sliding_window 7 per 1h0m0s, shadow: " +
				"no request is denied", ofBots}}}},
		{"/topic?id=7", "", "", []hotparam.Explanation{
			explained("topic?id=7", "live", "override live: exempt", topic, every)}},
		{"/topic?id=8", "", "", []hotparam.Explanation{explained("topic?id=8", "",
			"override tried: block, in shadow mode: only counted", topic, every)}},
		{"/topic?id=7", "192.0.2.9", "", []hotparam.Explanation{with(explained("topic?id=7", "banned",
			"override live: exempt", topic, banned, every),
			func(e *hotparam.Explanation) { e.Client = "192.0.2.9" })}},
		{"/topic?id=1", "192.0.2.8", "", []hotparam.Explanation{
			with(explained("topic?id=1", "slow", topic, slow, every),
				func(e *hotparam.Explanation) { e.Client = "192.0.2.8" })}},
		{"/topic?id=1&id=2", "", "", []hotparam.Explanation{
			with(explained("topic?id=1", "", topic, every),
				func(e *hotparam.Explanation) { e.Also = []hottype.Key{"topic?id=2"} }),
			with(explained("topic?id=2", "", topic, every),
				func(e *hotparam.Explanation) { e.Also = []hottype.Key{"topic?id=1"} })}},
		{"/topic?id=" + strings.Repeat("x", 1000), "", "", []hotparam.Explanation{with(explained("topic?!malformed", "",
			"override tried: block of topic?id=8, in shadow mode: only counted",
			"rule topic: malformed requests, hot or not: deny", every),
			func(e *hotparam.Explanation) { e.Malformed = true })}},
		{"/", "", "", []hotparam.Explanation{{Limits: []string{"no rule matches: not counted", every}}}},
	} {
		r := hotparam.Request{Method: "GET", Target: c.target}
		if c.client != "" {
			r.Client = hottype.ParseClient(c.client)
		}
		if c.agent != "" {
			r.Header = http.Header{"User-Agent": {c.agent}}
		}
		if got := p.Explain(r); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s of %q:\n%+v, want\n%+v", c.target, c.client, got, c.want)
		}
	}
	if st := p.Stats(); st.Counted+st.Allowed+st.Denied+st.WouldDeny != 0 {
		t.Errorf("explaining counts: %+v", st)
	}
}
