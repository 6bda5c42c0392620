package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/hotparam/pipeline/bench/internal/measure"
	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/serving/middleware"
)

const hotTarget = "/topic?id=42&lang=en&page=3"

// coldKeys is the number of values that each caller requests in turn.
const coldKeys = 256

func request(target string) *hottype.Request {
	return &hottype.Request{Method: http.MethodGet, Host: "news.example", Target: target,
		Client: hottype.ParseClient("203.0.113.9"), Header: http.Header{}}
}

// blank is a ResponseWriter that costs nothing.
type blank struct{ h http.Header }

func (b blank) Header() http.Header         { return b.h }
func (b blank) Write(p []byte) (int, error) { return len(p), nil }
func (b blank) WriteHeader(int)             {}

var nothing = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// ids returns the values that caller i requests: values of its own, or the hot value each time.
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

// handlerCaller returns a function that serves requests for the ids in turn.
func handlerCaller(h http.Handler, list []string) func() {
	reqs := make([]*http.Request, len(list))
	for k, id := range list {
		reqs[k] = httptest.NewRequest(http.MethodGet, target(id), nil)
	}
	w, n := blank{http.Header{}}, 0
	return func() { h.ServeHTTP(w, reqs[n%len(reqs)]); n++ }
}

// question is one row of the table. A method for each contender measures it.
type question struct {
	sheet   *measure.Sheet
	d       time.Duration
	cores   int
	hot     bool // the refusal of a hot key, or else the decision on a cold key
	handler bool // before an HTTP handler, or else the decision alone
}

func (q question) String() string {
	return fmt.Sprintf("%s, %s, %d core(s)", pick(q.hot, "refusal of a hot key", "cold key, 3 parameters, counted"),
		pick(q.handler, "handler", "decision"), q.cores)
}

// measure runs the callers and adds the cost of one call to the sheet. decide returns a function that decides some ids
// in turn.
func (q question) measure(who string, h http.Handler, decide func(ids []string) func()) {
	cost := measure.Loop(q.cores, q.d, func(i int) func() {
		if q.handler {
			return handlerCaller(h, ids(i, q.hot))
		}
		return decide(ids(i, q.hot))
	})
	q.sheet.Add(q.String(), who, cost.Wall, cost.CPU, cost.Allocs)
}

// ours measures hotparam.
func (q question) ours(who, yaml string) error {
	p, err := newPipeline(yaml)
	if err != nil {
		return err
	}
	if q.hot && !p.untilHot(hotTarget) {
		return fmt.Errorf("inprocess: %s did not become hot", hotTarget)
	}
	q.measure(who, middleware.New(p.gate, middleware.Options{}).Wrap(nothing), func(ids []string) func() {
		reqs := make([]*hottype.Request, len(ids))
		for k, id := range ids {
			reqs[k] = request(target(id))
		}
		n, ctx := 0, context.Background()
		return func() { p.gate.Decide(ctx, time.Now(), reqs[n%len(reqs)]); n++ }
	})
	if denied := p.gate.Stats().Denied.Total(); (denied > 0) != q.hot {
		return fmt.Errorf("inprocess: %s: %d requests were denied", q, denied)
	}
	return p.stop()
}

// theirs measures sentinel. Cold values have a limit that is never reached.
func (q question) theirs() error {
	perSecond := int64(1 << 40)
	if q.hot {
		perSecond = limitPerSecond
	}
	if err := loadSentinel(perSecond); err != nil {
		return err
	}
	q.measure(peer, sentinelHandler(nothing), func(ids []string) func() {
		n := 0
		return func() { askSentinel(ids[n%len(ids)], "en", "3"); n++ }
	})
	return nil
}

// costCases returns all questions, each for hotparam and then for the peer.
func costCases(sheet *measure.Sheet, d time.Duration) []func() error {
	var cases []func() error
	add := func(q question, f func() error) {
		cases = append(cases, func() error { return measure.OnCores(q.cores, f) })
	}
	for _, cores := range []int{1, 2} {
		for _, hot := range []bool{false, true} {
			for _, handler := range []bool{false, true} {
				q := question{sheet, d, cores, hot, handler}
				add(q, func() error { return q.ours(measure.Ours, pick(hot, topicRule, coldRule)) })
				if !hot && !handler {
					add(q, func() error { return q.ours("hotparam and two per-IP windows", coldRule+ipWindows) })
				}
				add(q, q.theirs)
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
