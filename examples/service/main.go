// Command service is a small Go service that protects itself in one process: it finds the hot topics and limits each of
// them.
//
//	ADMIN_TOKEN=$(openssl rand -hex 24) go run ./examples/service
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/admin"
)

//go:embed rules.yaml
var rulesYAML []byte

func main() {
	rules, err := hotparam.ParseRules("rules.yaml", rulesYAML)
	if err != nil {
		log.Fatal(err)
	}
	p, err := hotparam.New(hotparam.Config{Rules: rules})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", p.Middleware(newHandler()))
	server := &http.Server{Addr: "127.0.0.1:3000", Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	if token := os.Getenv("ADMIN_TOKEN"); token != "" { // the admin page takes any user name, and the token as password
		page, err := admin.New(p, admin.Config{Token: token})
		if err != nil {
			log.Fatal(err)
		}
		mux.Handle("/hotparam/", http.StripPrefix("/hotparam", page))
		server.RegisterOnShutdown(page.CloseStreams)
	}
	signalled, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	running, end := context.WithCancel(context.Background())
	context.AfterFunc(signalled, func() {
		time.AfterFunc(5*time.Second, end) // at the latest
		_ = server.Shutdown(running)       // first the server, so that its last requests are counted too
		end()
	})
	ended := make(chan error, 1)
	go func() { ended <- p.Run(running) }()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
}

// newHandler returns a site of one page. It takes the id from the query alone, because the rule counts the query:
// FormValue would prefer an id in the body of a POST.
func newHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /topic", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "all about topic %q\n", r.URL.Query().Get("id"))
	})
	return mux
}
