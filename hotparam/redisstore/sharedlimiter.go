package redisstore

import "github.com/hotparam/pipeline/hotparam/limit"

// SharedLimiter is a limit.Store in Redis for those who want limits and nothing
// else of the pipeline. Any number of goroutines may use it; Close it when none
// does any more.
type SharedLimiter struct {
	limit.Store // never nil; its Take says what a call costs
	sharding
}

// NewLimiter opens one on the server or cluster that cfg says. Like Open it does
// not need the server to be up: Take fails within cfg.Timeout as long as it is
// not. Programs of one Namespace share their limits, those of this package's
// other users included: they are the same as Open(cfg)'s Limiter().
func NewLimiter(cfg Config) (*SharedLimiter, error) {
	c, err := Open(cfg)
	if err != nil {
		return nil, err
	}
	return &SharedLimiter{Store: c.Limiter(), sharding: sharding{c}}, nil
}

// HonoursContext says that Take returns when its context ends.
func (l *SharedLimiter) HonoursContext() bool { return true }

// Stats tells how decisions travelled to Redis.
func (l *SharedLimiter) Stats() LimitStats { return l.c.limitStats() }

// Client gives the rest of what is shared: InFlight, Throttle. It is closed with
// the limiter.
func (l *SharedLimiter) Client() *Client { return l.c }

// Close ends all connections; a Take that still runs fails.
func (l *SharedLimiter) Close() error { return l.c.Close() }
