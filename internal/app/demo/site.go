package demo

import (
	"fmt"
	"net/http"
	"time"
)

// Site is a small news site: every topic takes a moment to put together, as a
// page from a database would.
func Site() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /topic", func(w http.ResponseWriter, r *http.Request) {
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
