package redisclient

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Every script reports that it must not be sent again, in a pipeline too. A lost answer would show that only now and
// then, by the clock of go-redis' pauses. Other commands stay unchanged.
func TestSendOnceHook_SendsScriptsOnce(t *testing.T) {
	t.Parallel()
	ctx, hook := t.Context(), sendOnceHook{time.Minute}
	for name, script := range map[string]bool{"evalsha": true, "eval": true, "evalsha_ro": true, "get": false,
		"time": false} {
		cmd, seen := redis.NewCmd(ctx, name, "x"), 0
		check := func(got redis.Cmder) {
			if seen++; got.NoRetry() != script || !script && got != redis.Cmder(cmd) {
				t.Errorf("%s: not to be sent again: %v, want %v", name, got.NoRetry(), script)
			}
		}
		one := hook.ProcessHook(func(_ context.Context, got redis.Cmder) error { check(got); return nil })
		all := hook.ProcessPipelineHook(func(_ context.Context, got []redis.Cmder) error { check(got[0]); return nil })
		if one(ctx, cmd) != nil || all(ctx, []redis.Cmder{cmd}) != nil || seen != 2 {
			t.Errorf("%s: handed on %d times", name, seen)
		}
	}
}

// A call ends by the timeout of its client, with its dial and all redirects, or earlier by its own deadline.
func TestSendOnceHook_BoundsCalls(t *testing.T) {
	t.Parallel()
	hook := sendOnceHook{time.Minute}
	for _, c := range []struct{ own, want time.Duration }{{0, time.Minute}, {time.Hour, time.Minute},
		{time.Second, time.Second}} {
		ctx, began := t.Context(), time.Now()
		if c.own > 0 {
			own, cancel := context.WithTimeout(ctx, c.own)
			defer cancel()
			ctx = own
		}
		check := func(ctx context.Context) error {
			end, ok := ctx.Deadline()
			if took := end.Sub(began); !ok || took < c.want || took > c.want+30*time.Second {
				t.Errorf("with %v of its own it may take %v, want %v", c.own, took, c.want)
			}
			return nil
		}
		one := hook.ProcessHook(func(ctx context.Context, _ redis.Cmder) error { return check(ctx) })
		all := hook.ProcessPipelineHook(func(ctx context.Context, _ []redis.Cmder) error { return check(ctx) })
		cmd := redis.NewCmd(ctx, "get", "x")
		if one(ctx, cmd) != nil || all(ctx, []redis.Cmder{cmd}) != nil {
			t.Errorf("%v: failed", c.own)
		}
	}
}
