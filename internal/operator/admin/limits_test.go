package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin/live"
	"github.com/hotparam/pipeline/internal/report"
)

// A limit above the limit in force, or above the limit of the rules, has a warning before it is applied, for each kind
// of target.
func TestPutOverride_WarnsOfRaisedLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.set(func() { w.hot = []hottype.HotKey{hotKey("topic?id=42", "topic", 300, t0)} })
	for _, o := range []string{`"key": "topic?id=42", "rate": 20`, `"client": "192.0.2.1", "rate": 5`,
		`"key": "topic?id=5", "action": "block"`} {
		if rec := w.ask(http.MethodPut, "/v1/overrides", "{"+o+"}"); rec.Code != http.StatusCreated {
			t.Fatal(rec.Body)
		}
	}
	w.Sample(t.Context(), w.clock())
	const raises, above = "it raises the limit in force, ", "it is above the limit of the rules, "
	for _, c := range []struct {
		override, says string // part of a warning, or "" without warnings
	}{
		{`"key": "topic?id=42", "rate": 20`, ""},
		{`"key": "topic?id=42", "rate": 20.00001`, ""}, // as a page rounds it
		{`"key": "topic?id=42", "rate": 21`, raises + "20/s"},
		{`"key": "topic?id=42", "rate": 243`, raises + "20/s"}, {`"key": "topic?id=42", "rate": 243`, above + "100/s"},
		{`"key": "topic?id=42", "rate": 243, "mode": "shadow"`, ""}, {`"key": "topic?id=42", "action": "exempt"`, ""},
		{`"key": "topic?id=1", "rate": 100`, ""}, {`"key": "topic?id=1", "rate": 101`, raises + "100/s"},
		{`"key": "topic?id=5", "rate": 1`, "lets requests pass that are blocked now"},
		{`"key": "topic?id=*", "rate": 101`, raises + "100/s"}, {`"resource": "topic", "rate": 101`, raises + "100/s"},
		{`"key": "*", "rate": 9999`, ""}, {`"key": "topic?id=7", "rate": 1000`, above + "100/s"}, // it is exempt
		{`"client": "192.0.2.1", "rate": 6`, raises + "5/s"}, {`"client": "192.0.2.2", "rate": 50`, ""},
		{`"client": "192.0.2.2", "rate": 51`, raises + "50 in 1s"}, {`"cidr": "192.0.2.0/24", "rate": 51`, raises + "50 in 1s"},
		{`"class": "crawler", "rate": 51`, raises + "50 in 1s"},
	} {
		rec := w.ask(http.MethodPut, "/v1/overrides?dry_run=true", "{"+c.override+"}")
		var a struct{ Warnings []string }
		if err := json.Unmarshal(rec.Body.Bytes(), &a); err != nil || rec.Code != http.StatusOK {
			t.Fatalf("%s: %v %s", c.override, err, rec.Body)
		}
		all := strings.Join(a.Warnings, "; ")
		says := strings.Contains(all, raises) || strings.Contains(all, above) || strings.Contains(all, "lets requests")
		if c.says == "" && says || !strings.Contains(all, c.says) {
			t.Errorf("%s: %q", c.override, all)
		}
	}
}

