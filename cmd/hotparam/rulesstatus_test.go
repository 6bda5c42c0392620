package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/hotparam/pipeline/internal/operator/doctor"
)

const runningAnswer = `{"central":false,"rules":[{"name":"topic","note":"no request had topic_id in the last hour; ` +
	`seen: id"},{"name":"search"}],"processes":[{"kind":"aggregator","instance":"agg-2","running":0,"rules":"other"},` +
	`{"kind":"limiter","instance":"lim-1","running":4,"refused":5,"rules":"same"}]}`

// Without a central store the status names every process and the rules that cannot work. With a store it also shows the
// versions.
func TestRulesStatus_NamesEveryProcess(t *testing.T) {
	t.Parallel()
	answers := map[string]string{"GET /v1/rules/running": runningAnswer}
	_, to := listen(t, answers)
	status := func() string {
		var out bytes.Buffer
		if err := (&rulesStatusCmd{adminFlags: to}).Run(context.Background(), &kong.Kong{Stdout: &out}); err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(out.String()), " ")
	}
	got := status()
	for _, want := range []string{"agg-2 - - other", "lim-1 4 5 same", "the rules come from files",
		"rule topic: no request had topic_id in the last hour; seen: id"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
	answers["GET /v1/rules/running"] = strings.Replace(runningAnswer, "false", "true", 1)
	answers["GET /v1/rules"] = `{"store":"redis:","running":4,"version":5,"limiters":[]}`
	if got := status(); !strings.Contains(got, to.Admin+" 4 - -") || strings.Contains(got, "those of files") {
		t.Errorf("with a store: %s", got)
	}
}

// Doctor warns of rules that cannot work, and of processes with other rules, as the program at --admin knows them.
func TestDoctor_WarnsOfRulesThatCannotWork(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := "hotparam_up 1\n"
		if r.URL.Path == "/v1/rules/running" {
			text = runningAnswer
		}
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(srv.Close)
	report, text, code := startDoctor(t, "-o", "json", "-c", write(t, goodRules), "--admin", srv.URL).wait(t)
	found := map[string]doctor.Level{}
	for _, f := range report.Findings {
		found[f.What] = f.Level
	}
	if found[`rule "topic": no request had topic_id in the last hour; seen: id`] != doctor.Warn ||
		found["aggregator agg-2 runs other rules"] != doctor.Warn {
		b, _ := json.Marshal(found)
		t.Errorf("exit code %d: %s in %s", code, b, text)
	}
}
