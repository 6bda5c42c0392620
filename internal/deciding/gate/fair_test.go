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
	"github.com/hotparam/pipeline/internal/rules"
)

const fairRules = `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1}, limit: {rate: 100, burst: 100, fair: true%s}}
`

// readers request the topic twice a second each, beside a client with 500 requests, in turn at all gates, for 45
// seconds. It returns the part of their requests that passed in the last 40 seconds, and the number of all requests
// that passed.
func readers(gates []*bundle) (light float64, admitted int) {
	asked, got := 0, 0
	for i := range 45_000 {
		if i == 5000 {
			asked, got, admitted = 0, 0, 0
		}
		at := start().Add(time.Duration(i) * time.Millisecond)
		for _, g := range gates {
			g.now = at
		}
		if i%2 == 0 && gates[i/2%len(gates)].get("/topic?id=42", "203.0.113.9").Allowed {
			admitted++
		}
		if i%10 != 5 {
			continue
		}
		if asked++; gates[asked%len(gates)].get("/topic?id=42", fmt.Sprintf("10.0.%d.1", i/10%50)).Allowed {
			got, admitted = got+1, admitted+1
		}
	}
	return float64(got) / float64(asked), admitted
}

func fairGates(t *testing.T, n int, options string, shared gate.SharedStore) []*bundle {
	t.Helper()
	gates := make([]*bundle, n)
	for i := range gates {
		gates[i] = build(t, fmt.Sprintf(fairRules, options), gate.Config{
			Shared: shared, Budget: time.Hour, Limiters: func() int { return n },
		})
		gates[i].hot("topic?id=42")
	}
	return gates
}

// Two limiters that share a bucket serve light clients although one client floods; with the bucket alone their part
// depends on the order of arrival.
func TestFairGates(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		n       int
		options string
	}{"shared": {2, ""}, "one process": {1, ", scope: instance"}, "gcra": {2, ", algorithm: gcra"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := inMemory{Memory: limit.NewMemory(limit.MemoryConfig{})}
			light, admitted := readers(fairGates(t, c.n, c.options, store))
			t.Logf("light clients: %.3f, admitted: %d", light, admitted)
			if light < 0.95 || admitted < 3950 || admitted > 4030 {
				t.Errorf("%.3f of what light clients ask for, %d admitted", light, admitted)
			}
		})
	}
}

// While the store is away, each limiter shares out its part of the limit.
func TestFair_WithoutTheStore(t *testing.T) {
	t.Parallel()
	light, admitted := readers(fairGates(t, 2, "", newUnreliable(failing)))
	if light < 0.9 || admitted < 3900 || admitted > 4030 {
		t.Errorf("%.3f of what light clients ask for, %d admitted", light, admitted)
	}
}

// flood lets a client ask at one instant until it is denied for being over its share.
func (b *bundle) flood(t *testing.T, client string) hottype.Verdict {
	t.Helper()
	for range 300 {
		b.now = b.now.Add(time.Millisecond)
		if v := b.get("/topic?id=42", client); v.Reason == hottype.ReasonFair {
			return v
		}
	}
	t.Fatal("never over its share")
	return hottype.Verdict{}
}

func TestFair_DenialHasNumbers(t *testing.T) {
	t.Parallel()
	b := build(t, fmt.Sprintf(fairRules, ", scope: instance"), gate.Config{})
	b.hot("topic?id=42")
	v := b.flood(t, "203.0.113.9")
	if v.Allowed || v.Rule != "topic" || v.Key != "topic?id=42" || v.Limit != 100 || v.Remaining != 0 ||
		v.Window != time.Second || v.RetryAfter <= 0 || v.ResetAfter < v.RetryAfter {
		t.Errorf("%+v", v)
	}
	if st := b.Stats(); st.Denied[hottype.ReasonFair] == 0 {
		t.Errorf("%+v", st.Denied)
	}
	b.now = b.now.Add(15 * time.Millisecond)
	if v := b.get("/topic?id=42", "192.0.2.1"); !v.Allowed {
		t.Errorf("somebody else: %+v", v)
	}
}

