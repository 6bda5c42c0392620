package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/detection/aggregate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/storage/rediscontrol"
	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/transport/kafka"
	"github.com/hotparam/pipeline/internal/transport/statsd"
)

// rulesText is a format for the namespace and the window.
const rulesText = `
namespace: %s
rules:
  - name: topic
    match: {path: /topic}
    params: [id]
    hot:   {rate: 50, window: %v}
    limit: {rate: 1/h, burst: 1}
`

// way is one way from the request to the limiters.
type way struct {
	name string
	goal goal
	open func(*site) error
}

// goal holds the times to be reached.
type goal struct{ p50, p99 time.Duration }

func ways() []way {
	near, far := goal{200 * time.Millisecond, 500 * time.Millisecond}, goal{200 * time.Millisecond, time.Second}
	return []way{
		{"in-process", near, inProcess},
		{"statsd", near, byStatsD},
		{"kafka", far, byKafka},
	}
}

// limiter returns for each target whether a request for it would be allowed.
type limiter func(ctx context.Context, uris []string) (allowed []bool, err error)

// running is a way that is open.
type running struct {
	// count counts one request.
	count    func(ctx context.Context, now time.Time, uri string, from hottype.Client)
	limiters [limiters]limiter
}

// site holds the ground of a way, and the parts that the way has built on it.
type site struct {
	running
	world   *world
	tr      *tracer
	set     *rules.Set
	config  string // file with the rules
	ctx     context.Context
	parts   sync.WaitGroup
	closers []func()
}

