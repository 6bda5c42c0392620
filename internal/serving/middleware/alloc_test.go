//go:build !race

package middleware_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/middleware"
)

// Not parallel: allocations of other tests would count.
func TestColdRequestsAllocateNothing(t *testing.T) {
	clients := httplimit.NewClients([]netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, "")
	h := middleware.New(gate.New(gate.Config{}), middleware.Options{Clients: clients}).Wrap(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/topic?id=42&lang=en&page=3", nil)
	r.Header.Set("X-Forwarded-For", "198.51.100.7, 192.0.2.9")
	if n := testing.AllocsPerRun(100, func() { h.ServeHTTP(w, r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
