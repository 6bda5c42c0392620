package admin

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// widely returns a world whose topic 1 has 90 % of 1000 requests a second, and where one network has most of the
// clients. Of the sampled requests 20 are of 10.7.0.0/16, 10 of one loop and 10 of others.
func widely(t *testing.T, change func(*Config)) *world {
	w := newWorld(t, change)
	w.hot = []hottype.HotKey{hotKey("topic?id=1", "topic", 900, t0), hotKey("topic?id=2", "topic", 50, t0),
		hotKey("/other", "*", 50, t0)}
	for n := uint64(1); n <= 2; n++ {
		r := report.Limiter{Instance: "a", At: t0.Add(time.Duration(n) * time.Second), Allowed: 1000 * n,
			Clients: []report.SampledClient{{Client: "198.51.100.9", N: 10}}}
		for i := range 20 {
			r.Clients = append(r.Clients, report.SampledClient{Client: fmt.Sprintf("10.7.0.%d", i), Class: "crawler", N: 1})
		}
		for i := range 10 {
			r.Clients = append(r.Clients, report.SampledClient{Client: fmt.Sprintf("192.0.%d.1", i), N: 1})
		}
		w.second(r)
	}
	return w
}

// An override that reaches more than a tenth, or everything of some kind, is stored only with a confirmation, by every
// route.
func TestPutOverride_WideReachNeedsConfirmation(t *testing.T) {
	t.Parallel()
	s, w := loadSchemas(t), widely(t, nil)
	for body, want := range map[string]string{
		`{"cidr": "0.0.0.0/0", "action": "block"}`:         "it reaches most or all clients, and it reaches 100 % of the requests of the last minute",
		`{"cidr": "0.0.0.0/1", "rate": 1}`:                 "most or all clients",
		`{"cidr": "::/0", "action": "block"}`:              "most or all clients",
		`{"cidr": "10.0.0.0/8", "rate": 5}`:                "it reaches 65 % of the clients",
		`{"class": "crawler", "action": "block"}`:          "it reaches 65 % of the clients",
		`{"client": "198.51.100.9", "action": "block"}`:    "it reaches 25 % of the requests",
		`{"key": "*", "action": "block"}`:                  "it reaches every key, and it reaches 100 % of the requests",
		`{"key": "topic?id=*", "rate": 5}`:                 "it reaches every key of topic, and it reaches 95 %",
		`{"key": "topic*", "rate": 5}`:                     "it reaches every key of topic",
		`{"resource": "topic", "rate": 5}`:                 "it reaches every key of topic",
		`{"resource": "/nothing", "action": "block"}`:      "it reaches every key of /nothing",
		`{"key": "topic?id=1", "action": "block"}`:         "it reaches 90 % of the requests",
		`{"client": "192.0.1.1", "action": "block"}`:       "",
		`{"cidr": "203.0.113.0/24", "action": "block"}`:    "",
		`{"key": "topic?id=1", "rate": 5}`:                 "",
		`{"key": "topic?id=2", "action": "block"}`:         "",
		`{"cidr": "0.0.0.0/0", "action": "exempt"}`:        "",
		`{"key": "*", "action": "block","mode": "shadow"}`: "",
	} {
		var dry, refused struct {
			Detail, Field string
			Percent       int
			Reach         *struct{ Confirm string }
		}
		rec := w.ask(http.MethodPut, "/v1/overrides?dry_run=true", body)
		s.answer(t, rec, 200, "Stored")
		decode(t, rec.Body.Bytes(), &dry)
		rec = w.ask(http.MethodPut, "/v1/overrides/x", body)
		if want == "" {
			s.answer(t, rec, 201, "Stored")
			if dry.Reach != nil && dry.Reach.Confirm != "" {
				t.Errorf("%s: %+v", body, dry.Reach)
			}
		} else {
			s.answer(t, rec, 428, "Problem")
			decode(t, rec.Body.Bytes(), &refused)
			if !strings.Contains(refused.Detail, want) || refused.Field != "confirm" || refused.Percent == 0 ||
				!strings.Contains(dry.Reach.Confirm, want) {
				t.Errorf("%s: %+v, dry run %+v, want %s", body, refused, dry.Reach, want)
			}
			if len(w.store.list) > 0 {
				t.Fatalf("%s: stored without the second word", body)
			}
			s.answer(t, w.ask(http.MethodPut, "/v1/overrides/x?confirm=perhaps", body), 400, "Problem")
			s.answer(t, w.ask(http.MethodPut, "/v1/overrides/x?confirm=true", body), 201, "Stored")
		}
		w.store.list = nil
	}
}

