// Package clientlaws tests a decider against the laws of windows of clients, of all requests and of a rule, by address
// and by client_key. An oracle counts the requests that were allowed, by the definitions of docs/limits.md alone: it
// keeps no state of a window, so that a request that is denied cannot have changed one. What goes in is a function that
// decides; what comes out are the errors of a test.
package clientlaws

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
)

// HotKey is the key that the decider must have as hot.
const HotKey hottype.Key = "topic?id=1"

// Rules returns the rules under which a decider is tested. options are further fields of every window, such as
// "scope: instance", and unit is the length of the shortest window.
func Rules(options string, unit time.Duration) string {
	return withWindows(options, unit, `
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

// RulesByField returns rules as Rules does, under which two fields name the clients of some windows.
func RulesByField(options string, unit time.Duration) string {
	return withWindows(options, unit, `
rules:
  - {name: all, match: {path: /}, continue: true, per_client: {sliding: W25x5 by header.X-Org}}
  - {name: login, match: {path: /login, methods: [POST]}, per_client: {fixed: W4x1, sliding: W9x3 by header.x-ACCOUNT}}
  - name: topic
    match: {path: /topic}
    params: [id]
    hot: {rate: 10}
    limit: {algorithm: fixed_window, limit: 7, window: UNITSCOPE}
    per_client: {fixed: W3x1 by header.X-Account}
  - {name: "*", params: [], hot: {rate: 1}}
ip: {fixed: W8x1, sliding: W20x4 by header.X-Account, exempt: [192.0.2.9]}
classes:
  - {name: member, match: {header: X-Class, pattern: member}, per_client: {sliding: W6x2 by header.X-Account}}
  - {name: robot, match: {header: X-Class, pattern: robot}, ip: {fixed: W5x1 by header.X-Org}}
`)
}

// withWindows replaces each window of rules, LIMITxUNITS and maybe the field by which it counts.
func withWindows(options string, unit time.Duration, yaml string) string {
	scope := ""
	if strings.Contains(options, "instance") {
		scope = ", scope: instance"
	}
	yaml = strings.NewReplacer("UNIT", unit.String(), "SCOPE", scope).Replace(yaml)
	return written.ReplaceAllStringFunc(yaml, func(text string) string {
		of := written.FindStringSubmatch(text)
		units, err := strconv.Atoi(of[2])
		if err != nil {
			panic(err)
		}
		fields := fmt.Sprintf("{limit: %s, window: %v, ", of[1], unit*time.Duration(units))
		if of[3] != "" {
			fields += "client_key: " + of[3] + ", "
		}
		return fields + options + "}"
	})
}

// written matches a window in the text of rules.
var written = regexp.MustCompile(`W(\d+)x(\d+)(?: by (header\.[\w-]+))?`)

// Law is a run of random requests, which are compared with the oracle.
type Law struct {
	Seed     uint64
	Requests int
	Unit     time.Duration // of the rules
	Start    time.Time
	// Fields is true if the rules are of RulesByField.
	Fields bool
	// Processes is the number of processes that decide by turns at random and share their windows by sums, which they
	// exchange after each request: a process knows the requests of others up to its own last request in the same
	// window. 0 is one process.
	Processes int
	// Cold is true if the decider has no hot key.
	Cold bool
	// Ahead returns by how much the clock of a subject is ahead, because another server keeps it. nil is one clock.
	Ahead func(*limit.Subject) time.Duration
}

// Run makes the requests and compares each verdict.
func (l Law) Run(t testing.TB, decide func(process int, now time.Time, req *hottype.Request) hottype.Verdict) {
	t.Helper()
	rnd, now := rand.New(rand.NewPCG(l.Seed, 1)), l.Start
	o, denied := &oracle{Law: l, asked: map[asked]int{}}, 0
	if o.Ahead == nil {
		o.Ahead = func(*limit.Subject) time.Duration { return 0 }
	}
	for i := range l.Requests {
		steps := []time.Duration{0, 0, 0, 0, 0, 0, 0, l.Unit / 50, l.Unit / 7, l.Unit, 2*l.Unit + l.Unit/3}
		now = now.Add(steps[rnd.IntN(len(steps))]).Truncate(time.Microsecond)
		req, process := l.randomRequest(rnd), rnd.IntN(max(l.Processes, 1))
		want := o.decide(process, now, req)
		v := decide(process, now, req)
		if got := answerOf(&v, &want); got != want {
			t.Fatalf("seed %d, request %d to process %d, %s %s of %s, %.200q from a proxy %v, cost %d, at %v:\n"+
				" got %+v\nwant %+v", l.Seed, i, process, req.Method, req.Target, req.Client, req.Header, req.FromProxy,
				req.Cost, now, got, want)
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
func answerOf(v *hottype.Verdict, want *Answer) Answer {
	got := Answer{Allowed: v.Allowed, Rule: v.Rule, Remaining: v.Remaining}
	switch {
	case !v.Allowed:
		got.Reason, got.Key, got.Remaining = v.Reason, v.Key, 0
	case want.Rule == "": // no limit applies
		got.Rule, got.Remaining = "", 0
	}
	if want.Retry > 0 {
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

func (l Law) randomRequest(rnd *rand.Rand) *hottype.Request {
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	header := http.Header{}
	req := &hottype.Request{
		Method: pick("GET", "POST", "POST"), Host: "news.example", Header: header, FromProxy: true,
		Target: pick("/login", "/login", "/topic?id=1", "/topic?id=2", "/other"),
		Client: hottype.ParseClient(pick("192.0.2.1", "192.0.2.1", "192.0.2.2", "2001:db8::1", "192.0.2.9")),
		Cost:   []int64{0, 1, 1, 1, 2, 5}[rnd.IntN(6)],
	}
	if class := pick("", "", "", "member", "robot"); class != "" {
		header.Set("X-Class", class)
	}
	if rnd.IntN(12) == 0 {
		req.Method = http.MethodOptions
		header.Set("Origin", "https://a.example")
		header.Set("Access-Control-Request-Method", "POST")
	}
	if l.Fields {
		if req.FromProxy = rnd.IntN(5) > 0; rnd.IntN(9) == 0 {
			req.Client = hottype.Client{}
		}
		for _, name := range []string{"X-Account", "X-Org"} {
			for range []int{0, 1, 1, 1, 1, 2}[rnd.IntN(6)] {
				header.Add(name, fieldValues[rnd.IntN(len(fieldValues))])
			}
		}
	}
	return req
}

// fieldValues are values of a field that names a client: often one of two, else empty ones, spellings of others, values
// like those of other clients, with characters that separate parts of names, and of any length.
var fieldValues = []string{"anna", "anna", "anna", "anna", "bert", "bert", "", " ", "Anna", " anna", "anna\t", "an na",
	"anna\x00", "anna\r\nX-Org: bert", "anna, bert", "192.0.2.1", "2001:db8::", "X-Account=anna", "login:member",
	"än:na", strings.Repeat("a", 128), strings.Repeat("a", 129), strings.Repeat("a", 600) + "b",
	strings.Repeat("a", 600) + "c"}
