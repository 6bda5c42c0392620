package adaptertest

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/hotparam/pipeline/hotparam"
)

const proofRules = `
parse_as: %s
rules:
  - name: topic
    match: {path: %q}
    params: []
    hot: {rate: 1, window: 1s}
    limit: {rate: 0.001, burst: 12, priority: [staff, member, visitor]}
classes:
  - {name: member, match: {header: X-User, pattern: .}}
  - {name: staff, granted: true}
  - {name: visitor, pass_age: 1s}
ip: {trusted_proxies: [%q]}
`

const namedRules = `
parse_as: %s
rules: [{name: login, match: {path: %q}, per_client: {sliding: {limit: 2, window: 24h, client_key: header.X-Account}}}]
ip: {trusted_proxies: [%q]}
`

// AskWith requests the topic from a server, with fields. It returns the HTTP status that the response has or means.
type AskWith func(t *testing.T, fields map[string]string) (status int)

// Trust checks that a class by a field has priority, and that client_key names a client, if a trusted proxy has sent
// the request, and not by the word of a client. path is that of the rules. serve returns the function that asks its
// server, over TCP.
func Trust(t *testing.T, framework, path string, serve func(t *testing.T, p *hotparam.Pipeline) AskWith) {
	t.Helper()
	for proxy, want := range map[string]int{"127.0.0.1": http.StatusOK, "192.0.2.1": http.StatusTooManyRequests} {
		t.Run("Trust in "+proxy, func(t *testing.T) {
			ask := serve(t, Pipeline(t, fmt.Appendf(nil, proofRules, framework, path, proxy)))
			o := &outcomes{t: t}
			o.until("the limit denies", func() bool { return ask(t, nil) == http.StatusTooManyRequests })
			if got := ask(t, map[string]string{"X-User": "anna", "Forwarded": "for=192.0.2.1"}); got != want {
				t.Errorf("a member by a field: %d, want %d", got, want)
			}
		})
		t.Run("Names by "+proxy, func(t *testing.T) {
			named(t, proxy == "127.0.0.1", serve(t, Pipeline(t, fmt.Appendf(nil, namedRules, framework, path, proxy))))
		})
	}
}

// named checks whom a window counts that allows two requests of each account. Spellings that HTTP does not take for the
// name of the field name nobody.
func named(t *testing.T, trusted bool, ask AskWith) {
	t.Helper()
	left := map[string]int{}
	for _, c := range []struct{ field, account string }{
		{"X-Account", "anna"}, {"x-account", "anna"}, {"X-ACCOUNT", "anna"}, {"X-Account", "bert"},
		{"x-account", "carl"}, {"X_Account", "dora"}, {"X-Account-", "emil"}, {"XAccount", "fred"}, {"", ""},
		{"X-Account", "bert"}, {"X-Account", "bert"},
	} {
		who, fields := "the address", map[string]string{}
		if c.field != "" {
			fields[c.field] = c.account
		}
		if trusted && strings.EqualFold(c.field, "X-Account") {
			who = c.account
		}
		want := http.StatusOK
		if left[who]++; left[who] > 2 {
			want = http.StatusTooManyRequests
		}
		if got := ask(t, fields); got != want {
			t.Errorf("request %d of %s, with %v: %d, want %d", left[who], who, fields, got, want)
		}
	}
}

// Exchange is a request that a handler has, and its response.
type Exchange struct {
	Get func(name string) string // returns a field of the request
	Set func(name, value string) // sets a field of the response
}

// proofs is the handler of a site, and the parts of the last request that it saw.
type proofs struct {
	mu            sync.Mutex
	grant         string
	cookie, class string
}

// seen returns the fields of the last request: its cookies and the field of a grant.
func (h *proofs) seen() (cookie, class string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cookie, h.class
}

func (h *proofs) answer(x Exchange) (text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cookie, h.class = x.Get("Cookie"), x.Get("X-Hotparam-Class")
	x.Set("X-Hotparam-Class", h.grant)
	x.Set("Cdn-Cache-Control", "max-age=60")
	return "topic"
}

// Proofs checks what an adapter does with passes and grants: a denial hands out a pass, the handlers see neither, and a
// response grants a class by a cookie in place of the field. It includes Trust. serve starts a server with the adapter,
// which answers /topic with the result of answer.
func Proofs(t *testing.T, framework string,
	serve func(t *testing.T, p *hotparam.Pipeline, answer func(Exchange) (text string)) (addr string)) {
	t.Helper()
	Trust(t, framework, "/topic", func(t *testing.T, p *hotparam.Pipeline) AskWith {
		addr := serve(t, p, new(proofs).answer)
		return func(t *testing.T, fields map[string]string) int { return get(t, addr, "/topic", fields).status }
	})
	h := &proofs{grant: "staff"}
	addr := serve(t, Pipeline(t, fmt.Appendf(nil, proofRules, framework, "/topic", "192.0.2.1")), h.answer)
	ask := func(fields map[string]string) answer {
		a := get(t, addr, "/topic", fields)
		if a.header["X-Hotparam-Class"] != nil {
			t.Fatalf("a client gets the field: %v", a.header)
		}
		return a
	}
	var granted, denied answer
	o := &outcomes{t: t}
	o.until("a class is granted", func() bool {
		granted = ask(nil)
		return granted.status == http.StatusOK && cookie(granted) != ""
	})
	if granted.header.Get("Cache-Control") != "private, no-store" || granted.header["Cdn-Cache-Control"] != nil {
		t.Errorf("a cache may store %v", granted.header)
	}
	h.mu.Lock()
	h.grant = "root"
	h.mu.Unlock()
	if a := ask(nil); a.status == 200 && (cookie(a) != "" || a.header["Cdn-Cache-Control"] == nil) {
		t.Errorf("an unknown class: %v", a.header)
	}
	o.until("the limit denies", func() bool { denied = ask(nil); return denied.status == http.StatusTooManyRequests })
	pass := cookie(denied)
	if pass == "" || denied.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("a denial without a pass: %v", denied.header)
	}
	o.until("the pass counts", func() bool { return ask(map[string]string{"Cookie": "a=b; " + pass}).status == 200 })
	if cookies, _ := h.seen(); cookies != "a=b" {
		t.Errorf("the handler sees the cookies %q", cookies)
	}
	a := ask(map[string]string{"Cookie": cookie(granted), "X-Hotparam-Class": "staff"})
	if cookies, class := h.seen(); a.status != 200 || cookies+class != "" {
		t.Errorf("with the granted class: %+v; the handler sees %q and %q", a, cookies, class)
	}
}

// cookie returns the cookie of a pass that a response sets, "NAME=VALUE", or "".
func cookie(a answer) string {
	for _, line := range a.header["Set-Cookie"] {
		if pair, _, _ := strings.Cut(line, ";"); strings.HasPrefix(pair, "hotparam_") {
			return pair
		}
	}
	return ""
}