// The limit of a row is never the rate of its requests, and no field of a key has the name of a target.
func TestLimits_AreNotRatesOfRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) {
		c.Loops = func() []hottype.HotKey { return []hottype.HotKey{loop("topic?id=9")} }
	})
	h := hotKey("topic?id=42", "topic", 299.55432912, t0)
	h.HeaviestClient, h.ClientShare, h.Clients = "192.0.2.1", 0.2, 30
	w.set(func() { w.hot = []hottype.HotKey{h, hotKey("topic?id=7", "topic", 250, t0)} })
	if rec := w.ask(http.MethodPut, "/v1/overrides", `{"client": "192.0.2.1", "rate": 5}`); rec.Code != http.StatusCreated {
		t.Fatal(rec.Body)
	}
	var list struct {
		Keys  []map[string]any
		Loops []map[string]any
	}
	if err := json.Unmarshal(w.ask(http.MethodGet, "/v1/hot", "").Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	for _, h := range append(list.Keys, list.Loops...) {
		for _, field := range []string{"client", "cidr", "class", "resource"} {
			if _, has := h[field]; has {
				t.Errorf("%s has the field %s, which names the target of an override", h["key"], field)
			}
		}
	}
	if list.Keys[0]["heaviest_client"] != "192.0.2.1" || list.Loops[0]["heaviest_client"] != "192.0.2.77" {
		t.Errorf("%+v", list)
	}
	var exempt live.HotKey
	raw, err := json.Marshal(list.Keys[1])
	if err == nil {
		err = json.Unmarshal(raw, &exempt)
	}
	if err != nil || exempt.Limit != nil || exempt.RuleLimit == nil || exempt.RuleLimit.Text != "100/s, burst 200" {
		t.Errorf("%v: %s", err, raw)
	}
	for client, want := range map[string]string{"192.0.2.1": "5/s, burst 5", "192.0.2.9": "50 in 1s",
		"192.0.2.0%2F24": "50 in 1s"} {
		var c Client
		if err := json.Unmarshal(w.ask(http.MethodGet, "/v1/clients/"+client, "").Body.Bytes(), &c); err != nil ||
			c.Limit == nil || c.Limit.Text != want {
			t.Errorf("%s: %v %+v", client, err, c.Limit)
		}
	}
}

// A click on the row of a key that has cooled, or of a client that is no longer in the list, stores nothing.
func TestPutOverride_RejectsChangedRows(t *testing.T) {
	t.Parallel()
	loops := []hottype.HotKey{loop("topic?id=9")}
	w := newWorld(t, func(c *Config) { c.Loops = func() []hottype.HotKey { return loops } })
	w.set(func() { w.hot = []hottype.HotKey{hotKey("topic?id=42", "topic", 300, t0)} })
	many := []report.DeniedClient{{Client: "2001:db8:0:1::", N: 9}}
	for n := uint64(1); n <= 2; n++ {
		w.second(report.Limiter{Instance: "a", At: w.clock(), Allowed: 100 * n, ClientDenials: 10 * n, DeniedSampled: 9,
			DeniedClients: many, Clients: []report.SampledClient{{Client: "203.0.113.1", N: 5}, {Client: "203.0.113.2", N: 5}}})
	}
	ask := func(row, target string) (int, string) {
		body := fmt.Sprintf("{%s, \"action\": \"block\"}", target)
		rec := w.ask(http.MethodPut, "/v1/overrides?confirm=true&row="+row, body)
		return rec.Code, rec.Body.String()
	}
	for _, c := range []struct {
		row, target string
		code        int
	}{
		{"hot", `"key": "topic?id=42"`, 201}, {"hot", `"key": "topic?id=41"`, 412}, {"", `"key": "topic?id=41"`, 201},
		{"loop", `"client": "192.0.2.77"`, 201}, {"loop", `"client": "192.0.2.78"`, 412},
		{"denied", `"client": "2001:db8:0:1::5"`, 201}, {"denied", `"client": "192.0.2.77"`, 412},
		{"heaviest", `"cidr": "203.0.113.0/24"`, 201}, {"heaviest", `"client": "203.0.113.2"`, 201},
		{"heaviest", `"cidr": "203.0.112.0/24"`, 412}, {"cold", `"key": "topic?id=42"`, 400},
	} {
		if code, body := ask(c.row, c.target); code != c.code {
			t.Errorf("%s %s: %d %s", c.row, c.target, code, body)
		}
	}
	w.set(func() { w.hot = nil })
	loops = nil
	for row, target := range map[string]string{"hot": `"key": "topic?id=42"`, "loop": `"client": "192.0.2.77"`} {
		if code, body := ask(row, target); code != 412 || !strings.Contains(body, "; nothing was stored") {
			t.Errorf("%s: %d %s", row, code, body)
		}
	}
}
