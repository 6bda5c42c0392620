package run

import (
	"context"
	"log/slog"
	"net/url"
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
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: withoutPasswords}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, opts))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, opts))
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
