package hotparam_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/shared"
	"github.com/hotparam/pipeline/internal/detection/aggregate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/pipeline"
	"github.com/hotparam/pipeline/internal/rules"
)

// TestEvents_TellThatNoCountsArrive has an aggregator that publishes all the time: to the hot set of a shared pipeline
// in memory, because a bubble's clock does not advance during a call of Redis. Its senders are silent from second 10 to
// 30. It reports no input after 3 s, and 3 s later the pipeline is blind.
func TestEvents_TellThatNoCountsArrive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rdb := redis.NewClient(&redis.Options{
			Addr:   "127.0.0.1:1", // an address, because go-redis looks names up
			Dialer: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no Redis") },
		})
		defer rdb.Close()
		type change struct {
			second int
			ended  bool
		}
		var seen []change
		begin := time.Now()
		note := func(e hotparam.Event) {
			if e.Kind == hotparam.EventBlind {
				seen = append(seen, change{int(e.At.Sub(begin).Seconds()), e.Ended})
			}
		}
		with := shared.Config{Redis: rdb, Sink: noSink{}}
		p := newPipeline(t, hotparam.Config{Shared: with, OnEvent: note}, string(rulesYAML))
		parts, err := pipeline.Extend(p)
		if err != nil {
			t.Fatal(err)
		}
		aggregator := aggregate.New(aggregate.Config{
			Rules: rules.Default(), Publish: hotset.NewLocalPublisher(parts.Hot, "aggregator"),
			Sources: map[string]func() aggregate.SourceStatus{"statsd": func() aggregate.SourceStatus {
				heard, silence := time.Now(), begin.Add(10*time.Second)
				if heard.After(silence) && heard.Before(silence.Add(20*time.Second)) {
					heard = silence
				}
				return aggregate.SourceStatus{At: heard, Heartbeats: true}
			}},
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = aggregator.Run(ctx) })
		stop := run(p)
		time.Sleep(20 * time.Second)
		if h := p.Stats().Health; h.Publishers != 1 || h.NoInputPublishers != 1 || !h.Blind() {
			t.Errorf("%+v", h)
		}
		time.Sleep(20 * time.Second)
		if err := stop(); err != nil {
			t.Error(err)
		}
		cancel()
		running.Wait()
		if want := []change{{16, false}, {30, true}}; !slices.Equal(seen, want) {
			t.Errorf("blind: %v, want %v", seen, want)
		}
	})
}