func openSite(ctx context.Context, w *world, kind way, window time.Duration, tr *tracer) (*site, error) {
	namespace := fmt.Sprintf("latency_%d", w.next())
	text := fmt.Sprintf(rulesText, namespace, window)
	set, err := rules.Parse("rules.yaml", []byte(text))
	if err != nil {
		return nil, err
	}
	s := &site{world: w, tr: tr, set: set, config: filepath.Join(w.dir, namespace+".yaml")}
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	var stop context.CancelFunc
	s.ctx, stop = context.WithCancel(ctx)
	s.closers = append(s.closers, func() { stop(); s.parts.Wait() })
	if err := kind.open(s); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// close ends everything that was started, in reverse order.
func (s *site) close() {
	for len(s.closers) > 0 {
		last := len(s.closers) - 1
		s.closers[last]()
		s.closers = s.closers[:last]
	}
}

// run runs a part until the site is closed.
func (s *site) run(part func(context.Context) error) {
	s.parts.Go(func() { _ = part(s.ctx) }) // returns because of the context
}

// inProcess wires the parts as hotparam serve does, but with two gates.
func inProcess(s *site) error {
	var mirrors [limiters]hotset.Replica
	publish := &heardPublisher{tr: s.tr}
	for i := range mirrors {
		publish.to = append(publish.to, hotset.NewLocalPublisher(&mirrors[i], "local"))
	}
	judge := aggregate.New(aggregate.Config{Rules: s.set, Publish: publish, Shards: runtime.GOMAXPROCS(0),
		Log: quietly})
	count := s.tally(judge)
	s.run(judge.Run)
	var gates [limiters]*gate.Gate
	for i := range gates {
		gates[i] = gate.New(gate.Config{Rules: s.set, Hot: &mirrors[i], Counter: count, Log: quietly})
		uncounted := gate.New(gate.Config{Rules: s.set, Hot: &mirrors[i], Log: quietly})
		s.limiters[i] = func(ctx context.Context, uris []string) ([]bool, error) {
			allowed := make([]bool, len(uris))
			for k, uri := range uris {
				v := uncounted.Decide(ctx, time.Now(), request(uri, client(k)))
				allowed[k] = v.Allowed
			}
			return allowed, nil
		}
	}
	s.count = func(ctx context.Context, now time.Time, uri string, from hottype.Client) {
		gates[now.Nanosecond()>>10%limiters].Decide(ctx, now, request(uri, from))
	}
	return nil
}

func request(uri string, from hottype.Client) *hottype.Request {
	return &hottype.Request{Method: "GET", Host: "news.example", Target: uri, Client: from}
}

// byStatsD sends counts by UDP.
func byStatsD(s *site) error {
	port, err := freeport.Find()
	if err != nil {
		return err
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	sender, err := statsd.NewSender(statsd.SenderConfig{Servers: []string{addr}, Names: canon.Names{Prefix: "hotparam"},
		Log: quietly})
	if err != nil {
		return err
	}
	s.run(sender.Run)
	return s.through(sender, "--statsd.listen", addr)
}

// byKafka sends counts by a broker in this process.
func byKafka(s *site) error {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		return err
	}
	s.closers = append([]func(){broker.Close}, s.closers...) // after its users
	addr := broker.ListenAddrs()[0]
	producer, err := kafka.NewProducer(kafka.ProducerConfig{Config: kafka.Config{
		Brokers: []string{addr}, Topic: "hotparam-counts", Namespace: s.set.Namespace, CreateTopic: true, Log: quietly,
	}})
	if err != nil {
		return err
	}
	s.run(producer.Run)
	return s.through(producer, "--kafka.brokers", addr)
}

// through counts in a service of its own, and starts an aggregator with the settings in, and the sidecars.
func (s *site) through(sink tally.Sink, in ...string) error {
	common := []string{"--config", s.config, "--redis.addr", s.world.redis.Addr, "--admin.listen", "", "--log.level",
		"warn"}
	if err := s.start("aggregator", append(in, common...)...); err != nil {
		return err
	}
	for i := range s.limiters {
		port, err := freeport.Find()
		if err != nil {
			return err
		}
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if err := s.start("limiter-sidecar", append(common, "--sidecar.count", "none", "--decide.listen",
			addr)...); err != nil {
			return err
		}
		asked := newSidecar(addr)
		if err := asked.await(s.ctx); err != nil {
			return err
		}
		s.limiters[i] = asked.ask
	}
	if err := s.follow(); err != nil {
		return err
	}
	service := gate.New(gate.Config{Rules: s.set, Counter: s.tally(sink), Log: quietly})
	s.count = func(ctx context.Context, now time.Time, uri string, from hottype.Client) {
		service.Decide(ctx, now, request(uri, from))
	}
	return nil
}

// follow reads the hot set as a sidecar does, for the stages.
func (s *site) follow() error {
	c, err := redisclient.Open(redisclient.Config{Addrs: []string{s.world.redis.Addr}, Namespace: s.set.Namespace,
		Log: quietly})
	if err != nil {
		return err
	}
	s.closers = append([]func(){func() { _ = c.Close() }}, s.closers...) // after its users
	s.run(func(ctx context.Context) error {
		return rediscontrol.New(c).Follow(ctx, func(_ string, set report.HotSet) { s.tr.heard(set, time.Now()) })
	})
	return nil
}

// start runs a program of this repository until the site is closed.
func (s *site) start(name string, args ...string) error {
	p, err := s.world.start(name, args...)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, p.Stop)
	return nil
}

// tally returns a tally that sums counts and records the times at which it passes them to sink.
func (s *site) tally(sink tally.Sink) *tally.Tally {
	t := tally.New(tally.Config{Sink: handedSink{s.tr, sink}, Log: quietly})
	s.run(t.Run)
	return t
}

// handedSink records the counts that are passed on.
type handedSink struct {
	tr *tracer
	to tally.Sink
}

// Send implements tally.Sink.
func (h handedSink) Send(ctx context.Context, counts []hottype.Count) error {
	h.tr.handed(counts, time.Now()) // before Send, because afterwards the counts belong to the sink
	return h.to.Send(ctx, counts)
}

// heardPublisher publishes to several mirrors, and records it.
type heardPublisher struct {
	tr *tracer
	to []*hotset.LocalPublisher
}

// Publish implements aggregate.Publisher.
func (h *heardPublisher) Publish(ctx context.Context, set report.HotSet) error {
	var errs []error
	for _, to := range h.to {
		errs = append(errs, to.Publish(ctx, set))
	}
	h.tr.heard(set, time.Now())
	return errors.Join(errs...)
}

// quietly discards the logs of the parts in this process, because faults show in the trials.
var quietly = slog.New(slog.DiscardHandler)
