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
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/testing/clientlaws"
)

// Windows of clients by rule are exact and charged all or nothing with all other limits, by address and by client_key:
// in this process at once and as charges, in a shared store, and in a store that exchanges sums.
func TestPerClient_IsExact(t *testing.T) {
	t.Parallel()
	ways := map[string]struct {
		options string
		stores  func() gate.Config
	}{
		"at once": {"scope: instance", func() gate.Config {
			return gate.Config{Local: limit.NewMemory(limit.MemoryConfig{})}
		}},
		"as charges": {"scope: instance", func() gate.Config {
			return gate.Config{Local: hidden{limit.NewMemory(limit.MemoryConfig{})}}
		}},
		"shared": {"", func() gate.Config {
			return gate.Config{Shared: inMemory{Memory: limit.NewMemory(limit.MemoryConfig{})}}
		}},
		"by sums": {"consistency: async", func() gate.Config {
			return gate.Config{Shared: inMemory{Memory: limit.NewMemory(limit.MemoryConfig{})},
				Async: &exchanged{Memory: limit.NewMemory(limit.MemoryConfig{}), fresh: true}}
		}},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(40) {
				law := clientlaws.Law{Seed: seed, Requests: 300, Unit: time.Second, Start: start(), Fields: seed%2 > 0}
				yaml := clientlaws.Rules
				if law.Fields {
					yaml = clientlaws.RulesByField
				}
				cfg := way.stores()
				cfg.Rules, cfg.Budget = parse(t, yaml(way.options, law.Unit)), time.Hour
				cfg.Hot = hotReplica(clientlaws.HotKey)
				g := gate.New(cfg)
				law.Run(t, func(_ int, now time.Time, req *hottype.Request) hottype.Verdict {
					return g.Decide(context.Background(), now, req)
				})
				if n := g.Stats().Panics; n > 0 {
					t.Fatalf("%d decisions panicked", n)
				}
			}
		})
	}
}

// hotReplica returns a replica in which keys are hot for a day.
func hotReplica(keys ...hottype.Key) *hotset.Replica {
	hot, set := new(hotset.Replica), report.HotSet{Version: 1, At: start()}
	for _, key := range keys {
		set.Keys = append(set.Keys, hottype.HotKey{Key: key, Rule: key.Resource(), Until: start().Add(24 * time.Hour)})
	}
	hot.Replace("test", set)
	return hot
}

// post makes a request of a client with a method, a class and a target.
func (b *bundle) post(target, client, class string) hottype.Verdict {
	req := request(target, client)
	req.Method = http.MethodPost
	req.Header.(http.Header).Set("X-Class", class)
	return b.Decide(context.Background(), b.now, req)
}

const loginRules = `
rules:
  - {name: login, match: {path: /login, methods: [POST]}, per_client: {fixed: {limit: 10, window: 1m}}}
  - {name: "*", params: [], hot: {rate: 100}}
ip: {exempt: [192.0.2.9]}
classes: [{name: member, match: {header: X-Class, pattern: member}, per_client: {fixed: {limit: 20, window: 1m}}}]
overrides:
  - {client: 192.0.2.3, action: exempt}
  - {client: 192.0.2.4, action: block}
  - {client: 192.0.2.5, rate: 1000}
  - {client: 192.0.2.6, action: limit, rate: 1, burst: 2}
  - {client: 192.0.2.7, action: shadow}
`

// Ten logins a minute for each address, whatever else it asks for. Overrides of clients and exempt addresses precede
// the window; an override with a limit of its own leaves it in force, because it is of the rule.
func TestPerClient_TenLoginsAMinute(t *testing.T) {
	t.Parallel()
	b := build(t, loginRules, gate.Config{})
	for client, want := range map[string]int{"192.0.2.1": 10, "192.0.2.2": 10, "192.0.2.3": 60, "192.0.2.4": 0,
		"192.0.2.5": 10, "192.0.2.6": 2, "192.0.2.7": 60, "192.0.2.9": 60, "2001:db8::1": 10} {
		allowed := 0
		for range 60 {
			v := b.post("/login", client, "")
			if v.Allowed {
				allowed++
			} else if want == 10 && (v.Reason != hottype.ReasonClientFixed || v.Rule != "login" || v.Key != "login" ||
				v.Limit != 10 || v.Window != time.Minute || v.RetryAfter != time.Minute) {
				t.Errorf("%s: %+v", client, v)
			}
		}
		if allowed != want {
			t.Errorf("%s: %d of 60 logins passed, want %d", client, allowed, want)
		}
		if v := b.get("/login", client); v.Allowed != (want > 0 && client != "192.0.2.6") {
			t.Errorf("%s: the form: %+v", client, v)
		}
	}
	b.now = b.now.Add(time.Minute)
	if v := b.post("/login", "192.0.2.1", ""); !v.Allowed || v.Remaining != 9 || v.Rule != "login" {
		t.Errorf("in the next minute: %+v", v)
	}
}

