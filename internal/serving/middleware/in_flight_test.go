package middleware_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/middleware"
)

// A place is free again when the handler has returned, however it does.
func TestLayer_ReleasesSlotAfterResponse(t *testing.T) {
	t.Parallel()
	set, err := rules.Parse("f.yaml", []byte("ip: {in_flight: {limit: 1, lease: 1h}}"))
	if err != nil {
		t.Fatal(err)
	}
	g := gate.New(gate.Config{Rules: set})
	began, end := make(chan bool), make(chan bool)
	srv := httptest.NewServer(middleware.New(g, middleware.Options{}).Wrap(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/slow":
				_, _ = io.WriteString(w, "begun")
				_ = http.NewResponseController(w).Flush()
				began <- true
				<-end
			case "/panics":
				panic(http.ErrAbortHandler)
			case "/hijacks":
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				_ = conn.Close()
			case "/leaves":
				began <- true
				<-r.Context().Done()
			}
		})))
	t.Cleanup(srv.Close)
	get := func(ctx context.Context, path string) int {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+path, nil)
		if err != nil {
			t.Error(err)
			return 0
		}
		res, err := srv.Client().Do(req)
		if err != nil {
			return 0
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		return res.StatusCode
	}
	// free waits until the place is free: the server may see the end after the client.
	free := func(after string) {
		for deadline := time.Now().Add(10 * time.Second); get(t.Context(), "/") != http.StatusOK; {
			if time.Now().After(deadline) {
				t.Fatalf("the place is not free after %s", after)
			}
		}
	}
	go get(t.Context(), "/slow")
	<-began
	if status := get(t.Context(), "/"); status != http.StatusTooManyRequests {
		t.Errorf("while one is in flight, its body not at its end: %d", status)
	}
	end <- true
	free("a slow body")
	get(t.Context(), "/panics")
	free("a panic")
	get(t.Context(), "/hijacks")
	free("a hijack")
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan bool)
	go func() { get(ctx, "/leaves"); close(gone) }()
	<-began
	leave()
	<-gone
	free("a client that left")
}
