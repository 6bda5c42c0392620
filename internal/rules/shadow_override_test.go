package rules

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

func tried(o Override) Override {
	o.Mode = hottype.ModeShadow
	return o
}

// Only the index of WithShadow has overrides in shadow mode, and returns them only if they would decide.
func TestWithShadow_ReturnsTriedOverrides(t *testing.T) {
	t.Parallel()
	file := []Override{
		{ID: "file", Key: "topic?id=1", Action: ActionBlock},
		tried(Override{ID: "file-tried", Key: "topic?id=2", Action: ActionBlock}),
	}
	live := []Override{
		tried(Override{ID: "one", Key: "topic?id=1", Action: ActionBlock, Created: noon.Add(-1)}),
		{ID: "two", Key: "topic?id=2", Action: ActionExempt},
		{ID: "newer", Key: "topic?id=3", Action: ActionExempt, Created: noon},
		tried(Override{ID: "three", Key: "topic?id=3", Action: ActionBlock, Created: noon.Add(-1)}),
		tried(Override{ID: "all", Key: "topic?*", Action: ActionBlock}),
		tried(Override{ID: "gone", Key: "topic?id=5", Action: ActionBlock, Until: noon}),
		tried(Override{ID: "net", CIDR: "192.0.2.0/24", Action: ActionBlock}),
	}
	o := NewOverrides(file, live)
	for key, want := range map[string][2]string{ // enforced, tried
		"topic?id=1": {"file", "one"}, "topic?id=2": {"two", "two"}, "topic?id=3": {"newer", "three"},
		"topic?id=4": {"", "all"}, "topic?id=5": {"", "all"}, "topic?!malformed": {"file", "one"}, "user": {"", ""},
	} {
		var got [2]string
		for i, of := range []*Overrides{o, o.WithShadow()} {
			if f := of.Find([]byte(key), noon); f != nil {
				got[i] = f.ID
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", key, diff)
		}
	}
	if o.OfClients() || !o.WithShadow().OfClients() || NewOverrides(file[:1], nil).WithShadow() != nil {
		t.Error("shadow mode is taken for enforced, or the other way round")
	}
}

func TestShadowModeInAFile(t *testing.T) {
	t.Parallel()
	const head = "rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 9}}]\noverrides:\n"
	for _, c := range []struct{ line, says string }{
		{`  - {key: "topic?id=1", rate: 5, mode: shadow}`, ""},
		{`  - {key: "topic?id=1", rate: 5, mode: enforce}`, ""},
		{"  - {key: topic, action: block, mode: shadow}\n  - {key: topic, action: exempt}", ""},
		{"  - {key: topic, action: block, mode: shadow}\n  - {key: topic, rate: 5, mode: shadow}",
			"the same id, or the same key, schedule and mode"},
		{`  - {key: "topic?id=1", rate: 5, mode: shade}`, `"shade" is not one of enforce, shadow`},
		{`  - {key: "topic?id=1", rate: 5, mode: ""}`, `"" is not one of enforce, shadow`},
		{`  - {key: "topic?id=1", action: exempt, mode: shadow}`, "is for limit and block"},
		{`  - {key: "topic?id=1", action: cache, mode: shadow}`, "is for limit and block"},
		{`  - {key: "topic?id=1", action: shadow, mode: shadow}`, "is for limit and block"},
		{`  - {key: "topic?id=1", action: shadow_limit, rate: 5}`, "is not one of limit"},
	} {
		set, err := Parse("f.yaml", []byte(head+c.line+"\n"))
		switch {
		case c.says != "":
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "f.yaml:") {
				t.Errorf("%s: %v", c.line, err)
			}
		case err != nil:
			t.Errorf("%s: %v", c.line, err)
		case set.Overrides[0].InShadow() != strings.Contains(c.line, "mode: shadow"):
			t.Errorf("%s: %+v", c.line, set.Overrides[0])
		}
	}
}
