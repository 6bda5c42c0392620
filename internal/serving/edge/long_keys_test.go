package edge_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A client that heats long keys makes gateways ask about long keys, not about everything.
func TestFeed_AsksAboutLongKeysAndNoOthers(t *testing.T) {
	t.Parallel()
	s := newSite(t, feedRules)
	keys := []string{"topic?id=1"}
	for i := range 200 {
		keys = append(keys, fmt.Sprintf("topic?id=%s%d", strings.Repeat("%21", 8000), i))
	}
	s.publish(1, keys...)
	w := httptest.NewRecorder()
	s.feed.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/edge", nil))
	body := w.Body.String()
	if len(body) > 300 || strings.Contains(body, "\nask ") || !strings.Contains(body, "\nlongest 1024\n") ||
		!strings.Contains(body, "\nk d topic?id=1\n") {
		t.Errorf("%d bytes: %.300s", len(body), body)
	}
	s.publish(2, keys[0], "topic?id="+strings.Repeat("a", 1000))
	w = httptest.NewRecorder()
	s.feed.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/edge", nil))
	if body := w.Body.String(); strings.Contains(body, "\nlongest ") || strings.Count(body, "\nk d ") != 2 {
		t.Errorf("without long keys: %.300s", body)
	}
}
