// Package program wires packages into programs. It decides which parts each program starts, in which order they stop,
// and which messages the program logs.
//
//	collector        StatsD, mirror, logs ──> tally ──> Kafka or StatsD
//	aggregator       StatsD, Kafka, Graphite ──> aggregate ──> Redis; dashboard
//	limiter-sidecar  decide API, proxy ──> gate <── Redis (hot set, overrides, limits)
//	serve            proxy ──> gate, tally ──> aggregate ──> replica, all in one process
//
// Every long-running part has Run(ctx). [lifecycle.Stages] owns their goroutines and stops them from the sources to the
// sinks, so that nothing received is lost.
package program

import (
	"context"
	stdlog "log"
	"log/slog"
	"math"
	"net"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/logbound"
)

// Main is the whole main function of a program with one command. It reads the settings C, runs the program until a
// signal, and returns the exit code: 0 ok, 1 error, 2 usage.
func Main[C any](name, description string, program func(context.Context, C, *config.Parser, string) error,
	options ...config.Option) int {
	var cfg C
	p, err := config.Build(&cfg, name, description, options...)
	if err != nil {
		return config.Fail(os.Stderr, name, err)
	}
	if _, err = p.Parse(os.Args[1:]); err == nil {
		ctx, stop := Context()
		defer stop()
		err = program(ctx, cfg, p, config.Version())
	}
	return p.Fail(os.Stderr, err)
}

// Context returns a context that ends at SIGINT or SIGTERM. A second signal ends the process at once, for a person who
// does not want to wait.
func Context() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// Logger returns a logger that writes to standard error in the configured form. The number of repeated lines is
// bounded.
func Logger(c config.Log) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.Level)) // kong checked it against the enum
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: withoutPasswords}
	var to slog.Handler = slog.NewTextHandler(os.Stderr, opts)
	if c.Format == "json" {
		to = slog.NewJSONHandler(os.Stderr, opts)
	}
	log := slog.New(logbound.New(to))
	stdlog.SetFlags(0)
	stdlog.SetOutput(logbound.Std(log, slog.LevelInfo, "a library reports").Writer()) // net/http logs there
	return log
}

// withoutPasswords removes user and password from the URLs in an attribute, such as redis://user:password@host or a URL
// that an error quotes.
func withoutPasswords(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case string:
		a.Value = slog.StringValue(config.Redact(v))
	case []string:
		shown := make([]string, len(v))
		for i := range v {
			shown[i] = config.Redact(v[i])
		}
		a.Value = slog.AnyValue(shown)
	case error:
		a.Value = slog.StringValue(config.Redact(v.Error()))
	case *url.URL:
		a.Value = slog.StringValue(config.Redact(v.String()))
	}
	return a
}

// ballastSize is the size of the ballast in bytes. The ballast is never touched, so it takes address space and no
// memory. Garbage that the collector keeps longer because of it takes memory, up to this size.
const ballastSize = 32 << 20

// Ballast makes the heap of a program that answers requests look larger to the collector. The collector runs when the
// heap has doubled, and such a program keeps a few megabytes while each request leaves some kilobytes behind. Without
// ballast the collector would run 15 times a second and take a seventh of the CPU. The caller keeps the result alive.
// The result is nil if GOMEMLIMIT is set, because that limit would count the ballast as memory in use.
func Ballast() []byte {
	if environmentLimit != math.MaxInt64 {
		return nil
	}
	return make([]byte, ballastSize)
}

// AddNotify notifies a service manager that waits for it (systemd, Type=notify) when the program is ready and when it
// begins to stop. Programs open their listeners before their parts run, so clients can connect when the program is
// ready.
func AddNotify(s *lifecycle.Stages, log *slog.Logger) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return
	}
	s.Add(lifecycle.Sources, "service manager", func(ctx context.Context) error {
		notifyManager(ctx, socket, "READY=1", log)
		<-ctx.Done()
		notifyManager(context.WithoutCancel(ctx), socket, "STOPPING=1", log)
		return nil
	})
}

// notifyManager sends one state, see sd_notify(3). A failure is only logged, because the manager decides how to treat a
// missing notification.
func notifyManager(ctx context.Context, socket, state string, log *slog.Logger) {
	conn, err := new(net.Dialer).DialContext(ctx, "unixgram", socket)
	if err == nil {
		_, err = conn.Write([]byte(state))
		conn.Close()
	}
	if err != nil {
		log.Warn("the service manager was not notified", "state", state, "err", err)
	}
}
