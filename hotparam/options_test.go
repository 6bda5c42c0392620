package hotparam_test

import (
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam"
)

// blocked blocks one topic for ever and limits a client to a request an hour.
const blocked = `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 200}, limit: {rate: 100}}
overrides:
  - {key: "topic?id=42", action: block}
ip: {sliding: {limit: 2, window: 1h}}
`

// A service identifies its users, charges a search as three, and denies in its own words.
func ExamplePipeline_MiddlewareWith() {
	rules, err := hotparam.ParseRules("rules.yaml", []byte(blocked))
	if err != nil {
		log.Fatal(err)
	}
	p, err := hotparam.New(hotparam.Config{Rules: rules})
	if err != nil {
		log.Fatal(err)
	}
	limited := p.MiddlewareWith(hotparam.Options[hotparam.Exchange]{
		Skip:   func(x hotparam.Exchange) bool { return x.R.URL.Path == "/health" },
		Client: func(x hotparam.Exchange) (string, error) { return x.R.Header.Get("X-User"), nil }, // set by your login
		Deny: func(x hotparam.Exchange, v *hotparam.Verdict) error {
			x.W.WriteHeader(http.StatusTooManyRequests)
			_, err := fmt.Fprintln(x.W, "Not now:", v.Reason)
			return err
		},
	})
	service := limited(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "welcome") }))
	for _, target := range []string{"/topic?id=42", "/topic?id=7", "/health"} {
		w := httptest.NewRecorder()
		service.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
		fmt.Print(w.Code, " ", w.Body)
	}
	// Output:
	// 429 Not now: blocked
	// 200 welcome
	// 200 welcome
}

type options = hotparam.Options[hotparam.Exchange]

func TestOptions(t *testing.T) {
	t.Parallel()
	failing := func(hotparam.Exchange) (string, error) { return "", errors.New("no token") }
	user := func(x hotparam.Exchange) (string, error) { return x.R.Header.Get("X-User"), nil }
	const otherAddress, sameAddress = true, false
	for name, c := range map[string]struct {
		options options
		user    [3]string
		moving  bool // each request comes from another address
		want    string
	}{
		"by address":      {options{}, [3]string{}, sameAddress, "200 200 429"},
		"other addresses": {options{}, [3]string{}, otherAddress, "200 200 200"},
		"by name":         {options{Client: user}, [3]string{"anna", "anna", "anna"}, otherAddress, "200 200 429"},
		"other names":     {options{Client: user}, [3]string{"anna", "bert", "carl"}, sameAddress, "200 200 200"},
		"long names": {options{Client: user}, [3]string{long + "a", long + "a", long + "b"}, sameAddress,
			"200 200 200"},
		"no name": {options{Client: user}, [3]string{}, sameAddress, "200 200 429"},
		"a name like no limit": {options{Client: user}, [3]string{"127.0.0.1", "127.0.0.1", "127.0.0.1"}, otherAddress,
			"200 200 429"},
		"failing": {options{Client: failing}, [3]string{}, sameAddress, "200 200 429"},
		"failing, answered": {options{Client: failing, OnClientError: func(x hotparam.Exchange, err error) error {
			x.W.WriteHeader(http.StatusUnauthorized)
			return nil
		}}, [3]string{}, sameAddress, "401 401 401"},
		"cost": {options{Cost: func(hotparam.Exchange) int64 { return 2 }}, [3]string{}, sameAddress,
			"200 429 429"},
		"negative cost": {options{Cost: func(hotparam.Exchange) int64 { return -1 }}, [3]string{}, sameAddress,
			"429 429 429"},
		"skip": {options{Skip: func(hotparam.Exchange) bool { return true }}, [3]string{}, sameAddress,
			"200 200 200"},
		"status": {options{Status: 503}, [3]string{}, sameAddress, "200 200 503"},
	} {
		p := newPipeline(t, hotparam.Config{}, blocked)
		h := p.MiddlewareWith(c.options)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		var got []string
		for i, user := range c.user {
			r := httptest.NewRequest(http.MethodGet, "/topic?id=7", nil)
			r.Header.Set("X-User", user)
			if c.moving {
				r.RemoteAddr = fmt.Sprintf("198.51.100.%d:1", i)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			got = append(got, fmt.Sprint(w.Code))
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

var long = strings.Repeat("x", 1<<10)
