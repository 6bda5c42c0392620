package gate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// A traced client is recorded for a minute with its keys and verdicts, in bounded memory; others are not.
func TestTraceRecordsOneClient(t *testing.T) {
	t.Parallel()
	b := build(t, orderRules, gate.Config{})
	b.SetOverrides([]rules.Override{{ID: "no", Key: "topic?id=7", Action: rules.ActionBlock}})
	decide := func(target, client string) { b.Decide(t.Context(), b.now, request(target, client)) }
	decide("/topic?id=1", "192.0.2.7") // before the trace
	b.Trace(b.now, hottype.ParseClient("192.0.2.7"))
	b.Trace(b.now, hottype.Client{Name: "198.51.100.0/24"})
	for range 3 {
		decide("/topic?id=1", "192.0.2.7")
	}
	decide("/topic?id=7", "192.0.2.7")
	decide("/topic?id=1", "192.0.2.8")
	decide("/topic?id=1", "198.51.100.9")
	r := b.Report(b.now)
	if len(r.Traces) != 2 || r.Traces[0].Client != "192.0.2.7" || r.Traces[0].N != 4 || len(r.Traces[0].Rows) != 2 ||
		r.Traces[1].Client != "198.51.100.0/24" || r.Traces[1].N != 1 {
		t.Fatalf("%+v", r.Traces)
	}
	want := []report.TracedKey{{Key: "topic?id=1", Allowed: true, Reason: hottype.ReasonCold, N: 3, Last: b.now},
		{Key: "topic?id=7", Reason: hottype.ReasonBlocked, N: 1, Last: b.now}}
	for i, row := range r.Traces[0].Rows {
		if row != want[i] {
			t.Errorf("%+v, want %+v", row, want[i])
		}
	}
	for i := range 1000 {
		decide(fmt.Sprintf("/topic?id=many%d", i), "192.0.2.7")
	}
	if one := b.Report(b.now).Traces[0]; one.N != 1004 || len(one.Rows) > 50 {
		t.Errorf("%d requests, %d rows", one.N, len(one.Rows))
	}
	b.now = b.now.Add(40 * time.Second)
	b.Trace(b.now, hottype.ParseClient("192.0.2.7")) // goes on with its counts
	b.now = b.now.Add(40 * time.Second)
	if r := b.Report(b.now); len(r.Traces) != 1 || r.Traces[0].N != 1004 {
		t.Errorf("%+v", r.Traces)
	}
	b.now = b.now.Add(time.Minute)
	if r := b.Report(b.now); r.Traces != nil {
		t.Errorf("%+v", r.Traces)
	}
	for i := range 20 {
		b.Trace(b.now.Add(time.Duration(i)*time.Second), hottype.Client{Name: fmt.Sprint("client", i)})
	}
	if r := b.Report(b.now.Add(20 * time.Second)); len(r.Traces) != 8 || r.Traces[7].Client != "client19" {
		t.Errorf("%d traces: %+v", len(r.Traces), r.Traces)
	}
}

// A report has the whole key of an alias, once a request had it.
func TestReportHasTheKeyOfAnAlias(t *testing.T) {
	t.Parallel()
	b := build(t, orderRules, gate.Config{})
	key := "topic?id=" + strings.Repeat("v", 250)
	alias, ok := canon.Alias([]byte(key), nil)
	if !ok {
		t.Fatal("no alias")
	}
	b.hot(hottype.Key(alias), "topic?id=42")
	b.get("/topic?id=42", "")
	if k := b.Report(b.now).Keys; k[0].Full != "" || k[1].Full != "" {
		t.Errorf("before a request: %+v", k)
	}
	b.get("/"+key, "")
	for _, k := range b.Report(b.now).Keys {
		if want := map[string]string{string(alias): key}[string(k.Key)]; string(k.Full) != want {
			t.Errorf("%+v", k)
		}
	}
}

func TestTraceOfARequestWithoutARule(t *testing.T) {
	t.Parallel()
	b := build(t, orderRules, gate.Config{})
	b.Trace(b.now, hottype.ParseClient("192.0.2.7"))
	b.Decide(t.Context(), b.now, request("/of/no/rule", "192.0.2.7"))
	if r := b.Report(b.now); len(r.Traces) != 1 || len(r.Traces[0].Rows) != 1 || r.Traces[0].Rows[0].Key != "" ||
		r.Traces[0].Rows[0].Reason != hottype.ReasonNoRule {
		t.Errorf("%+v", r.Traces)
	}
}
