package decisionapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/rules"
)

// A check with in_flight holds a slot until its token is released; a token cannot be guessed.
func TestReleaseGivesThePlaceBack(t *testing.T) {
	t.Parallel()
	set, err := rules.Parse("f.yaml", []byte("ip: {in_flight: {limit: 1, lease: 1h}}"))
	if err != nil {
		t.Fatal(err)
	}
	d := Decide(gate.New(gate.Config{Rules: set}), Options{})
	post := func(h http.HandlerFunc, body string) (int, string) {
		w := httptest.NewRecorder()
		h(w, httptest.NewRequest(http.MethodPost, "/v1/x", strings.NewReader(body)))
		return w.Code, strings.TrimSpace(w.Body.String())
	}
	const check = `{"uri":"/x","ip":"192.0.2.1","in_flight":true}`
	var first struct {
		Allowed bool
		Release string
	}
	_, text := post(d.ServeHTTP, check)
	if err := json.Unmarshal([]byte(text), &first); err != nil || !first.Allowed || first.Release == "" {
		t.Fatalf("%s, %v", text, err)
	}
	lease, err := readToken(first.Release)
	if err != nil {
		t.Fatal(err)
	}
	guessed := *lease.Lease
	guessed.ID = strings.Repeat("A", len(lease.ID))
	for _, c := range []struct {
		body, want string
		status     int
	}{
		{`{"release":"` + releaseToken(&hottype.Verdict{Lease: &guessed}) + `"}`, `{"released":false}`, http.StatusOK},
		{`{"release":"?"}`, "is not what /v1/decide said", http.StatusBadRequest},
		{`{"release":""}`, "is not what /v1/decide said", http.StatusBadRequest},
		{`{"release":"e30"}`, "is not what /v1/decide said", http.StatusBadRequest},
		{`{"release":7}`, "Want {", http.StatusBadRequest},
		{`[`, "Want {", http.StatusBadRequest},
		{`{"release":"` + strings.Repeat("A", maxReleaseBytes) + `"}`, "longer", http.StatusRequestEntityTooLarge},
	} {
		if status, text := post(d.Release, c.body); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%.60s: %d %s, want %d %s", c.body, status, text, c.status, c.want)
		}
	}
	if _, text := post(d.ServeHTTP, check); !strings.Contains(text, `"ip_in_flight"`) {
		t.Errorf("a second one: %s", text)
	}
	if _, text := post(d.ServeHTTP, `{"uri":"/x","ip":"192.0.2.1"}`); !strings.Contains(text, `"allowed":true`) {
		t.Errorf("a caller that releases nothing: %s", text)
	}
	for _, want := range []string{`{"released":true}`, `{"released":false}`} {
		if _, text := post(d.Release, `{"release":"`+first.Release+`"}`); text != want {
			t.Errorf("%s, want %s", text, want)
		}
	}
	if _, text := post(d.ServeHTTP, check); !strings.Contains(text, `"allowed":true`) {
		t.Errorf("after the release: %s", text)
	}
}

// With the status of its answer a request gets back what it took of its key's limit; what a
// token may say is bounded.
func TestReleaseWithAStatus(t *testing.T) {
	t.Parallel()
	set, err := rules.Parse("f.yaml", []byte(`
rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 1}, limit: {rate: 1, refund_status: [304]}}]
overrides: [{key: "topic?id=1", action: limit, rate: 0.001, burst: 1}]
`))
	if err != nil {
		t.Fatal(err)
	}
	d := Decide(gate.New(gate.Config{Rules: set}), Options{})
	post := func(h http.HandlerFunc, body string) (int, string) {
		w := httptest.NewRecorder()
		h(w, httptest.NewRequest(http.MethodPost, "/v1/x", strings.NewReader(body)))
		return w.Code, strings.TrimSpace(w.Body.String())
	}
	for i, status := range []string{`,"status":304`, `,"status":200`, ""} {
		var v struct {
			Allowed bool
			Release string
		}
		_, text := post(d.ServeHTTP, `{"uri":"/topic?id=1","ip":"192.0.2.1","in_flight":true}`)
		if err := json.Unmarshal([]byte(text), &v); err != nil || v.Allowed != (i < 2) ||
			v.Allowed == (v.Release == "") {
			t.Fatalf("%d: %s, %v", i, text, err)
		}
		if !v.Allowed {
			break
		}
		if code, text := post(d.Release, `{"release":"`+v.Release+`"`+status+`}`); code != http.StatusOK ||
			text != `{"released":true}` {
			t.Errorf("%s: %d %s", status, code, text)
		}
	}
	many := releaseToken(&hottype.Verdict{Refund: &hottype.Refund{Charges: make([]hottype.KeyCharge, rules.MaxKeys+1)}})
	for _, body := range []string{`{"release":"` + many + `","status":304}`, `{"release":"e30","status":99}`} {
		if code, text := post(d.Release, body); code != http.StatusBadRequest {
			t.Errorf("%.60s: %d %s", body, code, text)
		}
	}
}
