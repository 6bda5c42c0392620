package redisclient

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// sendOnceHook is a hook of every client. It bounds each call by the client's Timeout,
// including the dial and all redirects, and has scripts sent once: most of them
// charge or give back, and a script whose answer was lost may have been run. The
// cluster client of go-redis would send it again after a lost answer, up to three
// times, whatever MaxRetries says.
//
// Redirects (MOVED, ASK) and NOSCRIPT are still followed: a server that answers
// one of them has run nothing.
type sendOnceHook struct{ timeout time.Duration }

// DialHook changes nothing.
func (o sendOnceHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook bounds one command.
func (o sendOnceHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		ctx, cancel := o.bound(ctx)
		defer cancel()
		return next(ctx, sentOnce(cmd))
	}
}

// ProcessPipelineHook bounds a pipeline. One script in it is enough for go-redis to
// send none of it again.
func (o sendOnceHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		ctx, cancel := o.bound(ctx)
		defer cancel()
		wrapped := make([]redis.Cmder, len(cmds))
		for i, cmd := range cmds {
			wrapped[i] = sentOnce(cmd)
		}
		return next(ctx, wrapped)
	}
}

func (o sendOnceHook) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= o.timeout {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, o.timeout)
}

// sentOnce wraps a script. Other commands stay what they are: go-redis looks at
// the types of those that it sends to several nodes.
func sentOnce(cmd redis.Cmder) redis.Cmder {
	if strings.HasPrefix(cmd.Name(), "eval") {
		return noRetry{cmd}
	}
	return cmd
}

// noRetry is a command that go-redis must not send again after a lost answer.
type noRetry struct{ redis.Cmder }

// NoRetry implements redis.Cmder.
func (noRetry) NoRetry() bool { return true }