// The limit of malformed requests is divided like the limit of a hot key, although no key is hot.
func TestMalformedRequestsAreDivided(t *testing.T) {
	t.Parallel()
	for _, want := range []bool{true, false} {
		yaml := strings.Replace(fmt.Sprintf(fairRules, ", scope: instance"), "fair: true", fmt.Sprint("fair: ", want), 1)
		b, fair := build(t, yaml, gate.Config{}), false
		for range 300 {
			b.now = b.now.Add(time.Millisecond)
			v := b.get("/topic"+malformed()[0], "203.0.113.9")
			fair = fair || v.Reason == hottype.ReasonFair && v.Rule == "topic"
		}
		b.now = b.now.Add(15 * time.Millisecond)
		if v := b.get("/topic"+malformed()[0], "192.0.2.1"); fair != want || want && !v.Allowed {
			t.Errorf("fair: %v: one client was denied for its share: %v; another one: %+v", want, fair, v)
		}
	}
}

// A header that names the client distinguishes users behind one address; without it the
// address is the client.
func TestFair_NamesClientsByHeader(t *testing.T) {
	t.Parallel()
	b := build(t, fmt.Sprintf(fairRules, ", scope: instance, client_key: header.x-user"), gate.Config{})
	b.hot("topic?id=42")
	b.flood(t, "203.0.113.9")
	b.now = b.now.Add(15 * time.Millisecond)
	req := request("/topic?id=42", "203.0.113.9")
	req.Header.(interface{ Set(k, v string) }).Set("X-User", "anna")
	if v := b.Decide(context.Background(), b.now, req); !v.Allowed {
		t.Errorf("anna: %+v", v)
	}
	if v := b.get("/topic?id=42", "203.0.113.9"); v.Reason != hottype.ReasonFair {
		t.Errorf("no header: %+v", v)
	}
	req.Header = http.Header{"X-User": {"a new name", "anna"}}
	if v := b.Decide(context.Background(), b.now, req); v.Reason != hottype.ReasonFair {
		t.Errorf("two lines: %+v", v)
	}
}

// Credits survive a change of another key's limit, and start again with another limit.
func TestFair_KeepsCreditsOverChanges(t *testing.T) {
	t.Parallel()
	b := build(t, fmt.Sprintf(fairRules, ", scope: instance"), gate.Config{})
	b.hot("topic?id=42")
	b.flood(t, "203.0.113.9")
	b.SetOverrides([]rules.Override{{ID: "a", Key: "topic?id=7", Action: rules.ActionBlock}})
	if v := b.get("/topic?id=42", "203.0.113.9"); v.Reason != hottype.ReasonFair {
		t.Errorf("after an override of another key: %+v", v)
	}
	b.SetOverrides([]rules.Override{{ID: "a", Key: "topic?id=42", Action: rules.ActionLimit, Rate: 1000}})
	if v := b.get("/topic?id=42", "203.0.113.9"); !v.Allowed {
		t.Errorf("with another limit: %+v", v)
	}
}

// Who is denied by something else has not paid: the per-IP window of a client denies
// hundreds of its requests, and afterwards it has its whole credit.
func TestFairIsNotChargedByOtherDenials(t *testing.T) {
	t.Parallel()
	b := build(t, fmt.Sprintf(fairRules, ", scope: instance")+`
ip: {fixed: {limit: 3, window: 10s, scope: instance}}
`, gate.Config{})
	b.hot("topic?id=42")
	for i := range 200 { // the bucket is empty and clients are held to shares
		b.get("/topic?id=42", fmt.Sprintf("10.%d.0.1", i))
	}
	b.now = b.now.Add(50 * time.Millisecond)
	for i := range 300 {
		if v := b.get("/topic?id=42", "192.0.2.1"); v.Allowed != (i < 3) ||
			i >= 3 && v.Reason != hottype.ReasonIPFixed {
			t.Fatalf("request %d: %+v", i, v)
		}
	}
}

// While clients are held to shares, the bucket itself hardly ever denies: fairness follows its level, and not
// only its denials.
func TestSharesFollowTheLevel(t *testing.T) {
	t.Parallel()
	b := build(t, fmt.Sprintf(fairRules, ", scope: instance"), gate.Config{})
	b.hot("topic?id=42")
	denied := map[hottype.Reason]int{}
	for i := range 20_000 {
		b.now = start().Add(time.Duration(i) * time.Millisecond)
		if v := b.get("/topic?id=42", fmt.Sprintf("10.0.%d.1", i%10)); !v.Allowed && i >= 5000 {
			denied[v.Reason]++
		}
	}
	if denied[hottype.ReasonHot] > 50 || denied[hottype.ReasonFair] < 10_000 {
		t.Errorf("%v", denied)
	}
}
