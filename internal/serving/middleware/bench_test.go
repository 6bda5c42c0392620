package middleware_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/middleware"
)

// blank is a ResponseWriter that costs nothing.
type blank struct{ h http.Header }

func (b blank) Header() http.Header         { return b.h }
func (b blank) Write(p []byte) (int, error) { return len(p), nil }
func (b blank) WriteHeader(int)             {}

func BenchmarkLayer(b *testing.B) {
	set, err := rules.Parse("config.yaml", []byte(config+`  - {name: news, match: {path: /news}, params: [id], hot: {rate: 10}, limit: {rate: 1}, cache: {ttl: 30s}}
`))
	if err != nil {
		b.Fatal(err)
	}
	mirror := new(hotset.Replica)
	mirror.Replace("b", report.HotSet{Version: 1, Keys: []hottype.HotKey{
		{Key: "topic?id=42", Until: time.Now().Add(time.Hour)}, {Key: "news?id=42", Until: time.Now().Add(time.Hour)},
	}})
	h := middleware.New(gate.New(gate.Config{Rules: set, Hot: mirror}), middleware.Options{}).Wrap(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for name, target := range map[string]string{
		"cold": "/topic?id=41&lang=en&page=3", "denied": "/topic?id=42&lang=en&page=3",
		"cached": "/news?id=42&lang=en&page=3",
	} {
		b.Run(name, func(b *testing.B) {
			w, r := blank{http.Header{}}, httptest.NewRequest(http.MethodGet, target, nil)
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(w, r)
			}
		})
	}
}
