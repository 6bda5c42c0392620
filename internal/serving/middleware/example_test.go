package middleware_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/middleware"
)

const config = `
rules:
  - name: topic
    match: {path: /topic}
    params: [id]
    hot:   {rate: 200, window: 5s}
    limit: {rate: 1/m, burst: 2}
`

// A service puts one line before its handler. What makes keys hot (an
// aggregator, here a hand) fills the replica.
func Example() {
	set, err := rules.Parse("config.yaml", []byte(config))
	if err != nil {
		fmt.Println(err)
		return
	}
	mirror := new(hotset.Replica)
	limited := middleware.New(gate.New(gate.Config{Rules: set, Hot: mirror}), middleware.Options{
		Clients: httplimit.NewClients([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, ""),
	})
	service := limited.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "topic ", r.URL.Query().Get("id"))
	}))

	until := time.Now().Add(time.Minute)
	mirror.Replace("aggregator", report.HotSet{Version: 1,
		Keys: []hottype.HotKey{{Key: "topic?id=42", Rule: "topic", Until: until}}})

	for _, target := range []string{"/topic?id=42", "/topic?id=42", "/topic?id=42", "/topic?id=7"} {
		w := httptest.NewRecorder()
		service.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
		fmt.Printf("%s: %d [%s]\n", target, w.Code, w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// /topic?id=42: 200 ["topic";q=2;w=120]
	// /topic?id=42: 200 ["topic";q=2;w=120]
	// /topic?id=42: 429 ["topic";q=2;w=120]
	// /topic?id=7: 200 []
}
