package middleware_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/middleware"
)

// Requests whose responses have one of the statuses are refunded, whether the handler writes the status, writes nothing
// or panics, with and without a response cache in front.
func TestLayer_RefundsByStatus(t *testing.T) {
	t.Parallel()
	for serve, rule := range map[string]string{"": "", ", cache: {ttl: 0s}": "with a cache"} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			set, err := rules.Parse("f.yaml", []byte(`rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 1},
  limit: {rate: 0.001, burst: 3, refund_status: [304, 5xx]}`+serve+`}]`))
			if err != nil {
				t.Fatal(err)
			}
			hot := new(hotset.Replica)
			hot.Replace("test", report.HotSet{Version: 1, At: time.Now(),
				Keys: []hottype.HotKey{{Key: "topic?id=1", Rule: "topic", Until: time.Now().Add(time.Hour)}}})
			h := middleware.New(gate.New(gate.Config{Rules: set, Hot: hot}),
				middleware.Options{}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch how := r.Header.Get("How"); how {
				case "":
				case "panic":
					panic(http.ErrAbortHandler)
				default:
					status, _ := strconv.Atoi(how)
					w.WriteHeader(status)
				}
			}))
			ask := func(how string) int {
				r := httptest.NewRequest(http.MethodGet, "/topic?id=1", http.NoBody)
				if how != "" {
					r.Header.Set("How", how)
				}
				w := httptest.NewRecorder()
				func() {
					defer func() { _ = recover() }()
					h.ServeHTTP(w, r)
				}()
				return w.Code
			}
			for range 20 {
				for _, how := range []string{"304", "500", "599", "panic"} {
					if ask(how) == http.StatusTooManyRequests {
						t.Fatalf("an answer %s cost something", how)
					}
				}
			}
			passed := 0
			for i := range 9 {
				if ask([]string{"", "200", "404"}[i%3]) != http.StatusTooManyRequests {
					passed++
				}
			}
			if passed != 3 {
				t.Errorf("%d other answers passed, want 3", passed)
			}
		})
	}
}
