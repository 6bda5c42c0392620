package redistest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Clock is the clock by which the scripts of some clients judge on a real server, where time cannot be set. Keys that
// the scripts write live an hour longer, because the server's own clock runs on. Server.Expire expires them.
//
// Clock is a hook. It replaces each call of a script by a call of the same script with an additional first line. The
// call carries the time behind its last argument. The first line removes the time from the argument and returns it for
// TIME.
type Clock struct {
	us      atomic.Int64
	scripts map[string]string // digest or text of a script -> the same with clockLine
	// Ahead returns by how much the clock of the server of a key is ahead, if not nil. It is set before the first call.
	Ahead func(key string) time.Duration
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

// NewClock returns a clock for scripts, which are passed as text, on clients that have it as a hook.
func NewClock(now time.Time, scripts ...string) *Clock {
	k := &Clock{scripts: map[string]string{}}
	for _, text := range scripts {
		k.scripts[text] = clockLine + text
		k.scripts[redis.NewScript(text).Hash()] = redis.NewScript(clockLine + text).Hash()
	}
	k.Set(now)
	return k
}

// Set sets the clock.
func (k *Clock) Set(now time.Time) { k.us.Store(max(now.UnixMicro(), 0)) }

// Expire removes the keys of the server whose life ends within after of their last write, and shortens the lives of all
// others by after.
func (s *Server) Expire(after time.Duration) {
	s.t.Helper()
	const script = `for _, key in ipairs(redis.call('KEYS', '*')) do
		local left = redis.call('PTTL', key) - ARGV[1]
		if left > 3600000 then redis.call('PEXPIRE', key, left) else redis.call('DEL', key) end
	end`
	if err := s.Client().Eval(s.t.Context(), script, nil, after.Milliseconds()).Err(); err != nil &&
		!errors.Is(err, redis.Nil) {
		s.t.Fatal(err)
	}
}

// Keys lists the keys of the server.
func (s *Server) Keys() []string {
	s.t.Helper()
	keys, err := s.Client().Keys(s.t.Context(), "*").Result()
	if err != nil {
		s.t.Fatal(err)
	}
	return keys
}

// DialHook changes nothing.
func (k *Clock) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook adds the time to the call of a script.
func (k *Clock) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		defer k.give(cmd)()
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook adds the time to the calls of scripts in a pipeline.
func (k *Clock) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			defer k.give(cmd)()
		}
		return next(ctx, cmds)
	}
}

// give changes the arguments of a call of a script. takeBack restores them, for callers that send them again.
func (k *Clock) give(cmd redis.Cmder) (takeBack func()) {
	args := cmd.Args()
	if len(args) < 4 {
		return func() {}
	}
	script, ok := k.scripts[fmt.Sprint(args[1])]
	if !ok {
		return func() {}
	}
	last, us := len(args)-1, k.us.Load()
	if k.Ahead != nil {
		us += k.Ahead(textOf(args[3])).Microseconds()
	}
	was := [2]any{args[1], args[last]}
	args[1], args[last] = script, fmt.Sprintf("%s@%d", textOf(args[last]), us)
	return func() { args[1], args[last] = was[0], was[1] }
}

// textOf returns an argument as text.
func textOf(arg any) string {
	if text, ok := arg.([]byte); ok {
		return string(text)
	}
	return fmt.Sprint(arg)
}

// KeysWithoutTTL returns the keys with a prefix that have no expiry, on a server or a cluster.
func KeysWithoutTTL(t testing.TB, raw redis.UniversalClient, prefix string) []string {
	t.Helper()
	var out []string
	scan := func(ctx context.Context, c *redis.Client) error {
		var ttls []*redis.DurationCmd
		keys, err := c.Keys(ctx, prefix+"*").Result()
		if err != nil {
			return err
		}
		_, err = c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, k := range keys {
				ttls = append(ttls, p.PTTL(ctx, k))
			}
			return nil
		})
		for i, ttl := range ttls {
			if life := ttl.Val(); ttl.Err() != nil || life <= 0 && life != -2 {
				out = append(out, fmt.Sprintf("%s (%v, %v)", keys[i], life, ttl.Err()))
			}
		}
		return err
	}
	var err error
	switch c := raw.(type) {
	case *redis.ClusterClient:
		var mu sync.Mutex
		err = c.ForEachMaster(context.Background(), func(ctx context.Context, n *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			return scan(ctx, n)
		})
	case *redis.Client:
		err = scan(context.Background(), c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}
