package gate_test

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/deciding/visitorpass"
)

const passRules = `
rules:
  - {name: page, match: {path: "/p/{x}"}, params: [], hot: {rate: 1}, limit: {rate: 1, burst: 12, priority: [staff, regular, visitor]}}
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1}, limit: {rate: 1, burst: 1}}
  - {name: granted, match: {path: /granted}, params: [], hot: {rate: 1}, limit: {rate: 1, burst: 4, priority: [staff]}}
classes:
  - {name: bot, match: {header: User-Agent, pattern: bot}}
  - {name: staff, granted: true}
  - {name: regular, pass_age: 1h}
  - {name: visitor, pass_age: 10s}
ip: {fixed: {limit: 100, window: 1s}}
`

// passes returns passes with a secret for the day of the tests and the day after.
func passes() *visitorpass.Passes {
	p := visitorpass.New("test")
	p.SetSecret(visitorpass.Day(start()), visitorpass.Secret{1})
	p.SetSecret(visitorpass.Day(start())+1, visitorpass.Secret{2})
	return p
}

// askWith asks for a target with cookies.
func (b *bundle) askWith(target, client, cookies string) hottype.Verdict {
	req := request(target, client)
	req.Header = http.Header{"Cookie": {cookies}}
	return b.Decide(context.Background(), b.now, req)
}

// deniedPass returns the pass of the first denial.
func (b *bundle) deniedPass(t *testing.T, client string) string {
	t.Helper()
	for range 20 {
		if v := b.askWith("/p/1", client, ""); !v.Allowed {
			return v.Pass.String()
		} else if v.Pass != nil {
			t.Fatalf("a pass for an allowed request: %+v", v)
		}
	}
	t.Fatal("no request was denied")
	return ""
}

func TestPass_ComesWithTheDenialOfAPriority(t *testing.T) {
	t.Parallel()
	b := build(t, passRules, gate.Config{Passes: passes()})
	b.hot("page", "topic?id=1", "granted")
	pass := b.deniedPass(t, "192.0.2.1")
	if pass == "" {
		t.Fatal("no pass")
	}
	for range 3 {
		b.askWith("/topic?id=1", "192.0.2.1", "")
		b.askWith("/granted", "192.0.2.1", "")
	}
	for target, with := range map[string]string{"/p/1": "a=b; " + pass, "/topic?id=1": "", "/granted": ""} {
		if v := b.askWith(target, "192.0.2.1", with); v.Allowed || v.Pass != nil {
			t.Errorf("%s with %q: %+v", target, with, v)
		}
	}
	// The client is asked to come back when the pass counts.
	if v := b.askWith("/p/1", "192.0.2.1", ""); v.RetryAfter != 11*time.Second || v.Pass.String() != pass {
		t.Errorf("without a pass: %+v", v)
	}
	b.now = b.now.Add(4 * time.Second)
	for range 9 {
		b.askWith("/p/1", "192.0.2.1", "")
	}
	if v := b.askWith("/p/1", "192.0.2.1", pass); v.Allowed || v.RetryAfter != 7*time.Second || v.Pass != nil {
		t.Errorf("with a pass that does not count yet: %+v", v)
	}
	// A window of the client denies for another reason.
	b.now = b.now.Add(time.Minute)
	for range 100 {
		b.askWith("/cold", "198.51.100.1", "")
	}
	if v := b.askWith("/p/1", "198.51.100.1", ""); v.Reason != hottype.ReasonIPFixed || v.Pass != nil {
		t.Errorf("a denial by a window: %+v", v)
	}
}

