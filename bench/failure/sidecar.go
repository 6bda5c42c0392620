package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/storage/rediscontrol"
	"github.com/hotparam/pipeline/internal/storage/redislimits"
)

// The limits, and the number of gates that share them.
const (
	gates       = 2
	rate, burst = 100, 200 // of the hot key
	window      = 1000     // of a client, per second
	clients     = 1000
	hotKey      = "topic?id=42"
	limits      = `
rules:
  - name: topic
    match: {path: /topic}
    params: [id]
    hot: {rate: 10}
    limit: {algorithm: token_bucket, rate: 100, burst: 200, on_store_failure: local}
ip:
  fixed: {limit: 1000, window: 1s, on_store_failure: local}
`
)

// sidecar holds the parts of a limiter-sidecar that use Redis.
type sidecar struct {
	gate    *gate.Gate
	redis   *redisclient.Client
	reports *rediscontrol.Reporter
	lines   logged
	stop    func()
}

func openSidecar(ctx context.Context, name string, addrs []string) (*sidecar, error) {
	set, err := rules.Parse("failure.yaml", []byte(limits))
	if err != nil {
		return nil, err
	}
	s := &sidecar{}
	log := slog.New(&s.lines)
	if s.redis, err = redisclient.Open(redisclient.Config{Addrs: addrs, Namespace: "failure", Log: log}); err != nil {
		return nil, err
	}
	mirror := new(hotset.Replica)
	now := time.Now()
	mirror.Replace("bench", report.HotSet{Version: 1, At: now, Keys: []hottype.HotKey{
		{Key: hotKey, Rule: "topic", Rate: 100, Since: now, Until: now.Add(time.Hour)},
	}})
	feed := rediscontrol.New(s.redis)
	s.reports = feed.Reporter(func(now time.Time) report.Limiter { return s.gate.Report(now) })
	s.gate = gate.New(gate.Config{
		Rules: set, Hot: mirror, Shared: redislimits.New(s.redis), Limiters: s.reports.Live, Instance: name, Log: log,
	})
	within, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = s.reports.Run(within) }) // nil when the context ends, like the next error
	running.Go(func() { _ = feed.Follow(within, mirror.Replace) })
	s.stop = func() {
		cancel()
		_ = s.redis.Close() // Redis may be gone
		running.Wait()
	}
	return s, nil
}

// openSidecars opens the sidecars, and waits until each knows the other and all limits are decided in Redis.
func openSidecars(ctx context.Context, addrs []string) (all []*sidecar, stop func(), err error) {
	stop = func() {
		for _, s := range all {
			s.stop()
		}
	}
	for i := range gates {
		s, err := openSidecar(ctx, fmt.Sprint("gate-", i), addrs)
		if err != nil {
			stop()
			return nil, nil, err
		}
		all = append(all, s)
	}
	for end := time.Now().Add(10 * time.Second); ; {
		ready := true
		for _, s := range all {
			ready = ready && s.reports.Live() == gates
		}
		if ready {
			return all, stop, nil
		}
		if time.Now().After(end) {
			stop()
			return nil, nil, errors.New("the gates do not hear of each other")
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			stop()
			return nil, nil, err
		}
	}
}

// logged counts log lines from Info on, of the gate and of other parts.
type logged struct{ gate, others atomic.Int64 }

// Enabled implements slog.Handler.
func (*logged) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

// Handle implements slog.Handler.
func (l *logged) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "gate:") {
		l.gate.Add(1)
	} else {
		l.others.Add(1)
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (l *logged) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements slog.Handler.
func (l *logged) WithGroup(string) slog.Handler { return l }
