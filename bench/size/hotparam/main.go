// Hotparam limits hot values of a parameter, in one process.
package main

import (
	"context"
	"log"
	"net/http"

	"github.com/hotparam/pipeline/hotparam"
)

func main() {
	rules, err := hotparam.LoadRules("hotparam.yaml")
	if err != nil {
		log.Fatal(err)
	}
	p, err := hotparam.New(hotparam.Config{Rules: rules})
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Print(p.Run(context.Background())) }()
	log.Fatal(http.ListenAndServe("127.0.0.1:3000", p.Middleware(http.NotFoundHandler())))
}