func TestPass_CountsByAgeAndNetwork(t *testing.T) {
	t.Parallel()
	b := build(t, passRules, gate.Config{Passes: passes()})
	b.hot("page")
	pass := b.deniedPass(t, "192.0.2.1")
	for _, c := range []struct {
		after               time.Duration
		client, pass, class string
	}{
		{9 * time.Second, "192.0.2.1", pass, ""},
		{10 * time.Second, "192.0.2.1", pass, "visitor"},
		{10 * time.Second, "192.0.2.1", "__Host-" + pass, "visitor"},
		{10 * time.Second, "192.0.2.99", pass, "visitor"},
		{10 * time.Second, "192.0.3.1", pass, ""},
		{10 * time.Second, "192.0.2.1", strings.ToUpper(pass), ""},
		{59 * time.Minute, "192.0.2.1", pass, "visitor"},
		{time.Hour, "192.0.2.1", pass, "regular"},
		{25 * time.Hour, "192.0.2.1", pass, ""},
	} {
		b.now = start().Add(c.after)
		b.hot("page")
		v := b.askWith("/p/1", c.client, c.pass)
		limit := map[string]int64{"": 6, "visitor": 8, "regular": 10}[c.class]
		if v.Class != c.class || v.Limit != limit {
			t.Errorf("%v after, %s with %q: %+v", c.after, c.client, c.pass, v)
		}
	}
}

func TestPriority_KnowsGrants(t *testing.T) {
	t.Parallel()
	p := passes()
	b := build(t, passRules, gate.Config{Passes: p})
	b.hot("page", "granted")
	for _, c := range []struct{ grant, agent, class string }{
		{"staff", "", "staff"}, {"regular", "", ""}, {"other", "", ""}, {"staff", "bot", "bot"},
	} {
		req := request("/p/1", "203.0.113.1")
		req.Header = http.Header{"Cookie": {"x=y", p.Grant(b.now, c.grant)}, "User-Agent": {c.agent}}
		v := b.Decide(context.Background(), b.now, req)
		if want := map[bool]int64{true: 12, false: 6}[c.grant == "staff"]; v.Class != c.class || v.Limit != want {
			t.Errorf("%+v: %+v", c, v)
		}
	}
}

// A limiter without a secret issues no pass, and its denials do not wait for a pass.
func TestPass_NeedsASecret(t *testing.T) {
	t.Parallel()
	for _, p := range []*visitorpass.Passes{nil, visitorpass.New("test")} {
		b := build(t, passRules, gate.Config{Passes: p})
		b.hot("page")
		if pass := b.deniedPass(t, "192.0.2.1"); pass != "" {
			t.Errorf("pass %q", pass)
		}
		if v := b.askWith("/p/1", "192.0.2.1", ""); v.RetryAfter > time.Second {
			t.Errorf("%+v", v)
		}
	}
	b := build(t, passRules, gate.Config{Passes: passes()})
	b.hot("page")
	req := &hottype.Request{Method: "GET", Target: "/p/1"}
	for range 20 {
		if v := b.Decide(context.Background(), b.now, req); v.Pass != nil {
			t.Errorf("a pass for a client without an address: %+v", v)
		}
	}
	req.Client = hottype.Client{Addr: netip.MustParseAddr("192.0.2.1")}
	if v := b.Decide(context.Background(), b.now, req); v.Pass == nil {
		t.Errorf("no pass for a client whose fields are unknown: %+v", v)
	}
}

// BenchmarkPriority shows the price of a limit with priority: the first row is a limit without it.
func BenchmarkPriority(b *testing.B) {
	p := passes()
	pass := p.Issue(start().Add(-time.Minute), netip.MustParseAddr("203.0.113.9"))
	for _, row := range []struct{ name, target, cookies string }{
		{"without", "/topic?id=1", ""}, {"no cookie", "/p/1", ""},
		{"other cookies", "/p/1", "session=abcdefghijklmnopqrstuvwxyz; theme=dark"},
		{"pass", "/p/1", pass}, {"cold with pass", "/topic?id=2", pass},
	} {
		b.Run(row.name, func(b *testing.B) {
			g := assemble(parse(b, passRules), gate.Config{Passes: p})
			g.hot("page", "topic?id=1")
			req := request(row.target, "203.0.113.9")
			req.Header = http.Header{"Cookie": {row.cookies}}
			b.ReportAllocs()
			for b.Loop() {
				g.Decide(context.Background(), g.now, req)
			}
		})
	}
}
