package redisclient

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Every script says of itself that it is not to be sent again, in a pipeline too: by
// the clock of go-redis' pauses a lost answer shows that only now and then. Other
// commands stay what they are.
func TestScriptsAreNotSentAgain(t *testing.T) {
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
