// Package program wires packages into programs: what each program starts, in which
// order its parts stop, and what it says on the way.
//
//	collector        StatsD, mirror, logs ──> tally ──> Kafka or StatsD
//	aggregator       StatsD, Kafka, Graphite ──> aggregate ──> Redis; dashboard
//	limiter-sidecar  decide API, proxy ──> gate <── Redis (hot set, overrides, limits)
//	serve            proxy ──> gate, tally ──> aggregate ──> replica, all in one process
//
// Every long-running part has Run(ctx). [lifecycle.Stages] owns their goroutines and
// stops them from the sources to the sinks, so that nothing received is lost.
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

// Main is the whole main function of a program with one command: it reads the
// settings C, runs the program until a signal, and gives the exit code: 0 ok,
// 1 error, 2 usage.
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

// Context ends at SIGINT or SIGTERM. A second signal ends the process at once,
// for a person who does not want to wait.
func Context() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// Logger writes to standard error in the configured form. Repeated lines are bounded.
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
	stdlog.SetOutput(logbound.Std(log, slog.LevelInfo, "a library reports").Writer()) // net/http does by itself
	return log
}

// withoutPasswords takes user and password out of the URLs in an attribute, such as
// redis://user:password@host or those that an error quotes.
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

// ballastSize is never touched, so that it takes address space and no memory. Garbage up to
// this size beside what the collector would let lie without it does.
const ballastSize = 32 << 20

// Ballast makes the heap of a program that answers requests look larger to the collector. It
// runs when the heap has doubled, and such a program keeps a few megabytes while each request
// leaves some kilobytes behind: the collector would run 15 times a second and take a seventh
// of the CPU. The caller keeps what it gets alive. Who sets GOMEMLIMIT gets none: it counts
// there as memory in use.
func Ballast() []byte {
	if environmentLimit != math.MaxInt64 {
		return nil
	}
	return make([]byte, ballastSize)
}

// AddNotify tells a service manager that waits for it (systemd, Type=notify) when the
// program is ready and when it begins to stop. Programs open their listeners before
// their parts run, so clients can connect from then on.
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

// notifyManager sends one state, see sd_notify(3). A failure is only logged: what the manager
// makes of the silence is its own matter.
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
