// Package clientlaws tests a decider against the laws of windows of clients, of all requests and of a rule. An oracle
// counts the requests that were allowed, by the definitions of docs/limits.md alone: it keeps no state of a window, so
// that a request that is denied cannot have changed one. What goes in is a function that decides; what comes out are
// the errors of a test.
package clientlaws

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// HotKey is the key that the decider must have as hot.
const HotKey hottype.Key = "topic?id=1"

// Rules returns the rules under which a decider is tested. options are further fields of every window, such as
// "scope: instance", and unit is the length of the shortest window.
func Rules(options string, unit time.Duration) string {
	window := func(limit, units int) string {
		fields := fmt.Sprintf("limit: %d, window: %v", limit, unit*time.Duration(units))
		if options != "" {
			fields += ", " + options
		}
		return "{" + fields + "}"
	}
	scope := ""
	if strings.Contains(options, "instance") {
		scope = ", scope: instance"
	}
	return strings.NewReplacer("W25x5", window(25, 5), "W4x1", window(4, 1), "W9x3", window(9, 3), "W3x1", window(3, 1),
		"W8x1", window(8, 1), "W6x2", window(6, 2), "W5x1", window(5, 1), "UNIT", unit.String(), "SCOPE", scope).Replace(`
rules:
  - {name: all, match: {path: /}, continue: true, per_client: {sliding: W25x5}}
  - {name: login, match: {path: /login, methods: [POST]}, per_client: {fixed: W4x1, sliding: W9x3}}
  - name: topic
    match: {path: /topic}
    params: [id]
    hot: {rate: 10}
    limit: {algorithm: fixed_window, limit: 7, window: UNITSCOPE}
    per_client: {fixed: W3x1}
  - {name: "*", params: [], hot: {rate: 1}}
ip: {fixed: W8x1, exempt: [192.0.2.9]}
classes:
  - {name: member, match: {header: X-Class, pattern: member}, per_client: {sliding: W6x2}}
  - {name: robot, match: {header: X-Class, pattern: robot}, ip: {fixed: W5x1}}
`)
}

// Law is a run of random requests, which are compared with the oracle.
type Law struct {
	Seed     uint64
	Requests int
	Unit     time.Duration // of the rules
	Start    time.Time
	// Still stops the clock. Then waits are not compared, because the decider has a clock of its own.
	Still bool
}

// Run makes the requests and compares each verdict.
func (l Law) Run(t testing.TB, decide func(now time.Time, req *hottype.Request) hottype.Verdict) {
	t.Helper()
	rnd, o, now := rand.New(rand.NewPCG(l.Seed, 1)), &oracle{unit: l.Unit}, l.Start
	denied := 0
	for i := range l.Requests {
		if !l.Still {
			steps := []time.Duration{0, 0, 0, 0, 0, 0, 0, l.Unit / 50, l.Unit / 7, l.Unit, 2*l.Unit + l.Unit/3}
			now = now.Add(steps[rnd.IntN(len(steps))]).Truncate(time.Microsecond)
		}
		req := randomRequest(rnd)
		want, byKey := o.decide(now, req)
		v := decide(now, req)
		if v.Reason == hottype.ReasonHot && !byKey.Allowed {
			want = byKey // a remembered denial of the key needs no look at the windows
		}
		if got := answerOf(&v, &want, l.Still); got != want {
			t.Fatalf("seed %d, request %d, %s %s of %s, %v, cost %d, at %v:\n got %+v\nwant %+v", l.Seed, i, req.Method,
				req.Target, req.Client, req.Header, req.Cost, now, got, want)
		}
		if !want.Allowed {
			denied++
		}
	}
	if denied < l.Requests/25 || denied > l.Requests-l.Requests/25 {
		t.Errorf("seed %d: %d of %d requests were denied: the test shows little", l.Seed, denied, l.Requests)
	}
}

// answerOf returns the parts of a verdict that are compared with want.
func answerOf(v *hottype.Verdict, want *Answer, still bool) Answer {
	got := Answer{Allowed: v.Allowed, Rule: v.Rule, Remaining: v.Remaining}
	switch {
	case !v.Allowed:
		got.Reason, got.Key, got.Remaining = v.Reason, v.Key, 0
	case want.Rule == "": // no limit applies
		got.Rule, got.Remaining = "", 0
	}
	if still {
		want.Retry = 0
	} else if want.Retry > 0 {
		got.Retry = v.RetryAfter
	}
	return got
}

// Answer holds the parts of a verdict that the oracle knows.
type Answer struct {
	Allowed   bool
	Reason    hottype.Reason // of a denial
	Rule      string
	Key       hottype.Key   // of a denial
	Remaining int64         // of an allowed request
	Retry     time.Duration // of a denial by fixed windows alone
}

