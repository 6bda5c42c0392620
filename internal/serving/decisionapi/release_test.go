package decisionapi

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/rules"
)

// A check with in_flight holds a slot until its token is released; a token cannot be guessed.
func TestRelease_ReturnsTheSlot(t *testing.T) {
	t.Parallel()
	set, err := rules.Parse("f.yaml", []byte("ip: {in_flight: {limit: 1, lease: 1h}}"))
	if err != nil {
		t.Fatal(err)
	}
	d := Decide(gate.New(gate.Config{Rules: set}))
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
	another := Decide(gate.New(gate.Config{Rules: set})) // with a key of its own
	for _, c := range []struct {
		body, want string
		status     int
	}{
		{`{"release":"` + another.releases.writeToken(&verdict.Verdict{Lease: &verdict.Lease{ID: "A"}}) + `"}`,
			"is not from a response of /v1/decide", http.StatusBadRequest},
		{`{"release":"` + first.Release[:60] + "!" + first.Release[61:] + `"}`, "is not from a response", http.StatusBadRequest},
		{`{"release":"` + first.Release + `AAAA"}`, "is not from a response", http.StatusBadRequest},
		{`{"release":"?"}`, "is not from a response of /v1/decide", http.StatusBadRequest},
		{`{"release":""}`, "is not from a response of /v1/decide", http.StatusBadRequest},
		{`{"release":"e30"}`, "is not from a response of /v1/decide", http.StatusBadRequest},
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

// A release with a status refunds the request's charge to its key's limit.
func TestRelease_RefundsByStatus(t *testing.T) {
	t.Parallel()
	set, err := rules.Parse("f.yaml", []byte(`
rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 1}, limit: {rate: 1, refund_status: [304]}}]
overrides: [{key: "topic?id=1", action: limit, rate: 0.001, burst: 1}]
`))
	if err != nil {
		t.Fatal(err)
	}
	d := Decide(gate.New(gate.Config{Rules: set}))
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
	if code, text := post(d.Release, `{"release":"e30","status":99}`); code != http.StatusBadRequest {
		t.Errorf("a wrong status: %d %s", code, text)
	}
}

// A token refunds once, and exactly the signed charges, at any limiter.
func TestRelease_RefundsOnce(t *testing.T) {
	t.Parallel()
	set, err := rules.Parse("f.yaml", []byte(`
rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 1}, limit: {rate: 1, refund_status: [304]}}]
overrides: [{key: "topic?id=1", action: limit, rate: 0.001, burst: 2}]
`))
	if err != nil {
		t.Fatal(err)
	}
	g := gate.New(gate.Config{Rules: set})
	one, two := Decide(g), Decide(g)
	one.SetSecrets([]string{"before", "new"})
	two.SetSecrets([]string{"new", "before"})
	ask := func() (allowed bool, token string) {
		w := httptest.NewRecorder()
		one.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/decide",
			strings.NewReader(`{"uri":"/topic?id=1","ip":"192.0.2.1","in_flight":true}`)))
		var v struct {
			Allowed bool
			Release string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		return v.Allowed, v.Release
	}
	release := func(d *Decider, token string) string {
		w := httptest.NewRecorder()
		d.Release(w, httptest.NewRequest(http.MethodPost, "/v1/release",
			strings.NewReader(`{"release":"`+token+`","status":304}`)))
		return strings.TrimSpace(w.Body.String())
	}
	_, first := ask()
	_, second := ask()
	for i, want := range []string{"true", "false", "false"} {
		if got := release(two, second); got != `{"released":`+want+`}` {
			t.Errorf("release %d: %s", i, got)
		}
	}
	if allowed, _ := ask(); !allowed {
		t.Error("nothing was refunded")
	}
	if allowed, _ := ask(); allowed {
		t.Error("one token refunded more than once")
	}
	signed, err := base64.RawURLEncoding.DecodeString(first)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{{`"Cost":1`, `"Cost":9`}, {"topic?id=1", "topic?id=2"}, {`"At":"2`, `"At":"3`}} {
		forged := strings.Replace(string(signed), c[0], c[1], 1)
		if forged == string(signed) {
			t.Fatalf("%s is not in %q", c[0], signed)
		}
		got := release(one, base64.RawURLEncoding.EncodeToString([]byte(forged)))
		if !strings.Contains(got, "is not from a response") {
			t.Errorf("%v: %s", c, got)
		}
	}
}

// usedNumbers agrees with a set of all used numbers.
func TestUsedNumbers_FindRepeatedUses(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var u usedNumbers
		seen, highest := map[[2]uint64]bool{}, map[uint64]uint64{}
		near := rapid.Uint64Range(1, 3*usedWindow)
		steps := rapid.SampledFrom([]uint64{0, 1, 2, usedWindow - 1, usedWindow, usedWindow + 1})
		for range rapid.IntRange(1, 60).Draw(t, "uses") {
			issuer, number := rapid.Uint64Range(0, 2).Draw(t, "issuer"), near.Draw(t, "number")
			if rapid.Bool().Draw(t, "near the highest or its place in the next round") {
				number = highest[issuer] + steps.Draw(t, "after") - min(highest[issuer], steps.Draw(t, "before"))
			}
			highest[issuer] = max(highest[issuer], number)
			want := !seen[[2]uint64{issuer, number}] && highest[issuer]-number < usedWindow
			if got := u.recordUse(issuer, number); got != want {
				t.Fatalf("number %d of issuer %d, the highest is %d: %v", number, issuer, highest[issuer], got)
			}
			seen[[2]uint64{issuer, number}] = true
		}
	})
	var u usedNumbers
	for issuer := range uint64(100) {
		if !u.recordUse(issuer, 7) || u.recordUse(issuer, 7) || len(u.issuers) > maxIssuers {
			t.Fatalf("issuer %d: %d remembered", issuer, len(u.issuers))
		}
	}
}

