package integration_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/aggregate"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/transport/kafka"
)

const topic = "counts"

func config(c *cluster) kafka.Config {
	return kafka.Config{Brokers: c.addresses(), Topic: topic, Group: "judges", Namespace: "news", CreateTopic: true,
		Log: slog.New(slog.NewTextHandler(c.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))}
}

// run runs something until stop, which waits for its end.
func run(t *testing.T, f func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// owner is a member of the group, with the counts of its partitions.
type owner struct {
	*kafka.Consumer
	stop func()

	mu    sync.Mutex
	sums  map[hottype.Key]int64
	total int64
}

// wholeTest is a backlog that reaches back to the beginning, so that the member with a partition has all of its counts.
const wholeTest = time.Hour

func join(t *testing.T, cfg kafka.ConsumerConfig) *owner {
	t.Helper()
	o := &owner{sums: map[hottype.Key]int64{}}
	cfg.Handle, cfg.Lost = o.handle, o.lost
	c, err := kafka.NewConsumer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	o.Consumer, o.stop = c, run(t, c.Run)
	return o
}

func (o *owner) handle(counts []hottype.Count) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range counts {
		o.sums[c.Key] += c.N
		o.total += c.N
	}
}

func (o *owner) lost(held func(hottype.Key) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.sums, func(key hottype.Key, n int64) bool {
		if held(key) {
			o.total -= n
			return true
		}
		return false
	})
}

func (o *owner) has() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.total
}

// load sends a batch every 100 ms while it is switched on.
type load struct {
	*kafka.Producer
	stop func()

	mu   sync.Mutex
	on   bool
	sums map[hottype.Key]int64
	all  int64
}

func newLoad(t *testing.T, cfg kafka.ProducerConfig, pairs int) *load {
	t.Helper()
	p, err := kafka.NewProducer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l := &load{Producer: p, stop: run(t, p.Run), sums: map[hottype.Key]int64{}}
	pace := run(t, func(ctx context.Context) error {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for at := 0; ; at++ {
			select {
			case <-tick.C:
				if err := l.send(ctx, pairs, at); err != nil {
					return err
				}
			case <-ctx.Done():
				return nil
			}
		}
	})
	stop := l.stop
	l.stop = func() { pace(); stop() }
	return l
}

func (l *load) send(ctx context.Context, pairs, at int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.on {
		return nil
	}
	counts := make([]hottype.Count, pairs)
	now := time.Now().Unix()
	for i := range counts {
		c := hottype.Count{Key: hottype.Key(fmt.Sprintf("topic?id=%d", (i+at*7)%(3*pairs))), N: int64(1 + i%5),
			Second: now}
		counts[i] = c
		l.sums[c.Key] += c.N
		l.all += c.N
	}
	return l.Send(ctx, counts)
}

func (l *load) turn(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on = on
}

// settled waits until everything sent was written or dropped.
func (l *load) settled(t *testing.T) {
	t.Helper()
	await(t, "the producer", func() bool {
		s := l.Stats()
		l.mu.Lock()
		defer l.mu.Unlock()
		return s.Sent+s.Dropped == uint64(l.all) && s.Queued == 0
	})
}

// dark waits until the owners together have want again after an event, and logs for how long they did not.
func dark(t *testing.T, what string, want int64, owners ...*owner) {
	t.Helper()
	var began time.Time
	var last time.Duration
	quiet := time.Now()
	await(t, what, func() bool {
		var sum int64
		for _, o := range owners {
			sum += o.has()
		}
		switch {
		case sum > want:
			t.Fatalf("%s: %d are counted, more than the %d that were sent", what, sum, want)
		case sum < want && began.IsZero():
			began = time.Now()
		case sum == want && !began.IsZero():
			last += time.Since(began)
			began, quiet = time.Time{}, time.Now()
		}
		return began.IsZero() && time.Since(quiet) > 2*time.Second
	})
	t.Logf("%s: some partition was in no member's memory for %v", what, last.Round(time.Millisecond))
	// At worst a member waits until the group has given up another one.
	if most := 12 * time.Second; last > most {
		t.Errorf("%s: that is more than %v", what, most)
	}
}

