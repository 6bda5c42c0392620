package run

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/hotparam/pipeline/internal/app/config"
)

// Context ends at SIGINT or SIGTERM. A second signal ends the process at once,
// for a person who does not want to wait.
func Context() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// Logger writes to standard error in the configured form.
func Logger(c config.Log) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.Level)) // kong checked it against the enum
	opts := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, opts))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, opts))
}
