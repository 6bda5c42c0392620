package fleet

import (
	"context"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/rules"
)

// put has a person block a value, through the aggregator that is there, until it is acknowledged.
func (w *World) put(b *block) {
	o := rules.Override{ID: "block-" + b.id, Key: string(keyOf(b.id)), Action: rules.ActionBlock, Author: "ann"}
	w.insist(func(ctx context.Context, a *Aggregator) error {
		_, err := a.Feed.Overrides().Put(ctx, o)
		return err
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	b.put = w.at()
	w.seen.note("block %s acknowledged", b.id)
}

func (w *World) lift(b *block) {
	w.mu.Lock()
	b.lifting = true
	w.mu.Unlock()
	w.insist(func(ctx context.Context, a *Aggregator) error {
		err := a.Feed.Overrides().Delete(ctx, "block-"+b.id, "ann")
		if err != nil && strings.Contains(err.Error(), "not found") {
			return nil // an earlier try got through without an answer
		}
		return err
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	b.lifted = w.at()
	w.seen.note("block %s lifted", b.id)
}

// push has a person push the second version of the rules.
func (w *World) push() {
	w.insist(func(ctx context.Context, a *Aggregator) error {
		now, err := a.Feed.Rules().Read(ctx)
		if err != nil {
			return err
		}
		version := int64(0)
		if now != nil {
			version = now.Version
		}
		change := rules.Revision{At: a.clock.now(), Author: "ann", Text: ruleFile(w.plan, secondRate)}
		next, err := now.With(change, version)
		if err != nil {
			return err
		}
		return a.Feed.Rules().Write(ctx, version, next)
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pushed = w.at()
}

// insist tries each aggregator until one reports success.
func (w *World) insist(try func(context.Context, *Aggregator) error) {
	for i := 0; w.at() < runFor-5*time.Second; i++ {
		w.mu.Lock()
		a := w.aggregators[i%len(w.aggregators)]
		w.mu.Unlock()
		if a != nil {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			err := try(ctx, a)
			cancel()
			if err == nil && !a.quiet.Load() {
				return
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
}
