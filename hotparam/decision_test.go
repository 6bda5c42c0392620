package hotparam_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/hottype"
)

// A denial by hand is the same as the response of the middleware, in each form that clients accept.
func TestDecision_WriteDenialAnswersAsTheMiddleware(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, hotparam.Config{}, perClient)
	anna := hotparam.Request{Method: http.MethodGet, Target: "/", Client: hottype.ParseClient("192.0.2.1")}
	for range 2 {
		d, err := p.Begin(t.Context(), anna)
		if err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		w := httptest.NewRecorder()
		if d.WriteDenial(w, httptest.NewRequest(http.MethodGet, "/", nil)); len(w.Header()) > 0 || w.Body.Len() > 0 {
			t.Errorf("an allowed decision writes %v %s", w.Header(), w.Body)
		}
		d.Done()
	}
	for accept, want := range map[string]string{
		"": "application/problem+json", "text/html": "text/html; charset=utf-8", "text/plain": "text/plain; charset=utf-8",
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil) // from 192.0.2.1
		r.Header.Set("Accept", accept)
		byHand, byLayer := httptest.NewRecorder(), httptest.NewRecorder()
		d, err := p.Begin(t.Context(), anna)
		if err != nil {
			t.Fatal(err)
		}
		d.WriteDenial(byHand, r)
		p.Middleware(http.NotFoundHandler()).ServeHTTP(byLayer, r)
		names := slices.Sorted(maps.Keys(byHand.Header()))
		if byHand.Code != http.StatusTooManyRequests || byLayer.Code != byHand.Code ||
			!slices.Equal(names, slices.Sorted(maps.Keys(byLayer.Header()))) || byHand.Body.Len() == 0 ||
			byHand.Header().Get("Content-Type") != want || byHand.Header().Get("Retry-After") == "" {
			t.Errorf("%q: %d %v, the middleware: %d %v", accept, byHand.Code, byHand.Header(), byLayer.Code,
				byLayer.Header())
		}
	}
}
