// Alone is a service without a limiter.
package main

import (
	"log"
	"net/http"
)

func main() { log.Fatal(http.ListenAndServe("127.0.0.1:3000", http.NotFoundHandler())) }
