//go:build !race

package hotparam_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hotparam/pipeline/hotparam"
)

// The test is not parallel, because allocations of other tests would count.
func TestMiddlewareWith_AllocatesForInContextAlone(t *testing.T) {
	p := newPipeline(t, hotparam.Config{}, elsewhere)
	for in, want := range map[bool]float64{false: 0, true: 3} { // request, context, and verdict with client
		h := p.MiddlewareWith(options{InContext: in})(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if _, ok := hotparam.FromContext(r.Context()); ok != in {
				t.Errorf("InContext %v: %v", in, ok)
			}
		}))
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/topic?id=42", nil)
		if n := testing.AllocsPerRun(100, func() { h.ServeHTTP(w, r) }); n != want {
			t.Errorf("InContext %v: %v allocations, want %v", in, n, want)
		}
	}
}
