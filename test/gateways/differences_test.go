package gateways

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hotparam/pipeline/test/internal/program"
)

// blocked is a request that no gateway may let pass while the limiter answers.
const blocked = "/topic?id=blocked"

// differences are the abilities that only some gateways have.
type differences struct {
	fields  bool     // refusals tell limit and key
	allowed bool     // answers to allowed requests state the limit
	refused []string // further spellings of the topic whose tokens are used up
	passed  []string // requests that its limit does not concern
}

// judge checks a gateway from both sides: the responses that a client gets, and the requests that reach the
// application.
func (d differences) judge(t *testing.T, g *gateway, a *app) {
	t.Helper()
	const odd = "/topic?id=9&x=a%2Fb+c&&y"
	if got := g.ask("PUT", odd, "X-Mine", "1"); got.status != 200 {
		t.Fatalf("cold: %+v", got)
	}
	r, before := a.last()
	if r.Method != "PUT" || r.Host != "news.example" || r.RequestURI != odd || r.Header.Get("X-Mine") != "1" {
		t.Errorf("the application saw %s %s %s", r.Method, r.Host, r.RequestURI)
	}
	got := g.get(blocked)
	if got.status != 429 || got.header.Get("Content-Type") != "application/problem+json" ||
		got.header.Get("Retry-After") != "" ||
		!strings.Contains(got.body, `"reason":"blocked"`) {
		t.Errorf("blocked: %+v", got)
	}
	if page := g.get(blocked, "Accept", "text/html,*/*;q=0.8"); d.fields && (page.status != 429 ||
		!strings.HasPrefix(page.header.Get("Content-Type"), "text/html") || !strings.Contains(page.body, "<html")) {
		t.Errorf("a browser: %+v", page)
	}
	for name := range got.header {
		if strings.HasPrefix(name, "X-Hotparam") {
			t.Errorf("a client gets %s", name)
		}
	}
	for i := range 5 {
		if got := g.get("/topic?id=viral"); got.status != 200 || d.allowed && got.header.Get("Ratelimit-Policy") == "" {
			t.Errorf("viral %d: %+v", i, got)
		}
	}
	got = g.get("/topic?id=viral")
	if got.status != 429 || got.header.Get("Content-Type") != "application/problem+json" ||
		got.header.Get("Retry-After") == "" {
		t.Errorf("viral: %+v", got)
	}
	if d.fields && (!strings.Contains(got.header.Get("Ratelimit"), "r=0") ||
		got.header.Get("Cache-Control") != "no-store" ||
		!strings.Contains(got.body, `"key":"topic?id=viral"`)) {
		t.Errorf("viral: %+v", got)
	}
	// Spellings and bytes that are not UTF-8 do not evade the limit, nor do headers.
	for _, target := range slices.Concat(d.refused,
		[]string{"/topic?id=viral&user=%FF", "/topic?user=%FF&id=viral", "/topic?id=%76iral",
			"/topic?id=viral&id=other"}) {
		if got := g.get(target, "X-Junk", "\xff\xfe", "X-Envoy-Original-Path", "/", "X-Original-URI", "/",
			"X-Forwarded-For", "198.51.100.7"); got.status == 200 {
			t.Errorf("%q passed", target)
		}
	}
	for _, target := range d.passed {
		if got := g.get(target); got.status != 200 {
			t.Errorf("%q: %+v", target, got)
		}
	}
	if _, after := a.last(); after != before+5+len(d.passed) {
		t.Errorf("%d requests reached the application, want %d", after-before, 5+len(d.passed))
	}
}

// forged are fields that a client may send to be taken for another client, or to have its request taken for another
// one.
var forged = map[string]string{
	"X-Forwarded-For": "198.51.100.7", "X-Real-IP": "198.51.100.7",
	"Forwarded":      "for=198.51.100.7;host=other;proto=https",
	"True-Client-IP": "198.51.100.7", "X-Client-IP": "198.51.100.7", "X-Envoy-External-Address": "198.51.100.7",
	"X-Original-URI": "/elsewhere", "X-Original-Method": "POST", "X-Forwarded-Uri": "/elsewhere",
	"X-Forwarded-Method": "POST",
	"X-Forwarded-Host":   "other.example", "X-Forwarded-Proto": "https", "X-Forwarded-Port": "1",
	"X-Forwarded-Prefix": "/other",
	"X-Original-URL":     "/elsewhere", "X-Rewrite-URL": "/elsewhere", "X-Envoy-Original-Path": "/elsewhere",
	"X-Original-Host":   "other",
	"X-Hotparam-Reason": "cold", "X-Hotparam-Rule": "none", "X-Request-ID": "1", "X-HTTP-Method-Override": "POST",
	"X-Envoy-Original-Method": "POST", "X-Accel-Redirect": "/elsewhere", "X-Envoy-Internal": "true", "Via": "1.1 other",
	"Authorization": "Bearer forged-token-of-a-client", "Expect": "nothing", "Upgrade": "h2c",
}

