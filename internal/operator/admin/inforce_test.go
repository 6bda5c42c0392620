package admin

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin/live"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// following is a world whose limits follow an upstream that can take 300 requests a second, and one in flight.
func following(t *testing.T) (*world, *hottype.UpstreamLimit) {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte(`
upstreams: [{name: default, url: "http://127.0.0.1:3000", target: {latency: 250ms}}]
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 200}, limit: {adaptive: true, min: 20, max: 2000}}
  - {name: slow, match: {path: /slow}, params: [id], hot: {rate: 10}, limit: {algorithm: in_flight, limit: 20},
     per_client: {fixed: {limit: 10, window: 1m}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	bound := &hottype.UpstreamLimit{Name: "default", Rate: 300, InFlightCap: 13.2, MinSum: 20, MaxSum: 2000,
		LatencySeconds: 0.1, TargetSeconds: 0.25, At: t0}
	w := newWorld(t, func(c *Config) {
		c.Rules = func() *rules.Set { return set }
		c.Upstreams = func() []hottype.UpstreamLimit { return []hottype.UpstreamLimit{*bound} }
	})
	w.set(func() {
		w.hot = []hottype.HotKey{hotKey("topic?id=42", "topic", 900, t0), hotKey("slow?id=1", "slow", 30, t0)}
	})
	return w, bound
}

// An adaptive limit is shown by its present rate, in lists, seconds and what-if. A limit of requests in flight is a
// limit too.
func TestLimits_AreShownAsInForce(t *testing.T) {
	t.Parallel()
	w, bound := following(t)
	s := loadSchemas(t)
	ask := func(target, schema string, v any) {
		t.Helper()
		rec := w.ask(http.MethodGet, target, "")
		s.answer(t, rec, 200, schema)
		decode(t, rec.Body.Bytes(), v)
	}
	w.second()
	bound.Rate = 200
	w.second()
	var list struct{ Keys []live.HotKey }
	ask("/v1/hot", "HotList", &list)
	const text = "200/s, burst 20 now, all hot keys together 14 in flight; adapts to the capacity of default, 20 to 2000/s"
	if l := list.Keys[0].Limit; l.Text != text || l.Limit != 2000 || l.WindowMS != 10_000 || !l.Adaptive {
		t.Errorf("%+v", l)
	}
	if l := list.Keys[1].Limit; l == nil || l.Text != "20 in flight" || l.InFlight != 20 || l.Limit != 0 {
		t.Errorf("%+v", l)
	}
	var seconds struct{ Seconds []live.Second }
	ask("/v1/keys/topic%3Fid=42/seconds", "Seconds", &seconds)
	if n := seconds.Seconds; len(n) != 2 || *n[0].Limit != 300 || *n[1].Limit != 200 {
		t.Errorf("%+v", n)
	}
	var tried struct {
		InForce struct{ Text string } `json:"in_force"`
	}
	ask("/v1/keys/topic%3Fid=42/what-if?rate=50", "WhatIf", &tried)
	if tried.InForce.Text != text {
		t.Errorf("what-if: %+v", tried)
	}
	for key, want := range map[string]string{"topic%3Fid=42": text, "slow%3Fid=1": "20 in flight"} {
		var k live.Key
		ask("/v1/keys/"+key, "Key", &k)
		if len(k.Limits) == 0 || !k.Limits[0].Applies || k.Limits[0].Limit.Text != want {
			t.Errorf("%s: %+v", key, k.Limits)
		}
		if slow := key[0] == 's'; len(k.Limits) > 1 != slow || slow && k.Limits[1].Source != "client_fixed" {
			t.Errorf("%s: windows of clients: %+v", key, k.Limits)
		}
	}
	var running struct {
		Rules   []live.Rule
		Central bool
	}
	ask("/v1/rules/running", "RunningRules", &running)
	if r := running.Rules; len(r) != 2 || r[0].PerClient != nil || r[1].PerClient.Fixed.Text != "10 in 60s" || r[0].Limit.Text != text || r[0].HotKeys != 1 || r[0].Match != "/topic" ||
		running.Central {
		t.Errorf("%+v", running)
	}
}

// An upstream that misses its target is in the trouble as long as the measurement is recent.
func TestTrouble_NamesUpstreamThatMissesItsTarget(t *testing.T) {
	t.Parallel()
	w, bound := following(t)
	s := loadSchemas(t)
	for _, c := range []struct {
		latency float64
		lost    bool
		age     time.Duration
		missed  bool
	}{{0.1, false, 0, false}, {0.705, false, 0, true}, {0.705, false, time.Minute, false}, {0.1, true, 0, true}} {
		bound.LatencySeconds, bound.Unreachable, bound.At = c.latency, c.lost, w.clock().Add(-c.age)
		rec := w.ask(http.MethodGet, "/v1/upstreams", "")
		s.answer(t, rec, 200, "Upstreams")
		var a struct{ Upstreams []live.Upstream }
		decode(t, rec.Body.Bytes(), &a)
		if len(a.Upstreams) != 1 || a.Upstreams[0].Missed != c.missed {
			t.Errorf("%+v: %+v", c, a)
		}
		line := w.ask(http.MethodGet, "/readyz?verbose", "").Body.String()
		if strings.Contains(line, `"upstream default"`) != c.missed {
			t.Errorf("%+v: %s", c, line)
		}
	}
	if st := w.Status(); len(st) != 1 || st[0].OK || st[0].Value != "100 ms of 250 ms" {
		t.Errorf("%+v", st)
	}
}

// The audit has actions that change no override, with their authors, and without the key whose history was purged.
func TestAudit_HasActionsThatChangeNoOverride(t *testing.T) {
	t.Parallel()
	done, past := []report.Command{}, &kept{}
	w := newWorld(t, func(c *Config) {
		c.Command, c.History = commands(&done), past
	})
	s := loadSchemas(t)
	for _, c := range [][2]string{{"POST", "/v1/keys/topic%3Fid=42/reset?author=ann"},
		{"POST", "/v1/clients/192.0.2.7/reset?author=bob"}, {"POST", "/v1/keys/topic%3Fid=42/purge?author=cid"},
		{"DELETE", "/v1/history?key=topic%3Fid=9&author=dan"}} {
		if rec := w.ask(c[0], c[1], ""); rec.Code != 200 {
			t.Fatalf("%s: %d %s", c, rec.Code, rec.Body)
		}
	}
	rec := w.ask(http.MethodGet, "/v1/audit", "")
	s.answer(t, rec, 200, "Audit")
	var a struct{ Changes []rules.Change }
	decode(t, rec.Body.Bytes(), &a)
	got := make([]string, len(a.Changes))
	for i, c := range a.Changes {
		got[i] = strings.Join([]string{c.Author, c.Action, c.Of}, " ")
		if c.At.IsZero() || c.Revision == 0 {
			t.Errorf("%+v", c)
		}
	}
	want := "dan purge_history , cid purge topic?id=42, bob reset client 192.0.2.7, ann reset topic?id=42"
	if strings.Join(got, ", ") != want {
		t.Errorf("%q", got)
	}
	// None of them can be undone, or is taken for an override.
	if rec := w.ask(http.MethodGet, "/v1/overrides", ""); strings.Contains(rec.Body.String(), "reset") {
		t.Error(rec.Body)
	}
}

// The problem of a push without confirmation counts the losses.
func TestPutRules_CountsLosses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Central = &centralRules{} })
	one := "rules:\n  - {name: a, match: {path: /a}, params: [id], hot: {rate: 1}, limit: {rate: 10}}\n"
	two := one + "  - {name: b, match: {path: /b}, params: [id], hot: {rate: 1}, limit: {rate: 10}}\n"
	if rec := w.ask(http.MethodPut, "/v1/rules?confirm=true", two, "If-Match: *"); rec.Code != 200 {
		t.Fatal(rec.Body)
	}
	rec := w.ask(http.MethodPut, "/v1/rules", one, `If-Match: "1"`)
	loadSchemas(t).answer(t, rec, 428, "Problem")
	var p struct{ Losses int }
	if decode(t, rec.Body.Bytes(), &p); p.Losses != 1 {
		t.Error(rec.Body)
	}
}

// While the store is away, one sentence reports the failure, and every view shows the data that was read last.
func TestServer_ShowsLastDataWhileStoreIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Store = "Redis" })
	s := loadSchemas(t)
	w.second(at(time.Second, 1, 1, 1))
	if rec := w.ask(http.MethodPut, "/v1/overrides", `{"key": "topic?id=42", "rate": 5}`); rec.Code != 201 {
		t.Fatal(rec.Body)
	}
	w.store.fail(errBroken)
	w.set(func() { w.broken = errBroken })
	w.second()
	w.second()
	st := w.Init(w.clock()).State
	const sentence = "Redis has not answered since 2026-03-14 12:00:02 UTC"
	if len(st.Trouble) != 1 || !strings.HasPrefix(st.Trouble[0], sentence) ||
		strings.Contains(st.Trouble[0], "refused") {
		t.Errorf("%q", st.Trouble)
	}
	for _, c := range []struct{ target, schema, want string }{
		{"/v1/overrides", "OverrideList", `"rate":5`}, {"/v1/keys/topic%3Fid=42", "Key", `"rate":5`},
		{"/v1/audit", "Audit", `"rate":5`}, {"/v1/limiters", "Limiters", `"instance":"a"`},
		{"/v1/overrides/" + w.store.list[0].ID, "Override", `"rate":5`},
	} {
		rec := w.ask(http.MethodGet, c.target, "")
		s.answer(t, rec, 200, c.schema)
		if body := rec.Body.String(); !strings.Contains(body, c.want) || strings.Contains(body, "refused") ||
			c.schema != "Override" && !strings.Contains(body, sentence) {
			t.Errorf("%s: %s", c.target, body)
		}
	}
	rec := w.ask(http.MethodPut, "/v1/overrides", `{"key": "topic?id=42", "rate": 6}`)
	s.answer(t, rec, 503, "Problem")
	if body := rec.Body.String(); !strings.Contains(body, sentence) || strings.Contains(body, "refused") {
		t.Errorf("a change: %s", body)
	}
	w.store.fail(nil)
	w.set(func() { w.broken = nil })
	w.second()
	if st := w.Init(w.clock()).State; len(st.Trouble) != 0 {
		t.Errorf("%q", st.Trouble)
	}
}

// The reports of all limiters on a client are joined. A network is a client too.
func TestGetClient_JoinsReportsOfLimiters(t *testing.T) {
	t.Parallel()
	done := []report.Command{}
	w := newWorld(t, func(c *Config) { c.Command = commands(&done) })
	s := loadSchemas(t)
	for _, c := range []struct{ name, want string }{
		{"192.0.2.7", "192.0.2.7"}, {"203.0.113.0%2F24", "203.0.113.0/24"}, {"2001:db8:1:2::%2F64", "2001:db8:1:2::"},
		{"2001:db8:1::%2F48", "2001:db8:1::/48"}, {"anna", "anna"},
	} {
		rec := w.ask(http.MethodPost, "/v1/clients/"+c.name+"/trace", "")
		s.answer(t, rec, 200, "Reset")
		if last := done[len(done)-1]; last.Action != report.CommandTrace || last.Client.String() != c.want {
			t.Errorf("%s: %+v", c.name, last)
		}
	}
	if audit, _ := w.store.Audit(t.Context(), 10); len(audit) > 0 {
		t.Errorf("a trace changes nothing: %+v", audit)
	}
	row := report.TracedKey{Key: "topic?id=42", Allowed: true, Reason: hottype.ReasonCold, N: 3, Last: t0}
	denied := report.TracedKey{Key: "topic?id=42", Reason: hottype.ReasonIPFixed, N: 9, Last: t0}
	report := func(name string, rows ...report.TracedKey) report.Limiter {
		return report.Limiter{Instance: name, At: t0, Traces: []report.ClientTrace{
			{Client: "192.0.2.7", Until: t0.Add(time.Minute), N: 12, Rows: rows}}}
	}
	w.second(report("a", row, denied), report("b", row))
	rec := w.ask(http.MethodGet, "/v1/clients/192.0.2.7", "")
	s.answer(t, rec, 200, "Client")
	var a live.Client
	decode(t, rec.Body.Bytes(), &a)
	if a.Kind != "client" || a.Trace == nil || a.Trace.Requests != 24 || a.Trace.Limiters != 2 ||
		len(a.Trace.Rows) != 2 || a.Trace.Rows[0].Requests != 9 || a.Trace.Rows[0].Reason != hottype.ReasonIPFixed ||
		a.Trace.Rows[1].Requests != 6 || !a.Trace.Rows[1].Allowed {
		t.Errorf("%s", rec.Body)
	}
	w.set(func() { w.now = t0.Add(time.Minute) })
	rec = w.ask(http.MethodGet, "/v1/clients/192.0.2.7", "")
	s.answer(t, rec, 200, "Client")
	if !strings.Contains(rec.Body.String(), `"trace":null`) {
		t.Error(rec.Body)
	}
}

// An alias is shown as its whole key, wherever a key is shown or asked for, once a limiter has reported the key.
func TestAliases_AreShownAsWholeKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	s := loadSchemas(t)
	const alias = "!hp1:topic.id=ZE4Zh0123456789abcdef0123456789abcdef"
	full := "topic?id=" + strings.Repeat("%E4%B8%AD", 30)
	w.set(func() { w.hot = []hottype.HotKey{hotKey(alias, "topic", 300, t0)} })
	report := func(n uint64) report.Limiter {
		return report.Limiter{Instance: "a", At: w.clock().Add(time.Second), Keys: []report.KeyDecisions{
			{Key: alias, Full: hottype.Key(full), Allowed: 100 * n}}}
	}
	var list struct{ Keys []live.HotKey }
	decode(t, w.ask(http.MethodGet, "/v1/hot", "").Body.Bytes(), &list)
	if k := list.Keys[0]; k.Key != alias || k.Threshold != 200 || k.Limit == nil { // its rule is known at once
		t.Errorf("%+v", k)
	}
	w.second(report(1))
	w.second(report(2))
	rec := w.ask(http.MethodGet, "/v1/hot?find=%25E4", "")
	s.answer(t, rec, 200, "HotList")
	decode(t, rec.Body.Bytes(), &list)
	if len(list.Keys) != 1 || string(list.Keys[0].Key) != full || list.Keys[0].Alias != alias ||
		*list.Keys[0].Allowed != 100 || list.Keys[0].Threshold != 200 || list.Keys[0].Limit.Text != "100/s, burst 200" {
		t.Fatalf("%s", rec.Body)
	}
	for _, href := range []string{list.Keys[0].Href, "/v1/keys/" + alias} {
		var k live.Key
		rec := w.ask(http.MethodGet, href, "")
		s.answer(t, rec, 200, "Key")
		decode(t, rec.Body.Bytes(), &k)
		if !k.Hot || k.Key != full || len(k.Warnings) > 0 && strings.Contains(k.Warnings[0], "no rule") {
			t.Errorf("%s: %s", href, rec.Body)
		}
	}
	rec = w.ask(http.MethodPut, "/v1/overrides", `{"key": "`+alias+`", "rate": 5}`)
	s.answer(t, rec, 201, "Stored")
	if w.store.list[0].Key != full {
		t.Errorf("%+v", w.store.list)
	}
	if c := w.Init(w.clock()).Changes; len(c) == 0 || c[0].Key != full {
		t.Errorf("%+v", c)
	}
	w.set(func() { w.hot = nil })
	w.second() // and it cools by its name
	if c := w.Init(w.clock()).Changes; c[len(c)-1].Kind != live.Cooled || c[len(c)-1].Key != full {
		t.Errorf("%+v", c)
	}
}

// commands returns a function that records the commands for limiters.
func commands(list *[]report.Command) func(context.Context, report.Command) (int, error) {
	return func(_ context.Context, c report.Command) (int, error) {
		*list = append(*list, c)
		return 0, nil
	}
}
