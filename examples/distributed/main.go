// Command distributed is a small Go service that protects itself together with its other instances: each sends its
// counts to aggregators by StatsD, and all share hot topics and their limits by Redis.
//
//	redis-server &
//	go run ./cmd/aggregator --config examples/distributed/rules.yaml --redis.addr 127.0.0.1:6379 --statsd.listen 127.0.0.1:8127
//	go run ./examples/distributed
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/shared"
)

//go:embed rules.yaml
var rulesYAML []byte

func main() {
	listen := flag.String("listen", "127.0.0.1:3000", "address of the service")
	redisAddr := flag.String("redis", "127.0.0.1:6379", "Redis with hot set, overrides and shared limits")
	counts := flag.String("statsd", "127.0.0.1:8127", "aggregators that share the counts, with commas")
	budget := flag.Duration("budget", 0, "longest wait for Redis in one decision; 0: the default")
	flag.Parse()
	rules, err := hotparam.ParseRules("rules.yaml", rulesYAML)
	if err != nil {
		log.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: *redisAddr})
	defer rdb.Close()
	p, err := hotparam.New(hotparam.Config{
		Rules: rules, Shared: shared.Config{Redis: rdb, StatsD: *counts}, Budget: *budget, Instance: *listen,
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := serve(*listen, p); err != nil {
		log.Fatal(err)
	}
}

// serve runs the service until SIGTERM. The server ends first; the pipeline ends after it, when the server's last
// requests have been counted.
func serve(listen string, p *hotparam.Pipeline) error {
	server := &http.Server{Addr: listen, Handler: p.Middleware(newHandler()),
		ReadHeaderTimeout: 5 * time.Second}
	signalled, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	running, end := context.WithCancel(context.Background())
	defer end()
	context.AfterFunc(signalled, func() {
		time.AfterFunc(5*time.Second, end) // at the latest
		_ = server.Shutdown(running)
		end()
	})
	ended := make(chan error, 1)
	go func() { ended <- p.Run(running) }()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-ended
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
