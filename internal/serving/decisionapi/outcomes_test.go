package decisionapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/serving/decisionapi"
)

// told is a gate that takes outcomes of one upstream.
type told struct {
	yes
	heard []string
}

func (g *told) RecordOutcomes(_ time.Time, upstream string, took time.Duration, status int, n int64) bool {
	g.heard = append(g.heard, fmt.Sprintf("%s %d %v x%d", upstream, status, took, n))
	return upstream == "default"
}

func TestOutcomes_RecordsOrRejectsAList(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		body   string
		status int
		answer string
		heard  string
	}{
		{`[{"upstream":"default","status":200,"ms":35.25},{"upstream":"x","status":0,"ms":1,"count":7}]`, 200,
			`{"taken":1}`,
			"default 200 35.25ms x1, x 0 1ms x7"},
		{`[]`, 200, `{"taken":0}`, ""},
		{`[{"upstream":"default","ms":1},{"status":200}]`, 400, `outcome 1: wants \"upstream\"`, ""},
		{`[{"upstream":"default","ms":-1}]`, 400, `\"ms\" -1 is not 0 to 600000`, ""},
		{`[{"upstream":"default","status":99}]`, 400, `\"status\" 99 is not`, ""},
		{`[{"upstream":"default","count":0}]`, 400, `\"count\" 0 is not 1 to 100000`, ""},
		{`[{"upstream":"default","latency":1}]`, 400, `unknown field`, ""},
		{`{"upstream":"default"}`, 400, `want [{`, ""},
		{`[{"upstream":"default"}] x`, 400, "text after the list", ""},
		{`[{"upstream":"default"}][]`, 400, "text after the list", ""},
		{`[` + strings.Repeat(`{"upstream":"default"},`, 1000) + `{"upstream":"default"}]`, 400,
			"1001 outcomes are more than 1000", ""},
		{`["` + strings.Repeat("a", 256<<10) + `"]`, 413, "longer", ""},
	} {
		g := &told{}
		d := decisionapi.Decide(g)
		w := httptest.NewRecorder()
		d.Outcomes(w, httptest.NewRequest(http.MethodPost, "/v1/outcomes", strings.NewReader(c.body)))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.answer) ||
			strings.Join(g.heard, ", ") != c.heard {
			t.Errorf("%.80s: %d %s %q", c.body, w.Code, w.Body, g.heard)
		}
	}
	w := httptest.NewRecorder()
	decisionapi.Decide(yes{}).
		Outcomes(w, httptest.NewRequest(http.MethodGet, "/v1/outcomes", nil))
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != http.MethodPost {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}
