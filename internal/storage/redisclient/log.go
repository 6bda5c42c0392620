package redisclient

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// LogTo sends the lines of go-redis, which otherwise go to standard error, to a logger. They belong to the whole
// process, so a program calls it and a library does not.
func LogTo(log *slog.Logger) { redis.SetLogger(lines{log}) }

type lines struct{ log *slog.Logger }

func (l lines) Printf(ctx context.Context, format string, args ...any) {
	l.log.InfoContext(ctx, "redis: the client library reports", "text", fmt.Sprintf(format, args...))
}
