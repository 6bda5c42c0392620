// Httprate limits each value of a parameter, in one process.
package main

import (
	"log"
	"net/http"
	"time"

	"github.com/go-chi/httprate"
)

func main() {
	byID := func(r *http.Request) (string, error) { return r.URL.Query().Get("id"), nil }
	limit := httprate.LimitBy(100, time.Second, byID)
	log.Fatal(http.ListenAndServe("127.0.0.1:3000", limit(http.NotFoundHandler())))
}