// The windows of a class take the place of all windows of the rule, count apart from them, and a reset empties both.
func TestPerClient_OfAClass(t *testing.T) {
	t.Parallel()
	b := build(t, loginRules, gate.Config{})
	for i := range 60 { // of a rule without windows
		if v := b.post("/other", "192.0.2.1", "member"); !v.Allowed {
			t.Fatalf("request %d for another page: %+v", i, v)
		}
	}
	for range 2 {
		for _, of := range []struct {
			class string
			most  int
		}{{"", 10}, {"member", 20}, {"", 0}} {
			for i := range of.most + 1 {
				if v := b.post("/login", "192.0.2.1", of.class); v.Allowed != (i < of.most) {
					t.Errorf("class %q, login %d: %+v", of.class, i, v)
				}
			}
		}
		reset := report.Command{Action: report.CommandReset, Client: hottype.ParseClient("192.0.2.1")}
		for _, charge := range gate.CountedSubjects(b.Rules(), reset) {
			b.shared.Reset(&charge.Subject)
		}
		b.Reset(b.now, reset)
	}
}

// A window in mode shadow denies nothing, and counts what it would deny under the name of its rule.
func TestPerClient_InShadow(t *testing.T) {
	t.Parallel()
	b := build(t, strings.Replace(loginRules, "limit: 10, window: 1m", "limit: 10, window: 1m, mode: shadow", 1),
		gate.Config{})
	for i := range 15 {
		v := b.post("/login", "192.0.2.1", "")
		if !v.Allowed || v.WouldDeny != (i >= 10) || v.WouldDeny && v.WouldDenyReason != hottype.ReasonClientFixed {
			t.Errorf("login %d: %+v", i, v)
		}
	}
	if n := b.Stats().WouldDenyBy["login"]; n != 5 || b.Stats().WouldDenyIP != 5 {
		t.Errorf("%+v", b.Stats())
	}
}

// One client on 10,000 routes and 10,000 clients on one are counted in bounded memory, and no window is forgotten: by
// address, and by accounts of any length that visitors invent behind a trusted proxy. What has no room is counted.
func TestPerClient_OfManyRoutesAndManyClients(t *testing.T) {
	t.Parallel()
	const many = 10_000
	for name, by := range map[string]struct {
		field string
		of    func(client int) *hottype.Request
	}{
		"address": {"", func(client int) *hottype.Request {
			return request("/", fmt.Sprintf("10.0.%d.%d", client/250, client%250))
		}},
		"account": {", client_key: header.X-Account", func(client int) *hottype.Request {
			req := request("/", "192.0.2.1")
			req.FromProxy = true
			req.Header.(http.Header).Set("X-Account", strings.Repeat("x", client%300)+fmt.Sprint(client))
			return req
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var yaml strings.Builder
			yaml.WriteString("rules:\n")
			for i := range many {
				fmt.Fprintf(&yaml, "  - {name: r%d, match: {path: /r%[1]d}, per_client: {fixed: {limit: 1, window: 24h, "+
					"scope: instance%s}}}\n", i, by.field)
			}
			b := build(t, yaml.String(), gate.Config{})
			ask := func(g *gate.Gate, route, client int) hottype.Verdict {
				req := by.of(client)
				req.Target = fmt.Sprintf("/r%d", route)
				return g.Decide(context.Background(), b.now, req)
			}
			for round := range 2 {
				for i := range many {
					if v := ask(b.Gate, i, many); v.Allowed != (round == 0) {
						t.Fatalf("route %d in round %d: %+v", i, round, v)
					}
					if v := ask(b.Gate, 0, i); v.Allowed != (round == 0) {
						t.Fatalf("client %d in round %d: %+v", i, round, v)
					}
				}
			}
			if n := b.local.Stats().Subjects; n != 2*many || b.Stats().Evicted != 0 {
				t.Errorf("%d subjects, %d evicted", n, b.Stats().Evicted)
			}
			for who, at := range map[string]func(i int) (route, client int){
				"one client":   func(i int) (int, int) { return i, many },
				"many clients": func(i int) (int, int) { return 0, i },
			} {
				small := limit.NewMemory(limit.MemoryConfig{MaxSubjects: 100})
				g := gate.New(gate.Config{Rules: b.Rules(), Local: small})
				for i := range many {
					route, client := at(i)
					ask(g, route, client)
				}
				if n := g.Stats().Evicted; small.Stats().Subjects > 100 || n != many-100 {
					t.Errorf("%s: %d subjects, and %d evicted ones are counted", who, small.Stats().Subjects, n)
				}
			}
		})
	}
}

