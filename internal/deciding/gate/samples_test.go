package gate_test

import (
	"fmt"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/report"
)

// TestReport_HasClientsAndSpellings: hot keys are sampled by client and spelling after the first report.
func TestReport_HasClientsAndSpellings(t *testing.T) {
	t.Parallel()
	b := build(t, orderRules, gate.Config{})
	b.hot("topic?id=42", "topic?id=7")
	ask := func() {
		for i := range 3200 {
			target, client := "/topic?token=SECRET&id=42", fmt.Sprintf("203.0.113.%d", i%250)
			if i%5 == 0 {
				target, client = "/topic?id=%34%32", fmt.Sprintf("2001:db8:1:%x::9", i)
			}
			b.Decide(t.Context(), b.now, request(target, client))
		}
		b.Decide(t.Context(), b.now, request("/topic?id=1", "192.0.2.1")) // not hot
	}
	if ask(); len(b.Report(b.now).Samples) > 0 {
		t.Error("sampled before anybody looked")
	}
	ask()
	found := b.Report(b.now).Samples
	if len(found) != 1 || found[0].Key != "topic?id=42" || found[0].Sampled < 3200/16-1 {
		t.Fatalf("%+v", found)
	}
	s := found[0]
	part := func(list []report.NameCount, i int, name string, least, most float64) {
		t.Helper()
		if i >= len(list) || list[i].Name != name {
			t.Errorf("%+v has no %s at %d", list, name, i)
		} else if share := float64(list[i].N) / float64(s.Sampled); share < least || share > most {
			t.Errorf("%s: %v", name, share)
		}
	}
	part(s.Prefixes, 0, "203.0.113.0/24", 0.7, 0.9)
	part(s.Prefixes, 1, "2001:db8:1::/48", 0.1, 0.3)
	part(s.Spellings, 0, "/topic?id=42", 0.7, 0.9)
	part(s.Spellings, 1, "/topic?id=%34%32", 0.1, 0.3)
	if len(s.Classes) > 0 {
		t.Errorf("nobody has a class: %+v", s.Classes)
	}
	b.hot("topic?id=7")
	b.Report(b.now)
	b.hot("topic?id=42")
	if found := b.Report(b.now).Samples; len(found) > 0 {
		t.Errorf("a key that was cold has no past: %+v", found)
	}
}

// TestSamplesAreBounded: however many write a key in ways of their own.
func TestSamplesAreBounded(t *testing.T) {
	t.Parallel()
	b := build(t, orderRules, gate.Config{})
	var keys []hottype.Key
	for i := range 50 {
		keys = append(keys, hottype.Key(fmt.Sprintf("topic?id=%d", i)))
	}
	b.hot(keys...)
	b.Report(b.now)
	for i := range 50_000 {
		b.Decide(t.Context(), b.now, request(fmt.Sprintf("/topic?id=%%3%d&id=%d", i%10, i%50),
			fmt.Sprintf("10.%d.%d.1", i/250%250, i%250)))
		b.Decide(t.Context(), b.now, request(fmt.Sprintf("/topic?id=%d", i%50),
			fmt.Sprintf("10.%d.%d.1", i/250%250, i%250)))
	}
	found := b.Report(b.now).Samples
	if len(found) > 20 || len(found) == 0 {
		t.Errorf("%d keys", len(found))
	}
	for _, s := range found {
		if s.Sampled > 4096 || len(s.Prefixes) > 5 || len(s.Spellings) > 5 {
			t.Errorf("%+v", s)
		}
	}
}
