// Command whoami answers each request on port 80 with a description of that request, as the upstream of
// docker-compose.yml does.
package main

import (
	"fmt"
	"log"
	"net/http"
)

func main() {
	log.Fatal(http.ListenAndServe(":80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "RemoteAddr: %s\n%s %s %s\n", r.RemoteAddr, r.Method, r.URL.RequestURI(), r.Proto)
		_ = r.Header.Write(w)
	})))
}
