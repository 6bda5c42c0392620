//go:build !race

package cost

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/middleware"
)

const (
	topicRule = `
rules:
  - {name: topic, match: {path: /topic}, params: [id, lang, page],
     hot: {rate: 100000000}, limit: {rate: 10, burst: 10, scope: instance}}
`
	windows = `
ip:
  fixed: {limit: 1000000000, window: 1s, scope: instance}
  sliding: {limit: 1000000, window: 60s, scope: instance}
`
	perClient = `
     per_client: {fixed: {limit: 1000000000, window: 1s, scope: instance},
       sliding: {limit: 1000000, window: 60s, scope: instance}}}
`
	hotTarget = "/topic?id=42&lang=en&page=3"
)

// now is the time of all calls, so that no wait ends and no window.
var now = time.Unix(1_700_000_000, 0)

// hotPaths are the paths of the code that run for each request. Repeated targets are few, so that no two share a slot
// of the memo. Each function prepares its path and returns the call.
var hotPaths = []struct {
	name string
	make func(testing.TB) func()
}{
	{"match a target", matchTarget},
	{"decide, cold key", func(tb testing.TB) func() { return decide(tb, topicRule, coldTargets(4)) }},
	{"decide, cold key, two windows", func(tb testing.TB) func() {
		return decide(tb, topicRule+windows, coldTargets(4))
	}},
	{"decide, cold key, per_client", func(tb testing.TB) func() {
		return decide(tb, strings.TrimSuffix(topicRule, "}\n")+","+perClient, coldTargets(4))
	}},
	{"decide, each target once", func(tb testing.TB) func() { return decide(tb, topicRule, coldTargets(1<<14)) }},
	{"decide, hot key allowed", func(tb testing.TB) func() {
		return decide(tb, strings.ReplaceAll(topicRule, ": 10,", ": 1000000000,"), []string{hotTarget})
	}},
	{"decide, hot key denied", func(tb testing.TB) func() { return decide(tb, topicRule, []string{hotTarget}) }},
	{"handler, cold key", func(tb testing.TB) func() { return serve(tb, coldTargets(4)) }},
	{"handler, hot key denied", func(tb testing.TB) func() { return serve(tb, []string{hotTarget}) }},
	{"charge two windows in memory", chargeWindows},
	{"count a request", countRequest},
}

func parse(tb testing.TB, yaml string) *rules.Set {
	set, err := rules.Parse("cost.yaml", []byte(yaml))
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

func coldTargets(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("/topic?id=%d&lang=en&page=3", 1_000_000+i)
	}
	return list
}

func requests(targets []string) []*hottype.Request {
	list := make([]*hottype.Request, len(targets))
	for i, target := range targets {
		list[i] = &hottype.Request{Method: http.MethodGet, Host: "news.example", Target: target,
			Client: hottype.ParseClient("203.0.113.9"), Header: http.Header{}}
	}
	return list
}

type drain struct{}

func (drain) Send(context.Context, []hottype.Count) error { return nil }

// newGate is a gate that counts, with one hot key.
func newGate(tb testing.TB, yaml string) *gate.Gate {
	replica := new(hotset.Replica)
	replica.Replace("cost", report.HotSet{Version: 1, Keys: []hottype.HotKey{
		{Key: "topic?id=42&lang=en&page=3", Until: time.Now().Add(time.Hour)}}})
	return gate.New(gate.Config{Rules: parse(tb, yaml), Hot: replica,
		Counter: tally.New(tally.Config{Sink: drain{}, Log: slog.New(slog.DiscardHandler)})})
}

func matchTarget(tb testing.TB) func() {
	set, reqs, scratch, i := parse(tb, topicRule), requests(coldTargets(256)), new(rules.Scratch), 0
	return func() { set.Match(reqs[i%len(reqs)], scratch); i++ }
}

func decide(tb testing.TB, yaml string, targets []string) func() {
	g, reqs, ctx, i := newGate(tb, yaml), requests(targets), context.Background(), 0
	return func() { g.Decide(ctx, now, reqs[i%len(reqs)]); i++ }
}

// blank is a ResponseWriter that costs nothing but its header.
type blank struct{ h http.Header }

func (b *blank) Header() http.Header         { return b.h }
func (b *blank) Write(p []byte) (int, error) { return len(p), nil }
func (b *blank) WriteHeader(int)             {}

func serve(tb testing.TB, targets []string) func() {
	h := middleware.New(newGate(tb, topicRule), middleware.Options{Now: func() time.Time { return now }}).
		Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	reqs := make([]*http.Request, len(targets))
	for i, target := range targets {
		reqs[i] = httptest.NewRequest(http.MethodGet, target, nil)
	}
	w, i := &blank{http.Header{}}, 0
	return func() { clear(w.h); h.ServeHTTP(w, reqs[i%len(reqs)]); i++ }
}

func chargeWindows(testing.TB) func() {
	client := hottype.ParseClient("203.0.113.9")
	charges := []limit.Charge{
		{Subject: limit.Subject{Space: "fixed", Client: client}, Cost: 1,
			Spec: limit.Spec{Algorithm: limit.FixedWindow, Limit: 1e9, Window: time.Second}},
		{Subject: limit.Subject{Space: "sliding", Client: client}, Cost: 1,
			Spec: limit.Spec{Algorithm: limit.SlidingWindow, Limit: 1e6, Window: time.Minute}},
	}
	m, results, ctx := limit.NewMemory(limit.MemoryConfig{}), make([]limit.Result, 2), context.Background()
	return func() { _, _ = m.Take(ctx, now, charges, results) }
}

func countRequest(testing.TB) func() {
	count := tally.New(tally.Config{Sink: drain{}, Log: slog.New(slog.DiscardHandler)})
	key, client := []byte("topic?id=42&lang=en&page=3"), hottype.ParseClient("203.0.113.9")
	return func() { count.AddFrom(key, now.Unix(), 1, client) }
}