func randomRequest(rnd *rand.Rand) *hottype.Request {
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	req := &hottype.Request{
		Method: pick("GET", "POST", "POST"), Host: "news.example", Header: http.Header{}, FromProxy: true,
		Target: pick("/login", "/login", "/topic?id=1", "/topic?id=2", "/other"),
		Client: hottype.ParseClient(pick("192.0.2.1", "192.0.2.1", "192.0.2.2", "2001:db8::1", "192.0.2.9")),
		Cost:   []int64{0, 1, 1, 1, 2, 5}[rnd.IntN(6)],
	}
	if class := pick("", "", "", "member", "robot"); class != "" {
		req.Header.(http.Header).Set("X-Class", class)
	}
	if rnd.IntN(12) == 0 {
		req.Method = http.MethodOptions
		req.Header.(http.Header).Set("Origin", "https://a.example")
		req.Header.(http.Header).Set("Access-Control-Request-Method", "POST")
	}
	return req
}

// oracle holds all requests that were allowed.
type oracle struct {
	unit    time.Duration
	allowed []taken
}

// taken is an allowed request under one of its windows.
type taken struct {
	window string
	at     time.Time
	cost   int64
}

// window is one limit of a request.
type window struct {
	id      string // of the limit and its subject
	reason  hottype.Reason
	rule    string
	key     hottype.Key
	limit   int64
	length  time.Duration
	sliding bool
}

// decide returns the answer of all limits, and of the limit of the key alone.
func (o *oracle) decide(now time.Time, req *hottype.Request) (answer, byKey Answer) {
	cost, list, onlyFixed := max(req.Cost, 1), o.windowsOf(req), true
	answer.Allowed, byKey.Allowed = true, true
	for _, w := range list {
		left := o.remaining(&w, now)
		if left >= cost {
			if answer.Allowed && (answer.Rule == "" || left-cost < answer.Remaining) {
				answer.Rule, answer.Remaining = w.rule, left-cost
			}
			continue
		}
		if w.reason == hottype.ReasonHot {
			byKey = Answer{Reason: w.reason, Rule: w.rule, Key: w.key}
			onlyFixed = false // it may be in another store, whose wait is not asked for then
		}
		if answer.Allowed {
			answer = Answer{Reason: w.reason, Rule: w.rule, Key: w.key}
		}
		if w.sliding || cost > w.limit {
			onlyFixed = false
		}
		answer.Retry = max(answer.Retry, windowStart(now, w.length).Add(w.length).Sub(now))
	}
	if !onlyFixed {
		answer.Retry = 0
	}
	if answer.Allowed {
		for _, w := range list {
			o.allowed = append(o.allowed, taken{w.id, now, cost})
		}
	}
	return answer, byKey
}

// remaining returns the cost that a window allows now.
func (o *oracle) remaining(w *window, now time.Time) int64 {
	start := windowStart(now, w.length)
	var used, before int64
	for _, t := range o.allowed {
		switch of := windowStart(t.at, w.length); {
		case t.window != w.id:
		case of.Equal(start):
			used += t.cost
		case w.sliding && of.Equal(start.Add(-w.length)):
			before += t.cost
		}
	}
	rest := int64(w.length - now.Sub(start))
	return w.limit - used - (before*rest+int64(w.length)-1)/int64(w.length)
}

// windowStart returns the begin of the window that contains a time: windows are aligned to the Unix epoch.
func windowStart(at time.Time, length time.Duration) time.Time {
	return time.Unix(0, at.UnixNano()-at.UnixNano()%int64(length))
}

// windowsOf returns the limits of a request in the order in which they deny.
func (o *oracle) windowsOf(req *hottype.Request) (list []window) {
	client, class := req.Client.String(), req.Header.Get("X-Class")
	if client == "192.0.2.9" {
		return nil
	}
	rule, key := "*", hottype.Key(req.Target)
	switch path, _, _ := strings.Cut(req.Target, "?"); {
	case path == "/topic":
		rule, key = "topic", hottype.Key(req.Target[1:])
	case path == "/login" && req.Method == http.MethodPost:
		rule, key = "login", "login"
	}
	apart := client
	if req.Method == http.MethodOptions {
		apart += " preflight"
	}
	add := func(w window, units int) {
		w.length = o.unit * time.Duration(units)
		w.id = fmt.Sprint(w.id, w.sliding)
		list = append(list, w)
	}
	first := hottype.Key("all")
	if class == "robot" {
		add(window{id: "ip robot " + apart, reason: hottype.ReasonIPFixed, rule: "ip_fixed", key: first, limit: 5}, 1)
	} else {
		add(window{id: "ip " + apart, reason: hottype.ReasonIPFixed, rule: "ip_fixed", key: first, limit: 8}, 1)
	}
	byRule := func(rule string, key hottype.Key, limit int64, units int, sliding bool) {
		w := window{id: rule + " " + apart, reason: hottype.ReasonClientFixed, rule: rule, key: key, limit: limit,
			sliding: sliding}
		if sliding {
			w.reason = hottype.ReasonClientSliding
		}
		add(w, units)
	}
	if class == "member" {
		apart = "member " + apart
		byRule("all", "all", 6, 2, true)
		if rule != "*" {
			byRule(rule, key, 6, 2, true)
		}
	} else {
		byRule("all", "all", 25, 5, true)
		switch rule {
		case "login":
			byRule(rule, key, 4, 1, false)
			byRule(rule, key, 9, 3, true)
		case "topic":
			byRule(rule, key, 3, 1, false)
		}
	}
	if key == HotKey {
		add(window{id: "key", reason: hottype.ReasonHot, rule: "topic", key: key, limit: 7}, 1)
	}
	return list
}