func TestEnforceAndUndo_NeedConfirmation(t *testing.T) {
	t.Parallel()
	s, w := loadSchemas(t), widely(t, nil)
	const wide = `{"key": "*", "action": "block", "mode": "shadow"}`
	s.answer(t, w.ask(http.MethodPut, "/v1/overrides/x", wide), 201, "Stored")
	s.answer(t, w.ask(http.MethodPost, "/v1/overrides/x/enforce", ""), 428, "Problem")
	s.answer(t, w.ask(http.MethodPost, "/v1/overrides/x/enforce?confirm=true", ""), 200, "Stored")
	if rec := w.ask(http.MethodDelete, "/v1/overrides/x", ""); rec.Code != 204 {
		t.Fatal(rec.Body)
	}
	s.answer(t, w.ask(http.MethodPost, "/v1/overrides/x/undo", ""), 428, "Problem")
	if len(w.store.list) > 0 {
		t.Errorf("an undo brought it back without the second word")
	}
	s.answer(t, w.ask(http.MethodPost, "/v1/overrides/x/undo?confirm=true", ""), 200, "Undone")
}

func TestPutOverride_BlockOfTrustedProxyNeedsConfirmation(t *testing.T) {
	t.Parallel()
	set, err := rules.Parse("rules.yaml", []byte(rulesFile+"\nclasses: []\n"))
	if err != nil {
		t.Fatal(err)
	}
	set.IP.TrustedProxies = append(set.IP.TrustedProxies, netip.MustParsePrefix("192.0.2.3/32"))
	w := newWorld(t, func(c *Config) { c.Rules = func() *rules.Set { return set } })
	for _, target := range []string{`"client": "192.0.2.3"`, `"cidr": "192.0.2.0/24"`} {
		rec := w.ask(http.MethodPut, "/v1/overrides", "{"+target+`, "action": "block"}`)
		if rec.Code != 428 || !strings.Contains(rec.Body.String(), "it has the trusted proxy 192.0.2.3") {
			t.Errorf("%s: %d %s", target, rec.Code, rec.Body)
		}
	}
}

// Rules that take something away, or whose overrides reach most clients, must be confirmed.
func TestPutRules_LossesNeedConfirmation(t *testing.T) {
	t.Parallel()
	central := &centralRules{}
	w, s := newWorld(t, func(c *Config) { c.Central = central }), loadSchemas(t)
	put := func(query, text string, status int, schema string) string {
		t.Helper()
		rec := w.ask(http.MethodPut, "/v1/rules"+query, text, "If-Match: *")
		s.answer(t, rec, status, schema)
		return rec.Body.String()
	}
	put("", rulesFile, 200, "Rules")
	less := strings.Replace(rulesFile, "ip:\n  fixed: {limit: 50, window: 1s}\n", "", 1)
	if text := put("", less, 428, "Problem"); !strings.Contains(text, "takes away the fixed window of ip") ||
		central.stored.Version != 1 {
		t.Errorf("version %d: %s", central.stored.Version, text)
	}
	if text := put("", rulesFile+"  - {cidr: 0.0.0.0/0, action: block}\n", 428, "Problem"); !strings.Contains(text,
		"it reaches most or all clients") {
		t.Error(text)
	}
	put("?confirm=true", less, 200, "Rules")
}