// notFooled checks that no field that a client may send, alone, twice or all together, in any spelling that gateways
// let pass, changes the key or client that is limited.
func notFooled(t *testing.T, g *gateway) {
	t.Helper()
	all := []string{"Connection", "close, " + strings.Join(slices.Collect(maps.Keys(forged)), ", ")}
	for name, value := range forged {
		all = append(all, name, value)
		for _, header := range [][]string{
			{name, value}, {name, value, name, value}, {strings.ToLower(name), value}, {name, ""},
			{strings.ReplaceAll(name, "-", "_"), value}, {name, value, "Connection", name},
		} {
			if got := g.get(blocked, header...); got.status == 200 {
				t.Errorf("%q passed", header)
			}
			if got := g.get("/topic?id=cold", header...); got.status == 429 {
				t.Errorf("%q: a cold topic was refused", header)
			}
		}
	}
	if got := g.get(blocked, all...); got.status == 200 {
		t.Errorf("%q passed", all)
	}
}

// knowsClients checks that a client has its own window, whatever fields it sends, and that the application gets the
// address of the client from the gateway. suspected sends requests until the gateway asks about the client, which a
// gateway that decides itself does once half of the window is used: its window is exact if that happens before the
// window is full, however slow the machine is.
func knowsClients(t *testing.T, g *gateway, a *app, suspected func(send func())) {
	t.Helper()
	if got := g.askFrom(shortClient, "GET", "/topic?id=cold"); got.status != 429 {
		t.Errorf("a blocked client: %+v", got)
	}
	six := *g
	six.addr = strings.Replace(g.addr, "127.0.0.1", "[::1]", 1)
	if got := six.askFrom("::1", "GET", "/topic?id=cold"); got.status != 200 {
		t.Errorf("a client with an IPv6 address: %+v", got)
	}
	const client = "127.0.0.77"
	if got := g.askFrom(client, "GET", "/topic"); got.status != 200 {
		t.Errorf("a new client: %+v", got)
	}
	r, _ := a.last()
	list := strings.Split(r.Header.Get("X-Forwarded-For"), ",")
	if last := strings.TrimSpace(list[len(list)-1]); last != client && last != "::ffff:"+client {
		t.Errorf("the application gets X-Forwarded-For: %q, want %s at its end", list, client)
	}
	passed := 1
	send := func(i int) {
		other := fmt.Sprintf("198.51.100.%d", i%250)
		got := g.askFrom(client, "GET", fmt.Sprintf("/topic?n=%d", i), "X-Forwarded-For", other, "X-Real-IP", other,
			"Forwarded", "for="+other, "True-Client-IP", other)
		switch got.status {
		case 200:
			passed++
		case 429:
		default:
			t.Errorf("request %d of a client: %+v", i, got)
		}
	}
	for i := range perClient + 20 {
		if i == perClient*3/5 {
			suspected(func() { send(i) })
		}
		send(i)
	}
	if passed != perClient {
		t.Errorf("%d requests of one client passed a window of %d", passed, perClient)
	}
	if got := g.askFrom("127.0.0.78", "GET", "/topic"); got.status != 200 {
		t.Errorf("another client: %+v", got)
	}
}

// failures are the ways in which a limiter fails, each with its repair.
func failures(t *testing.T, l *limiter) []failure {
	return []failure{
		{"slow", func() { l.takes(3 * time.Second) }, func() { l.takes(0) }},
		{"frozen", func() { l.Signal(syscall.SIGSTOP) }, func() { l.Signal(syscall.SIGCONT) }},
		{"stopped", func() { l.Stop(); l.cut() }, func() { l.listen(t); l.launch(t) }},
	}
}

type failure struct {
	name       string
	fail, heal func()
}

// fails checks the promise of a file for a limiter that does not answer: each request gets one of the statuses, soon. A
// limiter that is only slow still limits.
func fails(t *testing.T, g *gateway, l *limiter, status []int) {
	t.Helper()
	l.takes(20 * time.Millisecond)
	program.Await(t, time.Minute, "a verdict that takes 20 ms more",
		func() bool { return g.get(blocked).status == 429 })
	for _, f := range failures(t, l) {
		f.fail()
		program.Await(t, time.Minute, "a limiter that is "+f.name,
			func() bool { return slices.Contains(status, g.get(blocked).status) })
		fastest := time.Hour
		for range 5 {
			for _, target := range []string{blocked, "/topic?id=cold"} {
				got := g.get(target)
				if !slices.Contains(status, got.status) || got.took > 2*time.Second {
					t.Errorf("%s: %d after %v", f.name, got.status, got.took)
				}
				fastest = min(fastest, got.took)
			}
		}
		// The files wait 100 ms, once. The fastest of ten shows the file's wait and not the machine's load.
		if fastest > 250*time.Millisecond {
			t.Errorf("%s: a request takes %v at least", f.name, fastest)
		}
		f.heal()
		program.Await(t, time.Minute, "limits after it was "+f.name,
			func() bool { return g.get(blocked).status == 429 })
	}
}
