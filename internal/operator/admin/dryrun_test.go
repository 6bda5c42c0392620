package admin

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/history"
	"github.com/hotparam/pipeline/internal/operator/admin/past"
	"github.com/hotparam/pipeline/internal/report"
)

// pastKeys are two minutes of keys: one hot and held to 100/s, one that was nearly hot, a loop, one of the catch-all.
func pastKeys() history.Answer {
	past := history.Answer{From: t0.Add(-10 * time.Minute), To: t0}
	for i := range 2 {
		minute := t0.Add(time.Duration(i-2) * time.Minute)
		past.Totals = append(past.Totals, history.Total{Minute: minute})
		past.Keys = append(past.Keys,
			history.KeyMinute{Minute: minute, Key: "/news?id=1", Rule: "*", State: history.Cold, Rate: 60, Peak: 70},
			history.KeyMinute{Minute: minute, Key: "topic?id=1", Rule: "topic", State: history.Hot, Rate: 300, Peak: 400,
				Allowed: 6000, Denied: 12_000, Clients: 500},
			history.KeyMinute{Minute: minute, Key: "topic?id=2", Rule: "topic", State: history.Cold, Rate: 100, Peak: 150,
				Clients: 90},
			history.KeyMinute{Minute: minute, Key: "topic?id=3", Rule: "topic", State: history.Loop, Rate: 250, Peak: 300,
				Clients: 1},
			history.KeyMinute{Minute: minute, Key: "topic?id=7", Rule: "topic", State: history.Hot, Rate: 250, Peak: 300,
				Clients: 400},
		)
	}
	return past
}

