package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/hotparam/pipeline/bench/internal/measure"
	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/middleware"
)

const hotTarget = "/topic?id=42&lang=en&page=3"

// coldKeys is how many values each caller asks for in turn.
const coldKeys = 256

func request(target string) *hotparam.Request {
	return &hotparam.Request{Method: http.MethodGet, Host: "news.example", Target: target,
		Client: hotparam.ParseClient("203.0.113.9"), Header: http.Header{}}
}

// blank is a ResponseWriter that costs nothing.
type blank struct{ h http.Header }

func (b blank) Header() http.Header         { return b.h }
func (b blank) Write(p []byte) (int, error) { return len(p), nil }
func (b blank) WriteHeader(int)             {}

var nothing = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// ids are what caller i asks for: values of its own, or all of them the hot one.
func ids(i int, hot bool) []string {
	list := make([]string, coldKeys)
	for k := range list {
		list[k] = "42"
		if !hot {
			list[k] = strconv.Itoa(1000 + i*coldKeys + k)
		}
	}
	return list
}

func target(id string) string { return "/topic?id=" + id + "&lang=en&page=3" }

// handlerCaller serves requests for the ids in turn.
func handlerCaller(h http.Handler, list []string) func() {
	reqs := make([]*http.Request, len(list))
	for k, id := range list {
		reqs[k] = httptest.NewRequest(http.MethodGet, target(id), nil)
	}
	w, n := blank{http.Header{}}, 0
	return func() { h.ServeHTTP(w, reqs[n%len(reqs)]); n++ }
}

// ours measures hotparam for one question.
func ours(sheet *measure.Sheet, what, who, yaml string, cores int, d time.Duration, hot, handler bool) error {
	p, err := newPipeline(yaml)
	if err != nil {
		return err
	}
	if hot && !p.heat(hotTarget) {
		return fmt.Errorf("inprocess: %s did not become hot", hotTarget)
	}
	h := middleware.New(p.gate, middleware.Options{})(nothing)
	cost := measure.Loop(cores, d, func(i int) func() {
		list := ids(i, hot)
		if handler {
			return handlerCaller(h, list)
		}
		reqs := make([]*hotparam.Request, len(list))
		for k, id := range list {
			reqs[k] = request(target(id))
		}
		n, ctx := 0, context.Background()
		return func() { p.gate.Ask(ctx, time.Now(), reqs[n%len(reqs)]); n++ }
	})
	sheet.Add(what, who, cost.Wall, cost.CPU, cost.Allocs)
	return p.stop()
}

// theirs measures sentinel. Cold values have a limit that nobody reaches.
func theirs(sheet *measure.Sheet, what string, cores int, d time.Duration, hot, handler bool) error {
	perSecond := int64(1 << 40)
	if hot {
		perSecond = limitPerSecond
	}
	if err := loadSentinel(perSecond); err != nil {
		return err
	}
	h := sentinelHandler(nothing)
	cost := measure.Loop(cores, d, func(i int) func() {
		list := ids(i, hot)
		if handler {
			return handlerCaller(h, list)
		}
		n := 0
		return func() { askSentinel(list[n%len(list)], "en", "3"); n++ }
	})
	sheet.Add(what, peer, cost.Wall, cost.CPU, cost.Allocs)
	return nil
}

// costCases are all questions, each asked of ours and then of the peer.
func costCases(sheet *measure.Sheet, d time.Duration) []func() error {
	var cases []func() error
	for _, cores := range []int{1, 2} {
		for _, hot := range []bool{false, true} {
			for _, handler := range []bool{false, true} {
				what := fmt.Sprintf("%s, %s, %d core(s)", pick(hot, "refusal of a hot key", "cold key, 3 parameters, counted"),
					pick(handler, "handler", "decision"), cores)
				add := func(f func() error) {
					cases = append(cases, func() error { return measure.OnCores(cores, f) })
				}
				add(func() error { return ours(sheet, what, measure.Ours, topicRule, cores, d, hot, handler) })
				if !hot && !handler {
					add(func() error {
						return ours(sheet, what, "hotparam and two per-IP windows", topicRule+ipWindows, cores, d, hot, handler)
					})
				}
				add(func() error { return theirs(sheet, what, cores, d, hot, handler) })
			}
		}
	}
	return cases
}

func pick(yes bool, a, b string) string {
	if yes {
		return a
	}
	return b
}
