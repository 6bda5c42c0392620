package metrics_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/operator/metrics"
	"github.com/hotparam/pipeline/internal/operator/replay"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// A reason is added by one constant and one entry of the table in hottype. This test names each
// place that shows reasons and finds all of them there.
func TestEachReason_IsShownEverywhere(t *testing.T) {
	t.Parallel()
	api, err := os.ReadFile("../admin/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	for r := range hottype.Reasons() {
		name, info := r.String(), r.Info()
		var back hottype.Reason
		if err := back.UnmarshalText([]byte(name)); err != nil || back != r || name == "" || info.Meaning == "" {
			t.Errorf("%s: read as %v, means %q: %v", name, back, info.Meaning, err)
		}
		var stats gate.Stats
		stats.Allowed[r], stats.Denied[r] = 7, 9
		shown := scrape(t, metrics.Of(func() gate.Stats { return stats }))
		if strings.Contains(shown, fmt.Sprintf("hotparam_gate_allowed_total{reason=%q} 7\n", name)) != info.Allows ||
			strings.Contains(shown, fmt.Sprintf("hotparam_gate_denied_total{reason=%q} 9\n", name)) != info.Denies {
			t.Errorf("%s: the metrics do not show what it allows and denies", name)
		}
		if !info.Denies {
			continue
		}
		if !bytes.Contains(api, []byte(`"`+name+`"`)) {
			t.Errorf("%s: openapi.json lacks it", name)
		}
		text, err := json.Marshal(report.Limiter{Denied: stats.Denied})
		var report report.Limiter
		if err := errors.Join(err, json.Unmarshal(text, &report)); err != nil || report.Denied != stats.Denied {
			t.Errorf("%s: a report has %v after JSON: %v", name, report.Denied, err)
		}
		rep, out := replay.Report{Requests: 9, Denied: stats.Denied}, bytes.Buffer{}
		rep.Timeline = replay.Timeline{Step: 1, Requests: []int64{9}, Denied: []int64{9}, Peak: []int64{9}}
		if err := replay.Write(&out, &rep, replay.Options{}); err != nil ||
			!strings.Contains(out.String(), info.Replayed) {
			t.Errorf("%s: a replay does not report it: %v", name, err)
		}
		out.Reset()
		if err := rep.WriteJSON(&out); err != nil || !strings.Contains(out.String(), fmt.Sprintf("%q:9", name)) {
			t.Errorf("%s: the JSON of a replay lacks it: %v", name, err)
		}
		answer := httptest.NewRecorder()
		(&httplimit.Responder{}).Enforce(answer, httptest.NewRequest("GET", "/", nil), &hottype.Verdict{Reason: r})
		if body := answer.Body.String(); !strings.Contains(body, info.Detail) || !strings.Contains(body, name) {
			t.Errorf("%s: an answer to a client lacks it: %s", name, body)
		}
	}
}
