// Command service is a small Go service that protects itself: the middleware
// counts its requests by StatsD and holds hot topics to their limit, together
// with all other instances of the service.
//
//	redis-server &
//	go run ./cmd/aggregator --config examples/service/rules.yaml --redis.addr 127.0.0.1:6379 --statsd.listen 127.0.0.1:8127
//	go run ./examples/service
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
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/middleware"
	"github.com/hotparam/pipeline/internal/storage/redisstore"
	"github.com/hotparam/pipeline/internal/transport/statsd"
)

//go:embed rules.yaml
var rulesYAML []byte

func main() {
	listen := flag.String("listen", "127.0.0.1:3000", "address of the service")
	redis := flag.String("redis", "127.0.0.1:6379", "Redis with hot set, overrides and shared limits")
	counts := flag.String("statsd", "127.0.0.1:8127", "aggregators that share the counts, with commas")
	budget := flag.Duration("budget", gate.DefaultBudget, "longest wait for Redis in one decision")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *listen, *redis, *counts, *budget); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, listen, redis, counts string, budget time.Duration) error {
	set, err := rules.Parse("rules.yaml", rulesYAML)
	if err != nil {
		return err
	}
	// Counting: sums in memory, ten times a second as StatsD datagrams.
	sender, err := statsd.NewSender(statsd.SenderConfig{Servers: strings.Split(counts, ","), Names: canon.Names{Prefix: "hotparam", Style: canon.StyleHP1}})
	if err != nil {
		return err
	}
	tallied := tally.New(tally.Config{Sink: sender})

	// Deciding: hot set and overrides in memory, shared limits in Redis.
	store, err := redisstore.Open(redisstore.Config{Addrs: []string{redis}, Namespace: set.Namespace})
	if err != nil {
		return err
	}
	hot := new(hotset.Mirror)
	var g *gate.Gate
	reports := store.Reporter(func(now time.Time) hottype.Report { return g.Report(now) })
	g = gate.New(gate.Config{Rules: set, Hot: hot, Counter: tallied, Shared: store.Limiter(), Budget: budget, Live: reports.Live, Instance: listen})

	// Protecting: one line before the handler.
	limited := middleware.New(g, middleware.Options{Clients: httplimit.NewClients(set.IP.TrustedProxies, "")})
	service := &http.Server{Addr: listen, Handler: limited(http.HandlerFunc(topic)), ReadHeaderTimeout: 5 * time.Second}

	group, ctx := errgroup.WithContext(ctx)
	// The sender outlives what it sends for.
	sending, stopSending := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSending()
	group.Go(func() error { defer stopSending(); return tallied.Run(ctx) })
	group.Go(func() error { return sender.Run(sending) })
	group.Go(func() error { return store.FollowInto(ctx, hot) })
	group.Go(func() error { return store.Overrides().Follow(ctx, g.SetOverrides) })
	group.Go(func() error { return reports.Run(ctx) })
	group.Go(service.ListenAndServe)
	group.Go(func() error { <-ctx.Done(); return service.Shutdown(context.WithoutCancel(ctx)) })
	if err := group.Wait(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return store.Close()
}

func topic(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "all about topic %q\n", r.FormValue("id"))
}
