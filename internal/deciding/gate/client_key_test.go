package gate_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

const accountRules = `
rules:
  - name: login
    match: {path: /login}
    per_client:
      fixed: {limit: 10, window: 1m, OPTIONS}
      sliding: {limit: 25, window: 1h, client_key: header.x-account, OPTIONS}
ip: {exempt: [192.0.2.9]}
overrides: [{client: 192.0.2.8, action: exempt}]
`

// login makes a request whose field X-Account has some lines, from a trusted peer or not.
func (b *bundle) login(client string, fromProxy bool, accounts ...string) hottype.Verdict {
	req := request("/login", client)
	req.FromProxy = fromProxy
	req.Header = http.Header{"X-Account": accounts}
	return b.Decide(context.Background(), b.now, req)
}

// Ten logins a minute by address and 25 an hour by account, in each store. A field of an untrusted peer, in several
// lines or empty is not the client, and a request that one window denies costs the other nothing.
func TestClientKey_CountsByATrustedField(t *testing.T) {
	t.Parallel()
	for _, options := range []string{"scope: instance", "scope: cluster", "consistency: async"} {
		build := func() *bundle {
			return build(t, strings.ReplaceAll(accountRules, "OPTIONS", options),
				gate.Config{Async: &exchanged{Memory: limit.NewMemory(limit.MemoryConfig{}), fresh: true}})
		}
		count := func(n int, ask func(i int) hottype.Verdict) (allowed int, last hottype.Verdict) {
			for i := range n {
				if last = ask(i); last.Allowed {
					allowed++
				}
			}
			return allowed, last
		}
		many := func(i int) string { return fmt.Sprint("198.51.100.", i) }
		b := build()
		n, last := count(40, func(i int) hottype.Verdict { return b.login(many(i), true, "anna") })
		if n != 25 || last.Reason != hottype.ReasonClientSliding || last.Rule != "login" {
			t.Errorf("%s: one account at many addresses: %d, %+v", options, n, last)
		}
		if !b.login("192.0.2.3", false).Allowed || b.login("192.0.2.3", true, "anna").Allowed {
			t.Errorf("%s: an account without logins left passes at an address with some", options)
		}
		ask := func(i int) hottype.Verdict { return b.login("192.0.2.1", true, fmt.Sprint("user", i)) }
		if n, _ := count(40, ask); n != 10 {
			t.Errorf("%s: many accounts at one address: %d", options, n)
		}
		if n, _ := count(25, func(i int) hottype.Verdict { return b.login(many(i), true, "user39") }); n != 25 {
			t.Errorf("%s: an account whose request its address denied: %d", options, n)
		}
		for name, ask := range map[string]func(b *bundle, i int) hottype.Verdict{
			"an untrusted peer": func(b *bundle, i int) hottype.Verdict {
				b.now = b.now.Add(time.Minute)
				return b.login("192.0.2.2", false, fmt.Sprint("user", i))
			},
			"several lines": func(b *bundle, i int) hottype.Verdict {
				b.now = b.now.Add(time.Minute)
				return b.login("192.0.2.2", true, fmt.Sprint("user", i), "anna")
			},
			"an empty field": func(b *bundle, i int) hottype.Verdict {
				b.now = b.now.Add(time.Minute)
				return b.login("192.0.2.2", true, "")
			},
		} {
			b := build()
			if n, _ := count(40, func(i int) hottype.Verdict { return ask(b, i) }); n != 25 {
				t.Errorf("%s: %s: %d passed, want the window of the address", options, name, n)
			}
		}
		for _, exempt := range []string{"192.0.2.8", "192.0.2.9"} {
			if n, _ := count(60, func(int) hottype.Verdict { return b.login(exempt, true, "anna") }); n != 60 {
				t.Errorf("%s: %s is exempt: %d", options, exempt, n)
			}
		}
		if v := b.login("", true, "anna"); v.Allowed {
			t.Errorf("%s: an account at an unknown address: %+v", options, v)
		}
		b.Reset(b.now, report.Command{Client: hottype.Client{Name: "X-Account=anna"}})
		if options != "scope: cluster" && !b.login("198.51.100.77", true, "anna").Allowed {
			t.Errorf("%s: an account after its reset is denied", options)
		}
	}
}

// A field of any length names one client in bounded memory, apart from clients by an opaque name, and is redacted as a
// parameter is.
func TestClientKey_IsBoundedAndRedacted(t *testing.T) {
	t.Parallel()
	of := func(yaml string, secret []byte) func(value string) string {
		set, err := rules.ParseWith("test.yaml", []byte(yaml), rules.Options{Secret: secret})
		if err != nil {
			t.Fatal(err)
		}
		return func(value string) string {
			req := &hottype.Request{FromProxy: true, Header: http.Header{"X-Account": {value}}}
			return set.Rules[0].PerClient.Sliding.Field.ClientOf(req, hottype.ParseClient("192.0.2.1")).String()
		}
	}
	yaml := strings.ReplaceAll(accountRules, "OPTIONS", "scope: cluster")
	plain := of(yaml, nil)
	if got := plain("anna"); got != "X-Account=anna" {
		t.Errorf("%q", got)
	}
	long := strings.Repeat("a", 60_000)
	if a, b := plain(long), plain(long+"b"); a == b || len(a) > 150 || len(plain(strings.Repeat("a", 128))) > 150 {
		t.Errorf("%q, %q", a, b)
	}
	hashed := of("redact: {x-account: hash}\n"+yaml, []byte("secret"))
	if a, b := hashed("anna"), hashed("bert"); a == b || strings.Contains(a, "anna") || a != hashed("anna") ||
		!strings.HasPrefix(a, "X-Account=hash-") {
		t.Errorf("%q, %q", a, b)
	}
	if got := of("redact: {header.X-Account: hash}\n"+yaml, nil)("anna"); got != "192.0.2.1" {
		t.Errorf("without a secret: %q", got)
	}
}
