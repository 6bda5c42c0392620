package redisclient

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// A call for keys of a slot that moves fails with an error that names the cause, alone and in a pipeline. Other errors
// stay unchanged.
func TestReloader_ExplainsAMovingSlot(t *testing.T) {
	t.Parallel()
	moving := redisError("TRYAGAIN Multiple keys request during rehashing of slot")
	r := &reloader{cluster: redis.NewClusterClient(&redis.ClusterOptions{
		// The client reads the state of the cluster again in the background; it must not dial for that.
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return nil, errors.New("unknown") },
	})}
	defer r.cluster.Close()
	for _, reply := range []error{moving, redisError("WRONGTYPE of another kind"), nil} {
		one := redis.NewStringCmd(t.Context(), "eval")
		err := r.ProcessHook(func(_ context.Context, cmd redis.Cmder) error {
			cmd.SetErr(reply)
			return reply
		})(t.Context(), one)
		piped := redis.NewStringCmd(t.Context(), "eval")
		_ = r.ProcessPipelineHook(func(_ context.Context, cmds []redis.Cmder) error {
			cmds[0].SetErr(reply)
			return reply
		})(t.Context(), []redis.Cmder{piped})
		for _, got := range []error{err, one.Err(), piped.Err()} {
			explained := got != nil && strings.Contains(got.Error(), "moves to another node")
			if !errors.Is(got, reply) || explained != errors.Is(reply, moving) {
				t.Errorf("%v became %v", reply, got)
			}
		}
	}
}

// redisError is an error that Redis answers with.
type redisError string

func (e redisError) Error() string { return string(e) }

// RedisError marks errors of Redis.
func (redisError) RedisError() {}