// A check with in_flight is measured until its release: by its caller's numbers, or by the time since the decision. It
// counts once, and the mean if nothing is known.
func TestRelease_HasCosts(t *testing.T) {
	t.Parallel()
	for cost, c := range map[string]struct {
		release string
		want    int64 // counts; -1: the time since the decision
	}{
		"time": {`"ms":812.5`, 812_500}, "bytes": {`"bytes":5000`, 5000}, "response.X-Cost": {`"cost":2.5,"ms":3`, 2500},
		"time ": {`"status":200`, -1},
	} {
		cost = strings.TrimSpace(cost)
		set, err := rules.Parse("f.yaml", []byte(`rules: [{name: report, match: {path: /report}, params: [{name: filter, `+
			`duplicates: last}], cost: `+cost+`, hot: {share: 0.5, min_rate: `+
			map[string]string{"time": "1s", "bytes": "1MB"}[cost]+map[string]string{"response.X-Cost": "1"}[cost]+`}}]`))
		if err != nil {
			t.Fatal(err)
		}
		counted := &countedCosts{}
		d := Decide(gate.New(gate.Config{Rules: set, Counter: counted}))
		post := func(h http.HandlerFunc, body string) (int, string) {
			w := httptest.NewRecorder()
			h(w, httptest.NewRequest(http.MethodPost, "/v1/x", strings.NewReader(body)))
			return w.Code, strings.TrimSpace(w.Body.String())
		}
		var v struct{ Release string }
		_, text := post(d.ServeHTTP, `{"uri":"/report?filter=full","ip":"192.0.2.1","in_flight":true}`)
		if err := json.Unmarshal([]byte(text), &v); err != nil || v.Release == "" || counted.cost != 0 {
			t.Fatalf("%s: %s, %v, %d counted", cost, text, err, counted.cost)
		}
		for name, bad := range map[string]string{"ms": "-1", "bytes": "1e99", "cost": "-0.1"} {
			if code, text := post(d.Release, `{"release":"`+v.Release+`","`+name+`":`+bad+`}`); code != http.StatusBadRequest ||
				!strings.Contains(text, name) {
				t.Errorf("%s %s: %d %s", name, bad, code, text)
			}
		}
		for range 2 {
			post(d.Release, `{"release":"`+v.Release+`",`+c.release+`}`)
		}
		switch got := counted.cost; {
		case c.want >= 0 && got != c.want, c.want < 0 && (got <= 0 || got > 60_000_000):
			t.Errorf("%s: %d counted, want %d", cost, got, c.want)
		}
		first := counted.cost
		if post(d.ServeHTTP, `{"uri":"/report?filter=full","ip":"192.0.2.1"}`); counted.cost != 2*first {
			t.Errorf("%s: %d counted for a caller that releases nothing, want the mean beside %d", cost, counted.cost, first)
		}
	}
}

// countedCosts adds up costs.
type countedCosts struct{ cost int64 }

func (c *countedCosts) AddFrom([]byte, int64, int64, hottype.Client) {}

func (c *countedCosts) AddCost(_ []byte, _, cost, _ int64, _ hottype.Client) { c.cost += cost }