// Members join and leave, leaders move, brokers restart and are all away: at the end each key is counted exactly as
// often as it was sent.
func TestKafka_DeliversEachCountOnce(t *testing.T) {
	c := start(t, 2)
	cfg := config(c)
	l := newLoad(t, kafka.ProducerConfig{Config: cfg, MaxAge: time.Minute, MaxPairs: 4 << 20, MaxBytes: 1 << 30}, 2000)
	member := kafka.ConsumerConfig{Config: cfg, Backlog: wholeTest}
	a := join(t, member)
	sum := func(owners ...*owner) (n int64) {
		for _, o := range owners {
			n += o.has()
		}
		return n
	}
	busy := func(what string, owners ...*owner) {
		t.Helper()
		l.turn(true)
		l.mu.Lock()
		from := l.all
		l.mu.Unlock()
		await(t, "traffic "+what, func() bool { return sum(owners...) > from+50_000 })
	}
	quiet := func() int64 {
		t.Helper()
		l.turn(false)
		l.settled(t)
		if s := l.Stats(); s.Dropped != 0 {
			t.Fatalf("%+v", s)
		}
		return l.all
	}
	busy("to one member", a)
	all := quiet()
	b := join(t, member)
	await(t, "its share", func() bool { return b.Stats().Partitions == 4 && a.Stats().Partitions == 4 })
	dark(t, "a member joined", all, a, b)

	busy("to two members", a, b)
	moveLeaders(c)
	busy("after leaders moved", a, b)
	c.stop(1)
	busy("without one broker", a, b)
	c.start(1)
	c.ready(1)
	busy("with two brokers", a, b)
	dark(t, "leaders moved and a broker restarted", quiet(), a, b)

	busy("before a member leaves", a, b)
	b.stop()
	await(t, "all partitions", func() bool { return a.Stats().Partitions == 8 })
	dark(t, "a member left", quiet(), a)
	if b.has() != 0 {
		t.Errorf("who left still has %d", b.has())
	}

	busy("before all brokers go", a)
	c.stop(1)
	c.stop(0)
	l.turn(true)
	await(t, "the outage", func() bool { return l.Stats().Connected == 0 && l.Stats().Queued > 10_000 })
	c.start(0)
	c.start(1)
	c.ready(0)
	b = join(t, member)
	busy("after all brokers were away", a, b)
	all = quiet()
	dark(t, "all brokers were away and a member joined", all, a, b)

	got := maps.Clone(a.sums)
	for key, n := range b.sums {
		got[key] += n
	}
	if !maps.Equal(got, l.sums) {
		t.Errorf("%d keys, want %d, or their counts differ", len(got), len(l.sums))
	}
	t.Logf("%d requests in %d records; %+v and %+v", all, l.Stats().Records, a.Stats(), b.Stats())
}

// moveLeaders moves each partition to the other broker, permanently: one copy, on another machine.
func moveLeaders(c *cluster) {
	c.t.Helper()
	leaders := func(ctx context.Context, cl *kgo.Client) (map[int32]int32, error) {
		req := kmsg.NewPtrMetadataRequest()
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(topic)
		req.Topics = append(req.Topics, t)
		res, err := req.RequestWith(ctx, cl)
		if err != nil {
			return nil, err
		}
		out := map[int32]int32{}
		for _, p := range res.Topics[0].Partitions {
			out[p.Partition] = p.Leader
		}
		return out, nil
	}
	c.do(func(ctx context.Context, cl *kgo.Client) error {
		before, err := leaders(ctx, cl)
		if err != nil {
			return err
		}
		req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		req.TimeoutMillis = 10_000
		rt := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		rt.Topic = topic
		for partition, leader := range before {
			p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
			p.Partition, p.Replicas = partition, []int32{3 - leader}
			rt.Partitions = append(rt.Partitions, p)
		}
		req.Topics = append(req.Topics, rt)
		if err := check(req.RequestWith(ctx, cl)); err != nil {
			return err
		}
		await(c.t, "the leaders to move", func() bool {
			now, err := leaders(ctx, cl)
			moved := err == nil
			for partition, leader := range before {
				moved = moved && now[partition] == 3-leader
			}
			return moved
		})
		// Two copies again, the new leader first.
		for i := range rt.Partitions {
			p := &rt.Partitions[i]
			p.Replicas = append(p.Replicas, 3-p.Replicas[0])
		}
		req.Topics[0] = rt
		return check(req.RequestWith(ctx, cl))
	})
}

func check(res *kmsg.AlterPartitionAssignmentsResponse, err error) error {
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(res.ErrorCode); err != nil {
		return err
	}
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}

// While brokers are away for long the oldest counts are dropped, and exactly the rest arrives.
func TestProducer_CountsDroppedCounts(t *testing.T) {
	c := start(t, 1)
	cfg := config(c)
	l := newLoad(t, kafka.ProducerConfig{Config: cfg, MaxPairs: 20_000}, 2000)
	o := join(t, kafka.ConsumerConfig{Config: cfg, Backlog: wholeTest})
	l.turn(true)
	await(t, "traffic", func() bool { return o.has() > 10_000 })
	l.turn(false)
	l.settled(t)
	c.stop(0)
	l.turn(true)
	await(t, "the loss", func() bool { return l.Stats().Dropped > 30_000 })
	if s := l.Stats(); s.Queued > 40_000 {
		t.Errorf("%d pairs wait", s.Queued)
	}
	c.start(0)
	c.ready(0)
	sent := l.Stats().Sent
	await(t, "traffic after it", func() bool { return l.Stats().Sent > sent+50_000 })
	l.turn(false)
	l.settled(t)
	s := l.Stats()
	dark(t, "the broker was away", l.all-int64(s.Dropped), o)
	t.Logf("%d requests, of which %d were dropped and counted", l.all, s.Dropped)
}

