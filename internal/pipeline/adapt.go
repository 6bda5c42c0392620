package pipeline

import (
	"context"
	"log/slog"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/adaptive"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/wait"
)

const (
	// adaptEvery is the interval of the controllers.
	adaptEvery = time.Second
	// basesEvery is the number of their ticks between two looks at the base latencies.
	basesEvery = 10
)

// BaseStore keeps the base latencies of upstreams, so that a controller that begins in a rush knows the latency without
// it. *rediscontrol.Feed and *filestore.Latencies are BaseStores.
type BaseStore interface {
	// ReadBases returns the text that was stored last, or nil if there is none.
	ReadBases(ctx context.Context) ([]byte, error)
	// WriteBases stores a text.
	WriteBases(ctx context.Context, text []byte) error
}

// Adaptation runs the controllers of adaptive limits.
type Adaptation struct {
	Now   func() time.Time
	Rules func() *rules.Set
	Hot   *hotset.Replica
	// Read returns the limiters' reports about their upstreams.
	Read func(now time.Time) []report.Limiter
	// Apply receives the bounds, or nil while no rule adapts.
	Apply func(now time.Time, bounds []hottype.UpstreamLimit)
	// Bases is nil if nothing outlives the process.
	Bases BaseStore
	Log   *slog.Logger

	controllers adaptive.Controllers
	restored    bool // the store was read
	failing     bool // the last access to the store failed
	ticks       int
}

// Run runs the controllers until ctx ends, and returns nil.
func (a *Adaptation) Run(ctx context.Context) error {
	wait.Every(ctx, adaptEvery, func() {
		now, set := a.Now(), a.Rules()
		var bounds []hottype.UpstreamLimit
		if len(set.AdaptiveUpstreams()) > 0 {
			if a.Bases != nil && a.ticks%basesEvery == 0 {
				a.keepBases(ctx, now)
			}
			a.ticks++
			bounds = a.controllers.Tick(now, set, a.Hot.Hot(now), a.Read(now))
		}
		a.Apply(now, bounds)
	})
	return nil
}

// keepBases reads the stored base latencies once, and from then on stores changes.
func (a *Adaptation) keepBases(ctx context.Context, now time.Time) {
	text, err := []byte(nil), error(nil)
	if !a.restored {
		if text, err = a.Bases.ReadBases(ctx); err == nil {
			a.restored = true
			if text != nil {
				err = a.controllers.RestoreBases(now, text)
			}
		}
	} else if text = a.controllers.EncodeBases(now); text != nil {
		err = a.Bases.WriteBases(ctx, text)
	}
	if err != nil && !a.failing && ctx.Err() == nil {
		a.Log.Warn("the latency of upstreams without a rush is not kept; after a start in a rush it is measured again",
			"err", err)
	}
	a.failing = err != nil
}

// KeepBases sets the store of base latencies. Call it before Run.
func (p *Pipeline) KeepBases(store BaseStore) { p.bases = store }

// runControllers runs the controllers by the reports of this process alone.
func (p *Pipeline) runControllers(ctx context.Context) error {
	upstreams := p.Gate.Upstreams()
	a := Adaptation{Now: p.now, Rules: p.Gate.Rules, Hot: p.Hot, Bases: p.bases, Log: p.log}
	a.Read = func(now time.Time) []report.Limiter {
		return []report.Limiter{{At: now, Upstreams: upstreams.Reports(now)}}
	}
	a.Apply = func(now time.Time, bounds []hottype.UpstreamLimit) {
		if p.Adapts() {
			upstreams.SetBounds(now, bounds)
		}
	}
	return a.Run(ctx)
}
