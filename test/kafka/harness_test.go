package kafka_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/transport/kafka"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The metrics library below the client has one ticker for the process.
		goleak.IgnoreAnyFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

const topic = "counts"

// cluster starts a broker of its own on loopback.
func cluster(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{
		kfake.NumBrokers(1),
		kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func address(port int) []string { return []string{net.JoinHostPort("127.0.0.1", strconv.Itoa(port))} }

func config(brokers []string) kafka.Config {
	return kafka.Config{Brokers: brokers, Topic: topic, Group: "judges", Namespace: "news",
		Log: slog.New(slog.DiscardHandler)}
}

// logTo is a log that may be read while it is written.
type logTo struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logTo) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logTo) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logTo) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// run runs f until stop, which waits for its end.
func run(t *testing.T, f func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Error("Run does not end")
		}
	})
	t.Cleanup(stop)
	return stop
}

func producer(t *testing.T, cfg kafka.ProducerConfig) (*kafka.Producer, func()) {
	t.Helper()
	p, err := kafka.NewProducer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p, run(t, p.Run)
}

// inbox sums the counts that consumers deliver, and removes the counts of partitions that they lose: the state of one
// member of a group.
type inbox struct {
	mu   sync.Mutex
	sums map[hottype.Key]int64
}

func (in *inbox) handle(counts []hottype.Count) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.sums == nil {
		in.sums = map[hottype.Key]int64{}
	}
	for _, c := range counts {
		in.sums[c.Key] += c.N
	}
}

func (in *inbox) lost(held func(hottype.Key) bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	maps.DeleteFunc(in.sums, func(key hottype.Key, _ int64) bool { return held(key) })
}

func (in *inbox) total() (n int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, v := range in.sums {
		n += v
	}
	return n
}

func consumer(t *testing.T, in *inbox, cfg kafka.ConsumerConfig) (*kafka.Consumer, func()) {
	t.Helper()
	cfg.Handle, cfg.Lost = in.handle, in.lost
	c, err := kafka.NewConsumer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c, run(t, c.Run)
}

// await polls, because the other side is a network away.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("waited too long for %s", what)
		}
	}
}

// batch returns counts for n keys, n(i) = i+1, and their total.
func batch(n int) (counts []hottype.Count, total int64) {
	second := time.Now().Unix()
	for i := range n {
		counts = append(counts, hottype.Count{Key: hottype.Key(fmt.Sprintf("topic?id=%d", i)), N: int64(i + 1),
			Second: second})
		total += int64(i + 1)
	}
	return counts, total
}