// A member that dies is noticed after the session timeout; its partitions are
// counted by the others then, exactly.
func TestKafka_CountsOnAfterAMemberDies(t *testing.T) {
	if brokers := os.Getenv("HOTPARAM_TEST_MEMBER"); brokers != "" {
		o := join(t, kafka.ConsumerConfig{Backlog: wholeTest, SessionTimeout: 6 * time.Second, Config: kafka.Config{
			Brokers: []string{brokers}, Topic: topic, Group: "judges", Namespace: "news"}})
		await(t, "partitions", func() bool { return o.Stats().Partitions == 4 })
		fmt.Println("member runs")
		<-t.Context().Done() // killed long before
	}
	c := start(t, 1)
	cfg := config(c)
	l := newLoad(t, kafka.ProducerConfig{Config: cfg}, 2000)
	a := join(t, kafka.ConsumerConfig{Config: cfg, Backlog: wholeTest, SessionTimeout: 6 * time.Second})
	l.turn(true)
	await(t, "traffic", func() bool { return a.has() > 10_000 })
	l.turn(false)
	l.settled(t)
	kill := member(t, c)
	await(t, "its share", func() bool { return a.Stats().Partitions == 4 })
	kill()
	began := time.Now()
	await(t, "its partitions", func() bool { return a.has() == l.all })
	took := time.Since(began)
	t.Logf("a member was killed: its partitions were counted again after %v", took.Round(time.Millisecond))
	if took > time.Minute {
		t.Errorf("that is more than session timeout, rebalance and reading")
	}
}

// member runs the branch of TestKafka_CountsOnAfterAMemberDies above in a process of its own.
func member(t *testing.T, c *cluster) (kill func()) {
	t.Helper()
	cmd := self(t, "-test.run=^TestKafka_CountsOnAfterAMemberDies$", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), "HOTPARAM_TEST_MEMBER="+c.address(0))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(kill)
	return kill
}

// A producer and an aggregator on one machine with their broker.
func TestKafka_SustainsTheRate(t *testing.T) {
	const seconds = 12
	pairs, least := 25_000, 200_000.0 // every 100 ms; every second
	if raced {
		pairs, least = 2_500, 10_000
	}
	c := start(t, 1)
	cfg := config(c)
	agg := aggregate.New(aggregate.Config{Rules: &rules.Set{Rules: []*rules.Rule{{
		Name: "topic", Hot: rules.HotCriteria{Rate: 1e6, Window: 5 * time.Second, Cooldown: 3 * time.Second,
			ReleaseRatio: 0.7},
	}}}})
	run(t, agg.Run)
	consumer, err := kafka.NewConsumer(kafka.ConsumerConfig{Config: cfg, Taken: agg.ForgetPast, Lost: agg.Forget,
		Handle: func(counts []hottype.Count) { _ = agg.Send(t.Context(), counts) }})
	if err != nil {
		t.Fatal(err)
	}
	run(t, consumer.Run)
	l := newLoad(t, kafka.ProducerConfig{Config: cfg}, pairs)
	await(t, "both", func() bool { return consumer.Stats().Partitions == 8 && l.Stats().Connected == 1 })
	cpu, began := cpuTime(), time.Now()
	l.turn(true)
	var lag time.Duration
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for time.Since(began) < seconds*time.Second {
		<-tick.C
		lag = max(lag, consumer.Stats().Lag)
	}
	l.turn(false)
	l.settled(t)
	await(t, "the rest", func() bool { return consumer.Stats().Requests == l.Stats().Sent })
	took, s := time.Since(began), consumer.Stats()
	rate := float64(s.Counts) / took.Seconds()
	t.Logf("%d pairs in %v: %.0f pairs/s sent, read and counted, with a lag of at most %v; "+
		"%.1f CPU seconds per million pairs for producer, consumer and aggregator, without the broker (%d cores, %s/%s, %s)",
		s.Counts, took.Round(time.Millisecond), rate, lag.Round(time.Millisecond),
		(cpuTime()-cpu).Seconds()/float64(s.Counts)*1e6, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH,
		runtime.Version())
	if d := l.Stats().Dropped; rate < least || d != 0 {
		t.Errorf("%.0f pairs/s, %d requests dropped; want %.0f and none", rate, d, least)
	}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
