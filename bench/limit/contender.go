package main

import (
	"context"
	"time"
)

// The limit that each key has, in each contender: rate requests a second. A contender that counts with a bucket lets
// burst requests come early; one that counts in windows has windows of a second.
const (
	rate  = 100
	burst = 20
)

// ask asks for one decision about a request for a key by a client. The client is an IP address, which only a fair limit
// uses. With an error there is no decision, and the caller of the limiter has to decide about the request by itself.
type ask func(ctx context.Context, key, client string) (allowed bool, err error)

// deployment is a running limiter. Stop it.
type deployment struct {
	// doors are two clients in this process, or two servers, that share the limits.
	doors [2]ask
	// state is the process of the deployment that holds the counts. It is nil if that is Redis, or each door.
	state state
	stop  func()
}

// state is a process that holds the counts of a deployment, and can fail.
type state interface {
	slow(d time.Duration)              // makes each answer come d later, from now on; 0 ends it
	freeze() error                     // makes the process stand still
	thaw() error                       // lets a frozen process go on
	kill()                             // ends the process
	restart(ctx context.Context) error // starts the process again, without the counts
}

// contender is a limiter that is compared.
type contender struct {
	name    string
	version string
	kind    string // the algorithm, with its parameters, for readers
	// most returns the highest number of requests that its algorithm may admit in a stretch of d.
	most func(d time.Duration) float64
	// open starts a deployment whose counts are in a Redis at addrs, which are the nodes of a cluster if they are
	// several. A contender that holds the counts itself gets none.
	open    func(ctx context.Context, dir string, addrs []string) (*deployment, error)
	redis   bool // its counts are in Redis
	cluster bool // its Redis may be a cluster
	own     bool // its counts are in a process of its own that can fail while a door still answers
}
