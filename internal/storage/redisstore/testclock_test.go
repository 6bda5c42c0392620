package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/storage/redisstore/redistest"
	"github.com/hotparam/pipeline/lua"
)

// testClock is the clock by which the scripts of some clients judge on a real
// server, where time cannot be set. What they write is kept an hour longer, because
// the server's own clock runs on; expire makes it go.
//
// It is a hook. Each call of a script carries the time behind its last argument,
// and is a call of the same script with a first line that takes it off again, and
// answers TIME with it.
type testClock struct {
	us      atomic.Int64
	scripts map[string]string // digest or text of a script -> that with the line
}

const clockLine = `local redis = (function(real)
  local rest, us = string.match(ARGV[#ARGV], '^(.*)@(%d+)$')
  ARGV[#ARGV] = rest
  local function call(name, ...)
    if name == 'TIME' then
      return {string.format('%d', (us - us % 1000000) / 1000000), string.format('%d', us % 1000000)}
    end
    local args = {...}
    for i = 1, #args do
      if args[i] == 'PX' or name == 'PEXPIRE' and i == 1 then
        args[i + 1] = string.format('%d', args[i + 1] + 3600000)
      end
    end
    return real.call(name, unpack(args))
  end
  return setmetatable({call = call}, {__index = real})
end)(redis)
`

// setClock puts a clock of its own onto a client.
func setClock(c *Client, now time.Time) *testClock {
	k := newClock(now)
	c.rdb.AddHook(k)
	return k
}

// newClock is a clock for clients that get it as a hook.
func newClock(now time.Time) *testClock {
	k := &testClock{scripts: map[string]string{}}
	for _, text := range []string{
		lua.Decide(), lua.DecideMany(), lua.Refund(), lua.Exchange(), lua.InFlight(), lua.CLThrottle(),
		lua.ClaimHot(), lua.PublishHot(), lua.WriteOverride(), lua.RestoreOverrides(), lua.WriteReport(),
	} {
		k.scripts[text] = clockLine + text
		k.scripts[redis.NewScript(text).Hash()] = redis.NewScript(clockLine + text).Hash()
	}
	k.set(now)
	return k
}

func (k *testClock) set(now time.Time) { k.us.Store(max(now.UnixMicro(), 0)) }

// expire removes the keys of a server whose life is over some time after they were
// last written, and makes the life of all others shorter by that.
func expire(t testing.TB, s *redistest.Server, after time.Duration) {
	t.Helper()
	const script = `for _, key in ipairs(redis.call('KEYS', '*')) do
		local left = redis.call('PTTL', key) - ARGV[1]
		if left > 3600000 then redis.call('PEXPIRE', key, left) else redis.call('DEL', key) end
	end`
	if err := s.Client().Eval(t.Context(), script, nil, after.Milliseconds()).Err(); err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
}

// keysOf lists the keys of a server.
func keysOf(t testing.TB, s *redistest.Server) []string {
	t.Helper()
	keys, err := s.Client().Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// DialHook changes nothing.
func (k *testClock) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook gives the time to one script.
func (k *testClock) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		defer k.give(cmd)()
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook gives it to those of a pipeline.
func (k *testClock) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			defer k.give(cmd)()
		}
		return next(ctx, cmds)
	}
}

// give changes the arguments of a call of a script; what it returns changes them
// back, for who sends them again.
func (k *testClock) give(cmd redis.Cmder) (takeBack func()) {
	args := cmd.Args()
	if len(args) < 4 {
		return func() {}
	}
	script, ok := k.scripts[fmt.Sprint(args[1])]
	if !ok {
		return func() {}
	}
	last := len(args) - 1
	if text, ok := args[last].([]byte); ok {
		args[last] = string(text)
	}
	was := [2]any{args[1], args[last]}
	args[1], args[last] = script, fmt.Sprintf("%v@%d", args[last], k.us.Load())
	return func() { args[1], args[last] = was[0], was[1] }
}

// singly asks the script that knows every algorithm, one call for each decision,
// also where a batch is open.
type singly struct{ *shardLimiter }

func (s singly) Take(ctx context.Context, _ time.Time, charges []limit.Charge, results []limit.Result) (bool, error) {
	if err := limit.Check(charges, results); err != nil || len(charges) == 0 {
		return err == nil, err
	}
	r := new(request)
	if err := r.set(s.keys, charges); err != nil {
		return false, err
	}
	ok, _, err := s.decideOne(ctx, r, results)
	return ok, err
}

// ways are the ways of a decision to Redis.
var ways = map[string]func(*shardLimiter) limit.Store{
	"alone":    func(l *shardLimiter) limit.Store { return singly{l} },
	"together": func(l *shardLimiter) limit.Store { return l },
}
