package respcache_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
)

// leave asks, and leaves before the answer; the channel is closed when the cache is done
// with that client.
func leave(t *testing.T, b *bundle) chan struct{} {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		b.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/topic?id=1",
			http.NoBody))
	}()
	synctest.Wait()
	cancel()
	synctest.Wait()
	return gone
}
