package gate_test

import (
	"fmt"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/report"
)

const resetRules = `
rules:
  - {name: shared, match: {path: /shared}, params: [id], hot: {rate: 1}, limit: {rate: 1, burst: 5}}
  - {name: local, match: {path: /local}, params: [id], hot: {rate: 1}, limit: {rate: 1, burst: 5, scope: instance, block: 1h}}
  - {name: fair, match: {path: /fair}, params: [id], hot: {rate: 1}, limit: {rate: 1, burst: 5, scope: instance, fair: true}}
  - {name: int, match: {path: /int}, params: [{name: id, integer: true}], malformed: limit, hot: {rate: 1}, limit: {rate: 1, burst: 5}}
classes: [{name: bots, match: {header: User-Agent, pattern: bot}, ip: {fixed: {limit: 7, window: 1h}}}]
ip: {sliding: {limit: 50, window: 1h}}
overrides: [{key: "shared?id=cold", action: limit, rate: 1, burst: 5}]
`

// Reset deletes the use of limits by a key or a client: charges, blocks, remembered denials and the heavy clients of
// the key. The charges in the shared store are reset elsewhere, once.
func TestReset(t *testing.T) {
	t.Parallel()
	b := build(t, resetRules, gate.Config{})
	b.hot("shared?id=1", "local?id=1", "fair?id=1", "shared?id=2")
	passes := func(target, client string) (n int) {
		for range 60 {
			if b.get(target, client).Allowed {
				n++
			}
		}
		return n
	}
	reset := func(c report.Command) {
		c.Action = report.CommandReset
		for _, charge := range gate.CountedSubjects(b.Rules(), c) {
			b.shared.Reset(&charge.Subject)
		}
		b.Reset(b.now, c)
	}
	for i, key := range []string{"shared?id=1", "local?id=1", "fair?id=1", "shared?id=cold", "int?!malformed"} {
		target := "/" + key
		if key == "int?!malformed" {
			target = "/int?" + malformed()[0]
		}
		for round := range 3 {
			if n := passes(target, fmt.Sprintf("10.0.%d.%d", i, round)); n != 5 {
				t.Errorf("%s, round %d: %d passed, want 5", key, round, n)
			}
			passes("/shared?id=2", fmt.Sprintf("10.1.%d.%d", i, round))
			reset(report.Command{Key: hottype.Key(key)})
		}
	}
	if n := passes("/shared?id=2", "10.2.0.1"); n != 0 {
		t.Errorf("%d of a key that nobody reset passed", n)
	}
	for round := range 2 {
		if n := passes("/other", "10.3.0.1"); n != 50 {
			t.Errorf("round %d: %d of a client passed, want 50", round, n)
		}
		reset(report.Command{Client: hottype.ParseClient("10.3.0.1")})
	}
	if n := len(gate.CountedSubjects(b.Rules(), report.Command{Client: hottype.ParseClient("10.3.0.1")})); n != 6 {
		t.Errorf("a client is counted by %d limits, want everybody's and that of the class, both also of preflights, and "+
			"two of overrides", n)
	}
}

// A client is counted by the overrides, by the windows of all clients, and by the windows of a class that differ from
// these.
func TestSubjectsOfAClient(t *testing.T) {
	t.Parallel()
	const ip = "ip: {fixed: {limit: 9, window: 1h}, sliding: {limit: 50, window: 1h}}\n"
	class := func(windows string) string {
		return "classes: [{name: bots, match: {header: User-Agent, pattern: bot}, ip: {" + windows + "}}]\n"
	}
	for yaml, want := range map[string]int{
		"rules: []\n": 2, ip: 2 + 2*2, ip + class("fixed: {limit: 7, window: 1h}"): 2 + 2*3, // twice: of preflights
		ip + class("fixed: {limit: 7, window: 1h}, sliding: {limit: 1, window: 1h}"): 2 + 2*4,
	} {
		set := parse(t, yaml)
		list := gate.CountedSubjects(set, report.Command{Client: hottype.ParseClient("10.3.0.1")})
		if len(list) != want {
			t.Errorf("%s: %d, want %d: %+v", yaml, len(list), want, list)
		}
		seen := map[string]bool{}
		for _, c := range list {
			if name := fmt.Sprintf("%s %+v", c.Subject.Space, c.Spec); seen[name] || c.Subject.Name != "" || c.Cost != 0 {
				t.Errorf("%s: twice, or of a key: %+v", yaml, c)
			} else {
				seen[name] = true
			}
		}
	}
}

// A reset of a client reaches both of its windows, however they are kept.
func TestResetReachesBothWindows(t *testing.T) {
	t.Parallel()
	b := build(t, "ip: {fixed: {limit: 3, window: 1h, scope: instance}, sliding: {limit: 5, window: 1h, scope: instance}}\n",
		gate.Config{})
	for round := range 4 {
		n := 0
		for range 10 {
			if b.get("/other", "10.3.0.1").Allowed {
				n++
			}
		}
		if n != 3 {
			t.Errorf("round %d: %d passed, want 3", round, n)
		}
		b.Reset(b.now, report.Command{Action: report.CommandReset, Client: hottype.ParseClient("10.3.0.1")})
	}
}

// A client that has used its fair share has it again after a reset of the key.
func TestResetForgetsFairShares(t *testing.T) {
	t.Parallel()
	b := build(t, resetRules, gate.Config{})
	b.hot("fair?id=1")
	for round := range 3 {
		n := 0
		for range 10 {
			if b.get("/fair?id=1", "10.0.0.1").Allowed {
				n++
			}
		}
		if n != 5 {
			t.Errorf("round %d: %d passed, want 5", round, n)
		}
		b.Reset(b.now, report.Command{Action: report.CommandReset, Key: "fair?id=1"})
	}
}