func TestDryRun_ReportsChangedKeys(t *testing.T) {
	t.Parallel()
	s := loadSchemas(t)
	type change struct {
		after                 string
		before, wouldBeDenied float64
	}
	for name, c := range map[string]struct {
		was, is string // in the rules file
		want    map[hottype.Key]change
	}{
		"nothing": {"namespace: news", "namespace: news", map[hottype.Key]change{}},
		// Of 36,000 requests 200 pass at once and 100/s in 119.9 s; of 100/s all.
		"a lower threshold": {"hot: {rate: 200,", "hot: {rate: 120,", map[hottype.Key]change{
			"topic?id=1": {"hot", 24_000, 23_810}, "topic?id=2": {"hot", 0, 0},
		}},
		"a higher threshold": {"hot: {rate: 200,", "hot: {rate: 350,", map[hottype.Key]change{
			"topic?id=1": {"hot", 24_000, 23_810}, "topic?id=3": {"cold", 0, 0}, "topic?id=7": {"cold", 0, 0},
		}},
		"a threshold of clients": {"hot: {rate: 200,", "hot: {rate: 200, min_clients: 30,", map[hottype.Key]change{
			"topic?id=1": {"hot", 24_000, 23_810},
		}},
		"a lower limit": {"rate: 100, burst: 200}\n  - name", "rate: 50, burst: 100}\n  - name", map[hottype.Key]change{
			"topic?id=1": {"hot", 24_000, 29_905},
		}},
		"an override": {"action: exempt", "action: block", map[hottype.Key]change{"topic?id=7": {"hot", 0, 30_000}}},
		"other parameters": {"params: [id]", "params: [id, page]", map[hottype.Key]change{
			"topic?id=1": {"recounted", 24_000, 0}, "topic?id=2": {"recounted", 0, 0},
			"topic?id=3": {"recounted", 0, 0}, "topic?id=7": {"recounted", 0, 0},
		}},
		"a rule before the catch-all": {"  - name: \"*\"",
			"  - {name: news, match: {path: /news}, params: [id], hot: {rate: 50}, limit: {rate: 10}}\n  - name: \"*\"",
			map[hottype.Key]change{"/news?id=1": {"recounted", 0, 0}}},
		"no catch-all": {rulesFile[strings.Index(rulesFile, "  - name: \"*\""):strings.Index(rulesFile, "ip:")], "",
			map[hottype.Key]change{"/news?id=1": {"uncounted", 0, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			central, h := &centralRules{}, kept{answer: pastKeys()}
			w := newWorld(t, func(cfg *Config) { cfg.Central, cfg.History = central, &h })
			if !strings.Contains(rulesFile, c.was) {
				t.Fatalf("no %q in the rules", c.was)
			}
			rec := w.ask(http.MethodPut, "/v1/rules?dry_run=1", strings.Replace(rulesFile, c.was, c.is, 1))
			s.answer(t, rec, 200, "DryRun")
			var a DryRun
			if err := json.Unmarshal(rec.Body.Bytes(), &a); err != nil {
				t.Fatal(err)
			}
			got := map[hottype.Key]change{}
			for _, k := range a.Keys {
				got[k.Key] = change{k.After, k.DeniedBefore, k.DeniedAfter}
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(change{})); diff != "" || a.Minutes != 2 ||
				a.Unchanged != 5-len(c.want) || a.Truncated {
				t.Errorf("%+v: %s", a, diff)
			}
			if central.stored != nil || h.asked.From != t0.Add(-10*time.Minute) || h.asked.To != t0 {
				t.Errorf("stored %+v, asked %+v", central.stored, h.asked)
			}
		})
	}
}

// A dry run tries windows of clients on what limiters have reported of the last minute, weighted by their rates, and
// says so if they have reported nothing.
func TestDryRun_TriesWindowsOfClients(t *testing.T) {
	t.Parallel()
	s, h := loadSchemas(t), kept{}
	w := newWorld(t, func(cfg *Config) { cfg.Central, cfg.History = &centralRules{}, &h })
	text := strings.Replace(rulesFile, "rules:\n", `rules:
  - {name: login, match: {path: /login, methods: [POST]}, per_client: {fixed: {limit: 60, window: 1m}}}
`, 1)
	ask := func() (a DryRun) {
		t.Helper()
		rec := w.ask(http.MethodPut, "/v1/rules?dry_run=1", text)
		s.answer(t, rec, 200, "DryRun")
		decode(t, rec.Body.Bytes(), &a)
		return a
	}
	if a := ask(); a.Windows == nil || len(a.Windows.NotTried) != 1 || len(a.Windows.Rules) != 0 {
		t.Fatalf("without reports: %+v", a.Windows)
	}
	login := func(n uint64) []report.NameCount { return []report.NameCount{{Name: "POST news.example/login", N: n}} }
	for n := uint64(1); n <= 2; n++ {
		w.second(
			report.Limiter{Instance: "a", At: t0.Add(time.Duration(n) * time.Second), Allowed: 90 * n,
				Clients: []report.SampledClient{{Client: "198.51.100.1", N: 10, Requests: login(8)},
					{Client: "198.51.100.2", N: 20, Requests: login(30)}}}, // more than all
			report.Limiter{Instance: "b", At: t0.Add(time.Duration(n) * time.Second), Allowed: 10 * n,
				Clients: []report.SampledClient{{Client: "198.51.100.1", N: 10, Requests: login(10)}}})
	}
	// A sample of a is 3 requests a second, a sample of b 1. The rules have 50 a second for each client already.
	want := past.WindowTrials{Sampled: 40, KnownFrom: new(12.5), NotTried: []string{}, Rules: []past.WindowTrial{
		{Requests: new(100.0), Clients: 2, DeniedBefore: new(10.0), DeniedAfter: new(10.0), ClientsBefore: 1,
			ClientsAfter: 1, Examples: []string{"198.51.100.2"}},
		{Rule: "login", Requests: new(94.0), Clients: 2, DeniedBefore: new(0.0), DeniedAfter: new(92.0), ClientsAfter: 2,
			Examples: []string{"198.51.100.2", "198.51.100.1"}},
	}}
	if diff := cmp.Diff(&want, ask().Windows); diff != "" {
		t.Error(diff)
	}
}

// A dry run finds the rule of an alias, although an alias has no resource by which a rule is found.
func TestDryRun_FindsRuleOfAlias(t *testing.T) {
	t.Parallel()
	const alias = "!hp1:topic.id=ZE4Zh0123456789abcdef0123456789abcdef"
	h := kept{answer: history.Answer{Keys: []history.KeyMinute{{Minute: t0, Key: alias, Rule: "topic",
		State: history.Cold, Rate: 100, Peak: 150, Clients: 90}}}}
	w := newWorld(t, func(cfg *Config) { cfg.Central, cfg.History = &centralRules{}, &h })
	rec := w.ask(http.MethodPut, "/v1/rules?dry_run=1", strings.Replace(rulesFile, "rate: 200", "rate: 120", 1))
	var a DryRun
	if decode(t, rec.Body.Bytes(), &a); len(a.Keys) != 1 || a.Keys[0].After != history.Hot {
		t.Errorf("%s", rec.Body)
	}
}

func TestDryRun_ReportsWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := loadSchemas(t)
	h := kept{fails: errors.New("disk full")}
	w := newWorld(t, func(c *Config) { c.Central, c.History = &centralRules{}, &h })
	for target, status := range map[string]int{"?dry_run=maybe": 400, "?dry_run=1": 422} {
		s.answer(t, w.ask(http.MethodPut, "/v1/rules"+target, "rules: ["), status, "Problem")
	}
	s.answer(t, w.ask(http.MethodPut, "/v1/rules?dry_run=1", rulesFile), 503, "Problem")
	w = newWorld(t, func(c *Config) { c.Central = &centralRules{} })
	s.answer(t, w.ask(http.MethodPut, "/v1/rules?dry_run=1", rulesFile), 404, "Problem")
}
