package httplimit

import (
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Asker judges requests. *gate.Gate is one.
type Asker interface {
	Ask(ctx context.Context, now time.Time, req *hottype.Request) hottype.Verdict
}

// JudgeConfig is what a judge is built from.
type JudgeConfig struct {
	// Asker is required.
	Asker Asker
	// Clients finds the client of a request; nil trusts no proxy.
	Clients *Clients
	// Cost is what a request takes from its limits; nil, or 0: 1.
	Cost func(*http.Request) int64
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Log hears of panics; nil: discarded.
	Log *slog.Logger
}

// Judge puts HTTP requests to an Asker. A panic on the way is caught, counted
// and logged, and the request passes: limiting must not break what it protects.
// It may be used by many goroutines.
type Judge struct {
	cfg      JudgeConfig
	requests sync.Pool // of *hottype.Request, which the Asker's interface makes escape
	panics   atomic.Uint64
}

// NewJudge builds a judge; it panics without an Asker.
func NewJudge(cfg JudgeConfig) *Judge {
	if cfg.Asker == nil {
		panic("httplimit: NewJudge: no Asker")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	j := &Judge{cfg: cfg}
	j.requests.New = func() any { return new(hottype.Request) }
	return j
}

// Ask judges an HTTP request by its target as received, its Host, its client
// and its header. The body is not read.
func (j *Judge) Ask(r *http.Request) (v hottype.Verdict) {
	defer j.recovered(&v)
	req := j.requests.Get().(*hottype.Request)
	req.Method, req.Host, req.Target = r.Method, r.Host, target(r)
	req.Client, req.Header = j.cfg.Clients.Of(r), r.Header
	if j.cfg.Cost != nil {
		req.Cost = j.cfg.Cost(r)
	}
	v = j.cfg.Asker.Ask(r.Context(), j.cfg.Now(), req)
	*req = hottype.Request{}
	j.requests.Put(req)
	return v
}

// Decide judges a request that was described by others.
func (j *Judge) Decide(ctx context.Context, req *hottype.Request) (v hottype.Verdict) {
	defer j.recovered(&v)
	return j.cfg.Asker.Ask(ctx, j.cfg.Now(), req)
}

// Panics is how many requests passed because judging them panicked.
func (j *Judge) Panics() uint64 { return j.panics.Load() }

// recovered turns a panic into a verdict that lets pass. The log gets the
// first, second, fourth, eighth …, so that a flood of them does not drown it.
func (j *Judge) recovered(v *hottype.Verdict) {
	p := recover()
	if p == nil {
		return
	}
	*v = hottype.Verdict{Allowed: true, Reason: hottype.ReasonStore, Mode: hottype.ModeEnforce}
	if n := j.panics.Add(1); n&(n-1) == 0 {
		j.cfg.Log.Error("httplimit: judging a request panicked, it passes", "panic", p, "count", n, "stack", string(debug.Stack()))
	}
}

// target is the request target as received. Requests that no server received
// (in tests, or made by a program) have none; their URL stands in.
func target(r *http.Request) string {
	if r.RequestURI != "" || r.URL == nil {
		return r.RequestURI
	}
	return r.URL.RequestURI()
}
