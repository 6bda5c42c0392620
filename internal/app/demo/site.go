package demo

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// Site is a small news site: every topic takes a moment to put together, as a
// page from a database would. viral counts the requests for the viral topic.
func Site(viral *atomic.Uint64) http.Handler {
	topic := strconv.Itoa(ViralTopic)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /topic", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("id") == topic {
			viral.Add(1)
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintf(w, "topic %q: all the news\n", r.FormValue("id"))
	})
	return mux
}

// FreeOr gives an address of loopback: the usual one, or any free port while
// somebody else has that, such as a demo in another window.
func FreeOr(ctx context.Context, usual string) string {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", usual)
	if err != nil {
		return "127.0.0.1:0"
	}
	ln.Close()
	return usual
}

// openSite serves the site on a free port of loopback.
func openSite(ctx context.Context, viral *atomic.Uint64) (*http.Server, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("demo: the site cannot listen: %w", err)
	}
	srv := &http.Server{Addr: ln.Addr().String(), Handler: Site(viral), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = srv.Serve(ln) }() // ends when Run closes srv
	return srv, nil
}
