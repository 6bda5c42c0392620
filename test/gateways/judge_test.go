package gateways

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hotparam/pipeline/test/internal/program"
)

// blocked is a request that no gateway may let pass while the limiter answers.
const blocked = "/topic?id=blocked"

// differences are what one gateway can and another cannot.
type differences struct {
	fields  bool     // answers tell limit and key
	refused []string // further spellings of the topic whose limit is used up
	passed  []string // requests that its limit does not concern
}

// judge looks at a gateway from both sides: what a client gets, and what reaches the application.
func (d differences) judge(t *testing.T, g *gateway, a *app, l *limiter) {
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
	if got.status != 429 || got.header.Get("Content-Type") != "application/problem+json" || got.header.Get("Retry-After") != "" ||
		!strings.Contains(got.body, `"reason":"blocked"`) {
		t.Errorf("blocked: %+v", got)
	}
	for i := range 5 {
		if got := g.get("/topic?id=viral"); got.status != 200 || d.fields && got.header.Get("Ratelimit-Policy") == "" {
			t.Errorf("viral %d: %+v", i, got)
		}
	}
	got = g.get("/topic?id=viral")
	if got.status != 429 || got.header.Get("Content-Type") != "application/problem+json" || got.header.Get("Retry-After") == "" {
		t.Errorf("viral: %+v", got)
	}
	if d.fields && (!strings.Contains(got.header.Get("Ratelimit"), "r=0") || got.header.Get("Cache-Control") != "no-store" ||
		!strings.Contains(got.body, `"key":"topic?id=viral"`)) {
		t.Errorf("viral: %+v", got)
	}
	// Spellings and bytes that are no UTF-8 do not get round it, nor do headers.
	for _, target := range append(d.refused, "/topic?id=viral&user=%FF", "/topic?user=%FF&id=viral", "/topic?id=%76iral",
		"/topic?id=viral&id=other") {
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
	failsOpen(t, g, l)
}

// failsOpen holds what the files promise: without a limiter, requests pass, soon.
func failsOpen(t *testing.T, g *gateway, l *limiter) {
	t.Helper()
	for _, failure := range []struct {
		name       string
		fail, heal func()
	}{
		{"frozen", func() { l.Signal(syscall.SIGSTOP) }, func() { l.Signal(syscall.SIGCONT) }},
		{"stopped", func() { l.Stop() }, func() { l.launch(t) }},
	} {
		failure.fail()
		program.Await(t, 5*time.Second, "a limiter that is "+failure.name, func() bool { return g.get(blocked).status == 200 })
		for range 3 {
			if got := g.get(blocked); got.status != 200 || got.took > 2*time.Second {
				t.Errorf("%s: %d after %v", failure.name, got.status, got.took)
			}
		}
		failure.heal()
		program.Await(t, 20*time.Second, "limits after it was "+failure.name, func() bool { return g.get(blocked).status == 429 })
	}
}
