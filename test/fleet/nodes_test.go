package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/counting/arrival"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/detection/aggregate"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/operator/notify"
	"github.com/hotparam/pipeline/internal/pipeline"
	"github.com/hotparam/pipeline/internal/pipeline/distributed"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/storage/rediscontrol"
	"github.com/hotparam/pipeline/internal/transport/kafka"
	"github.com/hotparam/pipeline/internal/transport/statsd"
	"github.com/hotparam/pipeline/internal/wait"
)

// Settings of the programs, with their defaults.
const (
	budget      = 20 * time.Millisecond
	noInputTTL  = 10 * time.Minute
	hotTTL      = 5 * time.Second
	lease       = 2 * time.Second
	stopTimeout = 10 * time.Second
)

var names = canon.Names{Prefix: "hotparam", Style: canon.StyleHP1}

// clock is the clock of one node: virtual time plus the error of the node.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// process is one run of a program.
type process struct {
	name  string // no two processes have the same
	began time.Duration
	clock *clock
	net   *Network
	log   *slog.Logger
	quiet *atomic.Bool  // true once it was killed: its later logs are not read
	rules *atomic.Int64 // the version that it runs, or 0 for the rules of the start
	held  *freezer      // it is stopped
	stood *wait.Standstill

	store  *redisclient.Client
	closes []func() error
	cancel context.CancelFunc
	ended  chan struct{}
	err    error
}

// must returns the value that a constructor made. Its errors are mistakes in the settings of this package.
func must[T any](made T, err error) T {
	if err != nil {
		panic(err)
	}
	return made
}

func (p *process) openStore(r *Redis, budget time.Duration) {
	cfg := r.settings(p.name)
	cfg.Budget, cfg.Now, cfg.Log = budget, p.clock.now, p.log
	p.store = must(redisclient.Open(cfg))
	p.closes = append(p.closes, p.store.Close)
}

// start runs the parts until stop or kill.
func (p *process) start(run func(context.Context, time.Duration, *slog.Logger) error) {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel, p.ended = cancel, make(chan struct{})
	go func() {
		defer close(p.ended)
		p.err = run(ctx, stopTimeout, p.log)
		for _, c := range p.closes {
			_ = c()
		}
	}()
}

// stop is SIGTERM.
func (p *process) stop() { p.cancel() }

// kill ends the process as SIGKILL does: it reaches no other node any longer.
func (p *process) kill() {
	p.quiet.Store(true)
	p.held.thaw()
	p.net.Kill(p.name)
	p.cancel()
}

// sender sends the counts of a limiter.
type sender interface {
	sink
	Status() (text string, ok bool) // whether they arrive
	loss() float64                  // share that does not
}

type statsdSender struct{ *statsd.Sender }

func (s statsdSender) loss() float64 { return s.Stats().Loss }

type kafkaSender struct{ *kafka.Producer }

func (s kafkaSender) Status() (text string, ok bool) {
	if err := s.Outage(); err != nil {
		return err.Error(), false
	}
	return "takes counts", true
}

func (s kafkaSender) loss() float64 { return 0 }

// Limiter is a sidecar.
type Limiter struct {
	process
	*distributed.Pipeline
	sender sender
}

// startLimiter starts a limiter. It sends its counts to Kafka if k is not nil, or else to the first of servers, and a
// copy to the second server if there is one.
func startLimiter(p process, r *Redis, set *rules.Set, addr netip.Addr, servers []string, k *Kafka) *Limiter {
	l := &Limiter{process: p}
	l.openStore(r, budget)
	shared := distributed.Shared{Store: l.store, NoInputTTL: noInputTTL}
	if k != nil {
		l.sender = kafkaSender{must(kafka.NewProducer(kafka.ProducerConfig{Config: p.counts(k), Source: p.name,
			Now: p.clock.now}))}
	} else {
		out := must(statsd.NewSender(statsd.SenderConfig{Servers: servers[:1], Standby: servers[1:], Names: names,
			Log: p.log, Dial: p.dial(addr), Standstill: p.stood}))
		l.sender = statsdSender{out}
		shared.Arrivals = &rediscontrol.Arrivals{FlowIDs: out.FlowIDs,
			Observe: func(r arrival.Report) { out.Observe(r) }}
	}
	shared.Sink = stoppableSink{l.sender, p.held}
	l.Pipeline = distributed.New(
		pipeline.Config{
			Rules: set, Tally: tally.Config{Log: p.log},
			Gate: gate.Config{Local: limit.NewMemory(limit.MemoryConfig{}), Budget: budget, Instance: p.name,
				ColdKeys: true, Log: p.log},
		}, shared)
	l.Add(lifecycle.Sinks, "redis", l.store.Watch)
	l.Add(lifecycle.Sinks, "standstill", l.beat)
	l.Add(lifecycle.Sinks, "rules", followRules(l.Feed, &l.process, l.SetRules))
	l.start(l.Run)
	return l
}

// counts returns the settings that producers and consumers share. Consumers add a group.
func (p *process) counts(k *Kafka) kafka.Config {
	return kafka.Config{Brokers: []string{kafkaNode + ":9092"}, Topic: "counts", Namespace: namespace, Log: p.log,
		Open: k.openers(p.name)}
}