// A denied request is refunded by each store, also if the last store denies.
func TestPerClient_RefundsWhatAnotherStoreDenies(t *testing.T) {
	t.Parallel()
	b := build(t, `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 10}, limit: {algorithm: fixed_window, limit: 2, window: 1h},
     per_client: {fixed: {limit: 5, window: 1h, scope: instance}, sliding: {limit: 5, window: 1h, consistency: async}}}
`, gate.Config{Async: &exchanged{Memory: limit.NewMemory(limit.MemoryConfig{}), fresh: true}})
	b.hot("topic?id=1")
	for i := range 20 {
		if v := b.get("/topic?id=1", "192.0.2.1"); v.Allowed != (i < 2) || !v.Allowed && v.Reason != hottype.ReasonHot {
			t.Errorf("request %d for the hot key: %+v", i, v)
		}
	}
	for i := range 4 { // 2 of 5 are used
		if v := b.get("/topic?id=2", "192.0.2.1"); v.Allowed != (i < 3) {
			t.Errorf("request %d for a cold key: %+v", i, v)
		}
	}
}

// Each part of a request that a gateway asks about is charged to the windows of its own rule, and the windows of all
// requests are charged once.
func TestPerClient_OfPartsOfARequest(t *testing.T) {
	t.Parallel()
	b := build(t, "rules:\n  - {name: a, match: {path: /a}, per_client: {fixed: {limit: 2, window: 1h}}}\n"+
		"  - {name: b, match: {path: /b}, per_client: {fixed: {limit: 2, window: 1h}}}\n"+
		"ip: {fixed: {limit: 3, window: 1h}}\n", gate.Config{})
	for i := range 3 {
		first := b.DecideForGateway(context.Background(), b.now, request("/a", "192.0.2.1"))
		second := b.DecideKeysForGateway(context.Background(), b.now, request("/b", "192.0.2.1"))
		if first.Allowed != (i < 2) || second.Allowed != (i < 2) {
			t.Errorf("request %d: %+v, %+v", i, first, second)
		}
	}
	if v := b.get("/other", "192.0.2.1"); !v.Allowed || v.Remaining != 0 {
		t.Errorf("the windows of all requests: %+v", v)
	}
}

// A request that servers may read as more rules with per_client than are charged is denied, so that no window is left
// out.
func TestPerClient_DeniesRequestsOfTooManyRules(t *testing.T) {
	t.Parallel()
	var yaml strings.Builder
	yaml.WriteString("rules:\n")
	for i := range rules.MaxClientRules + 1 {
		fmt.Fprintf(&yaml, "  - {name: r%d, match: {path: /login, hosts: [h%[1]d]}, per_client: {fixed: {limit: 3, "+
			"window: 1h}}}\n", i)
	}
	b := build(t, yaml.String(), gate.Config{})
	req := request("/login", "192.0.2.1")
	for host, want := range map[string]bool{"h0": true, "h8": true, "h0, h8": false} {
		req.Host = host
		v := b.Decide(context.Background(), b.now, req)
		if v.Allowed != want || !want && (v.Reason != hottype.ReasonMalformed || v.Rule != gate.RuleTooMany) {
			t.Errorf("host %q: %+v", host, v)
		}
	}
}

// A request with several keys under a rule, and a malformed one, is one request for the windows of the rule.
func TestPerClient_ChargesARuleOnce(t *testing.T) {
	t.Parallel()
	b := build(t, "rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 9}, "+
		"per_client: {fixed: {limit: 3, window: 1h}}}]", gate.Config{})
	for i, target := range []string{"/topic?id=1&id=2", "/topic?id=1", "/topic?" + malformed()[0], "/topic"} {
		if v := b.get(target, "192.0.2.1"); v.Allowed != (i < 3) {
			t.Errorf("%s: %+v", target, v)
		}
	}
}

// The windows of as many rules as a request may match and the limits of its keys are fewer charges than a store takes.
func TestPerClient_LeavesRoomForItsWindows(t *testing.T) {
	t.Parallel()
	var yaml strings.Builder
	yaml.WriteString("ip: {fixed: {limit: 9, window: 1h, scope: instance}, sliding: {limit: 9, window: 1h, scope: instance}}\n" +
		"rules:\n")
	var keys []hottype.Key
	for i := range 60 {
		windows := ""
		if i < rules.MaxClientRules-1 || i == 59 {
			windows = ", per_client: {fixed: {limit: 9, window: 1h, scope: instance}, sliding: {limit: 9, window: 1h, " +
				"scope: instance}}"
		}
		fmt.Fprintf(&yaml, "  - {name: r%d, match: {path: /r}, params: [], continue: %v, hot: {rate: 9}, "+
			"limit: {rate: 1/h, burst: 9, scope: instance}%s}\n", i, i < 59, windows)
		keys = append(keys, hottype.Key(fmt.Sprint("r", i)))
	}
	b := build(t, yaml.String(), gate.Config{})
	b.hot(keys...)
	for i := range 12 {
		if v := b.get("/r", "192.0.2.1"); v.Allowed != (i < 9) {
			t.Errorf("request %d: %+v", i, v)
		}
	}
	if st := b.Stats(); st.LocalErrors > 0 {
		t.Errorf("%+v", st)
	}
}
