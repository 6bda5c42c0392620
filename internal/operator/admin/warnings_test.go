package admin

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/report"
)

// troubleOf returns the page's list of troubles.
func (w *world) troubleOf(t *testing.T) string {
	t.Helper()
	var a struct{ Trouble []string }
	decode(t, w.ask(http.MethodGet, "/v1/hot", "").Body.Bytes(), &a)
	return strings.Join(a.Trouble, "\n")
}

// Limiters and aggregators that run other rules than this one are named after a while. Processes that run the same
// rules, or do not report them, are not named.
func TestTrouble_NamesProcessesWithOtherRules(t *testing.T) {
	t.Parallel()
	schemas := loadSchemas(t)
	hash := parseRules(t).Hash
	aggregators := []report.Aggregator{{Instance: "agg-1", RulesHash: hash, RulesVersion: 3}}
	w := newWorld(t, func(c *Config) {
		c.Aggregators = func(context.Context) ([]report.Aggregator, error) { return aggregators, nil }
	})
	say := func(seconds int, of string) {
		for range seconds {
			list := []report.Limiter{}
			for _, r := range []report.Limiter{{Instance: "lim-1", RulesHash: hash},
				{Instance: "lim-2", RulesHash: of}, {Instance: "lim-3"}} {
				r.At = w.clock().Add(time.Second)
				list = append(list, r)
			}
			w.second(list...)
		}
	}
	if say(30, hash); w.troubleOf(t) != "" {
		t.Errorf("with the same rules: %s", w.troubleOf(t))
	}
	if say(10, "0000"); w.troubleOf(t) != "" {
		t.Errorf("while a change takes effect: %s", w.troubleOf(t))
	}
	w.set(func() {
		aggregators = append(aggregators, report.Aggregator{Instance: "agg-2", RulesHash: "0000"})
	})
	say(20, "0000")
	if got := w.troubleOf(t); !strings.Contains(got, "run: aggregator agg-2, limiter lim-2.") {
		t.Errorf("after a while: %q", got)
	}
	rec := w.ask(http.MethodGet, "/v1/rules/running", "")
	schemas.answer(t, rec, http.StatusOK, "RunningRules")
	for _, want := range []string{`"instance":"agg-1","running":3,"rules":"same"`,
		`"instance":"agg-2","running":0,"rules":"other"`,
		`"instance":"lim-2","running":0,"rules":"other"`, `"instance":"lim-3","running":0,"rules":"unknown"`} {
		if !strings.Contains(rec.Body.String(), want) {
			t.Errorf("%s is not in %s", want, rec.Body)
		}
	}
	w.set(func() { aggregators = aggregators[:1] })
	if say(2, hash); w.troubleOf(t) != "" {
		t.Errorf("after they were made equal: %s", w.troubleOf(t))
	}
}

// A rule whose parameter no request has is in the trouble and beside the rule, and one without requests beside the
// rule alone.
func TestRuleNotes_AreShown(t *testing.T) {
	t.Parallel()
	schemas := loadSchemas(t)
	w := newWorld(t, nil)
	began := t0.Add(-2 * time.Hour).Unix()
	for range 3 {
		w.second(report.Limiter{Instance: "a", At: w.clock().Add(time.Second), Use: []report.RuleUse{
			{Rule: "topic", Params: "id", Since: began, Matched: w.clock().Unix(), Seconds: 100,
				Names: []report.NameCount{{Name: "topic_id", N: 4}}},
			{Rule: "*", Params: "*", Since: began},
		}})
	}
	const want = `rule "topic": no request had id in the last hour; seen: topic_id.`
	if got := w.troubleOf(t); !strings.Contains(got, want) ||
		strings.Contains(got, "matched") {
		t.Errorf("trouble: %q", got)
	}
	rec := w.ask(http.MethodGet, "/v1/rules/running", "")
	schemas.answer(t, rec, http.StatusOK, "RunningRules")
	if !strings.Contains(rec.Body.String(), `"note":"no request had id in the last hour; seen: topic_id`) ||
		!strings.Contains(rec.Body.String(), `"note":"no request matched it in the last hour"`) {
		t.Errorf("%s", rec.Body)
	}
}

// An upstream that fails every request of a limiter has a chip and a sentence, until it answers or the limiter is gone.
func TestFailingUpstream_IsTrouble(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	report := func(id string, n uint64) report.Limiter {
		r := report.Limiter{Instance: id, At: w.clock().Add(time.Second)}
		if n > 0 {
			r.FailingUpstreams = []report.FailingUpstream{{Name: "default", Since: t0.Add(-time.Minute), N: n}}
		}
		return r
	}
	w.second(report("a", 7), report("b", 5))
	want := `The upstream "default" fails every request since ` +
		t0.Add(-time.Minute).UTC().Format("15:04:05 MST") + ": 12 so far."
	if got := w.troubleOf(t); !strings.Contains(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if st := w.Status(); len(st) != 1 || st[0].OK || st[0].Name != "upstream default" ||
		st[0].Value != "no answer, 12 requests failed" {
		t.Errorf("chips: %+v", st)
	}
	w.second(report("a", 8), report("b", 0))
	if got := w.troubleOf(t); !strings.Contains(got, "fails every request of 1 limiters, such as a since") {
		t.Errorf("of one limiter: %q", got)
	}
	w.second(report("a", 0), report("b", 0))
	if got := w.troubleOf(t); got != "" || len(w.Status()) != 0 {
		t.Errorf("after its answer: %q, %v", got, w.Status())
	}
}