// followRules has a process run the central rules.
func followRules(feed *rediscontrol.Feed, p *process, apply func(*rules.Set)) func(context.Context) error {
	return func(ctx context.Context) error {
		return feed.Rules().Follow(ctx, func(s *rules.Stored, err error) {
			if err != nil || s == nil {
				return
			}
			if s.Version <= p.rules.Load() {
				return
			}
			set := must(rules.Parse("central", []byte(s.Text)))
			p.rules.Store(s.Version)
			apply(set)
		})
	}
}

// Aggregator is an aggregator.
type Aggregator struct {
	process
	*distributed.Aggregator
	consumer *kafka.Consumer // nil: counts come by StatsD
	notifier *notify.Notifier
}

// startAggregator starts an aggregator that receives the counts sent to node, or reads its partitions of Kafka.
func startAggregator(p process, r *Redis, h *Webhook, set *rules.Set, node string, k *Kafka) *Aggregator {
	a := &Aggregator{process: p}
	a.openStore(r, 0)
	publisher := rediscontrol.PublisherConfig{ID: "aggregator", Lease: lease, Hold: hotTTL, Keep: noInputTTL}
	var listener *statsd.Listener
	var unread time.Duration
	source := func() (s aggregate.SourceStatus) {
		p.held.awaitThaw()
		s.At, s.Heartbeats = listener.LastReceived()
		s.LeftOut = listener.LeavesOut()
		return s
	}
	if k != nil {
		publisher.ID = node
		if !k.static {
			unread = sessionTimeout
		}
		source = func() (s aggregate.SourceStatus) {
			p.held.awaitThaw()
			var err error
			if s.At, s.Heartbeats, err = a.consumer.LastReceived(); err != nil {
				s.Err = err.Error()
			}
			return s
		}
	} else {
		publisher.Received = func() (map[string]arrival.Flow, bool) { return listener.Received() }
	}
	a.Aggregator = distributed.NewAggregator(distributed.AggregatorConfig{
		Store: a.store, Log: p.log, Unread: unread, Overrides: func(rules.LiveOverrides) {},
		Aggregate: aggregate.Config{Rules: set, Shards: 1, HotTTL: hotTTL, NoInputTTL: noInputTTL, Log: p.log,
			Sources: map[string]func() aggregate.SourceStatus{"counts": source}},
		Publisher: publisher,
	})
	handle := func(counts []hottype.Count) { _ = a.Aggregate.Send(context.Background(), counts) }
	if k != nil {
		c := kafka.ConsumerConfig{Config: p.counts(k), Handle: handle, Taken: a.Aggregate.ForgetPast,
			Lost: a.Aggregate.Forget, Now: p.clock.now, SessionTimeout: sessionTimeout, Instance: k.instance(node)}
		c.Group = "aggregators"
		a.consumer = must(kafka.NewConsumer(c))
		a.Add(lifecycle.Sources, "kafka", func(ctx context.Context) error { return a.RunAsOwner(ctx, a.consumer.Run) })
	} else {
		listener = must(statsd.NewListener(statsd.ListenerConfig{Packets: p.listen(node), Names: names, Log: p.log,
			Now: p.clock.now, Handle: handle, Standstill: p.stood}))
		a.Add(lifecycle.Sources, "statsd", listener.Run)
		a.Add(lifecycle.Sinks, "standstill", a.beat)
	}
	a.Add(lifecycle.Sinks, "rules", followRules(a.Feed, &a.process, a.SetRules))
	a.addNotifier(h)
	a.start(a.Run)
	return a
}

// Collector is a collector, which sums the counts of limiters.
type Collector struct {
	process
	lifecycle.Stages
	listener *statsd.Listener
}

// startCollector starts a collector that receives the counts sent to node.
func startCollector(p process, addr netip.Addr, node string, servers []string) *Collector {
	c := &Collector{process: p}
	sender := must(statsd.NewSender(statsd.SenderConfig{Servers: servers[:1], Standby: servers[1:], Names: names,
		Log: p.log, Dial: p.dial(addr), Standstill: p.stood, Relay: func() map[string]arrival.Flow {
			flows, _ := c.listener.Received()
			return flows
		}}))
	sums := tally.New(tally.Config{Sink: stoppableSink{sender, p.held}, Log: p.log})
	c.listener = must(statsd.NewListener(statsd.ListenerConfig{
		Packets: p.listen(node), Names: names, Log: p.log, Now: p.clock.now, Standstill: p.stood,
		Handle: func(counts []hottype.Count) {
			for i := range counts {
				sums.AddCount(counts[i])
			}
		},
	}))
	c.Add(lifecycle.Sources, "statsd", c.listener.Run)
	c.Add(lifecycle.Buffers, "tally", sums.Run)
	c.Add(lifecycle.Sinks, "statsd", sender.Run)
	c.Add(lifecycle.Sinks, "standstill", c.beat)
	c.start(c.Run)
	return c
}

func addrOf(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("10.1.%d.%d", i>>8, i&255)) }
