package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/middleware"
	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/transport/kafka"
	"github.com/hotparam/pipeline/internal/transport/statsd"
	"github.com/hotparam/pipeline/test/internal/program"
)

// out is a sender of counts with the account of its requests.
type out struct {
	tally.Sink
	run func(context.Context) error
	// account returns the numbers of requests that it sent and that it reports as lost.
	account func() (sent, lost uint64)
	// received returns the number of requests that arrived, once run has returned, and may wait until sent of them have
	// arrived. It is nil if nothing can arrive.
	received func(sent uint64) uint64
	atMost   bool // the other side may have received fewer than were sent
}

// With any fault of the other side, requests are served, waiting counts are bounded, and every request is accounted
// for: it was sent or it was lost, and the number sent is the number that arrived.
func TestSinkFaults_DoNotAffectRequests(t *testing.T) {
	t.Parallel()
	for name, build := range map[string]func(*testing.T) out{
		"statsd healthy":      func(t *testing.T) out { return statsdOut(t, datagrams(t, 0)) },
		"statsd slow":         func(t *testing.T) out { return statsdOut(t, datagrams(t, 5*time.Millisecond)) },
		"statsd frozen":       func(t *testing.T) out { return statsdOut(t, datagrams(t, frozen)) },
		"statsd refusing":     func(t *testing.T) out { return statsdOut(t, nobody(t)) },
		"statsd unresolvable": func(t *testing.T) out { return statsdOut(t, peer{address: "statsd.example.org:8125"}) },
		"kafka healthy":       func(t *testing.T) out { return kafkaOut(t, broker(t, 0)) },
		"kafka slow":          func(t *testing.T) out { return kafkaOut(t, broker(t, 100*time.Millisecond)) },
		"kafka frozen":        func(t *testing.T) out { return kafkaOut(t, broker(t, frozen)) },
		"kafka mute":          func(t *testing.T) out { return kafkaOut(t, mute(t)) },
		"kafka refusing":      func(t *testing.T) out { return kafkaOut(t, peer{address: freeport.Addr(t)}) },
		"kafka unresolvable":  func(t *testing.T) out { return kafkaOut(t, peer{address: "kafka.invalid:9092"}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := build(t)
			count := tally.New(tally.Config{Sink: o, Flush: 10 * time.Millisecond, MaxKeys: 4000, Log: quiet})
			slowest := serveMany(t, count, o.run)
			if slowest > 2*time.Second { // every timeout of a sink is longer
				t.Errorf("a request took %v", slowest)
			}
			s := count.Stats()
			if s.Added != visits || s.Added != s.Flushed+s.DroppedFull+s.DroppedSink || s.Pending != 0 {
				t.Errorf("tally %+v, want %d added", s, visits)
			}
			sent, lost := o.account()
			if sent+lost != s.Flushed {
				t.Errorf("%d sent and %d lost of %d", sent, lost, s.Flushed)
			}
			arrived := uint64(0)
			if o.received != nil {
				arrived = o.received(sent)
			}
			if arrived > sent || arrived < sent && !o.atMost {
				t.Errorf("%d were sent, %d arrived", sent, arrived)
			}
			t.Logf("%d added, %d had no room, %d sent, %d lost, %d arrived", s.Added, s.DroppedFull+s.DroppedSink, sent,
				lost, arrived)
		})
	}
}

// visits are the requests of one test, of which half have a key of their own.
const visits = 40000

// serveMany serves the visits through the middleware while the tally and its sink run, and ends both in order. It
// returns the longest time of a request.
func serveMany(t *testing.T, count *tally.Tally, run func(context.Context) error) time.Duration {
	t.Helper()
	set, err := rules.Parse("sinks.yaml",
		[]byte("rules:\n  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1000000, window: 5s}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	h := middleware.New(gate.New(gate.Config{Rules: set, Counter: count}), middleware.Options{}).Wrap(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))

	sending, stopSending := context.WithCancel(context.Background())
	sent := make(chan error, 1)
	go func() { sent <- run(sending) }()
	counting, stopCounting := context.WithCancel(context.Background())
	counted := make(chan error, 1)
	go func() { counted <- count.Run(counting) }()

	const visitors = 4
	slowest := make([]time.Duration, visitors)
	var all sync.WaitGroup
	for v := range visitors {
		all.Go(func() {
			for i := range visits / visitors {
				target := "/topic?id=" + strconv.Itoa(i%10)
				if i%2 == 0 {
					target = fmt.Sprintf("/topic?id=%d-%d", v, i)
				}
				w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, target, nil)
				start := time.Now()
				h.ServeHTTP(w, r)
				slowest[v] = max(slowest[v], time.Since(start))
				if w.Code != http.StatusOK {
					t.Errorf("%s: %d", target, w.Code)
					return
				}
			}
		})
	}
	all.Wait()
	stopCounting()
	if err := <-counted; err != nil {
		t.Error(err)
	}
	stopSending()
	select {
	case err := <-sent:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the sink does not end")
	}
	return max(slowest[0], slowest[1], slowest[2], slowest[3])
}

var quiet = slog.New(slog.DiscardHandler)

// frozen is the pause of a server that never continues.
const frozen time.Duration = -1

// peer is the other side.
type peer struct {
	address  string
	received func(sent uint64) uint64
	atMost   bool
}

func statsdOut(t *testing.T, p peer) out {
	t.Helper()
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	s, err := statsd.NewSender(statsd.SenderConfig{
		Servers: []string{p.address}, Names: canon.Names{Prefix: "p"}, Interval: 10 * time.Millisecond,
		Timeout: 3 * time.Second, Log: quiet,
		// The name server knows no name of this test.
		Resolver: &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
			<-ended
			return nil, errors.New("the test has ended")
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out{s, s.Run, func() (uint64, uint64) {
		st := s.Stats()
		return st.Sent, st.Dropped
	}, p.received, p.atMost}
}

// unixSocket takes datagrams until the test ends.
func unixSocket(t *testing.T) *net.UnixConn {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// datagrams is a StatsD server on a unix socket, which loses nothing, that
// takes a pause after each datagram.
func datagrams(t *testing.T, pause time.Duration) peer {
	t.Helper()
	conn := unixSocket(t)
	sum, done := uint64(0), make(chan struct{})
	read := func() {
		defer close(done)
		for buf := make([]byte, 1<<16); ; {
			n, err := conn.Read(buf)
			if err != nil {
				return // its time is over
			}
			sum += counted(buf[:n])
			<-time.After(max(pause, 0))
		}
	}
	if pause != frozen {
		go read()
	}
	return peer{"unix:" + conn.LocalAddr().String(), func(uint64) uint64 {
		if pause == frozen {
			go read() // the datagrams that are left in the socket
		}
		_ = conn.SetReadDeadline(time.Now().Add(2 * time.Second))
		<-done
		return sum
	}, false}
}

// counted sums the counters of a datagram.
func counted(packet []byte) (sum uint64) {
	for line := range bytes.SplitSeq(packet, []byte("\n")) {
		line, counter := bytes.CutSuffix(line, []byte("|c"))
		if n, err := strconv.ParseUint(string(line[bytes.LastIndexByte(line, ':')+1:]), 10, 64); counter && err == nil {
			sum += n
		}
	}
	return sum
}

// nobody returns a UDP port without a listener. The kernel accepts datagrams for it, and reports the error afterwards.
func nobody(t *testing.T) peer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return peer{conn.LocalAddr().String(), nil, true}
}

func kafkaOut(t *testing.T, p peer) out {
	t.Helper()
	producer, err := kafka.NewProducer(kafka.ProducerConfig{
		Config:   kafka.Config{Brokers: []string{p.address}, Topic: "counts", Namespace: "e2e", Log: quiet},
		MaxPairs: 30000, Drain: 3 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	return out{producer, producer.Run, func() (uint64, uint64) {
		st := producer.Stats()
		return st.Sent, st.Dropped
	}, p.received, p.atMost}
}

// broker is a Kafka broker that takes a pause before it writes a record.
func broker(t *testing.T, pause time.Duration) peer {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "counts"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	p := peer{address: c.ListenAddrs()[0]}
	switch {
	case pause == frozen:
		c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			return nil, nil, true // handled by not answering
		})
		return p
	case pause > 0:
		c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			c.SleepControl(func() { <-time.After(pause) })
			return nil, nil, false
		})
	}
	p.received = func(sent uint64) uint64 { return consumed(t, p.address, sent) }
	return p
}

// consumed reads the topic from its beginning until the sum of its counts is want.
func consumed(t *testing.T, address string, want uint64) uint64 {
	t.Helper()
	var mu sync.Mutex
	sum := uint64(0)
	consumer, err := kafka.NewConsumer(kafka.ConsumerConfig{
		Config: kafka.Config{Brokers: []string{address}, Topic: "counts", Group: "check", Namespace: "e2e",
			Log: quiet},
		Backlog: time.Hour,
		Handle: func(counts []hottype.Count) {
			mu.Lock()
			defer mu.Unlock()
			for _, c := range counts {
				sum += uint64(c.N)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- consumer.Run(ctx) }()
	program.Await(t, time.Minute, "what was sent", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return sum >= want
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return sum
}

// mute is a broker that takes connections and never answers.
func mute(t *testing.T) peer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns []net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			conns = append(conns, conn)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
		for _, conn := range conns {
			_ = conn.Close()
		}
	})
	return peer{address: l.Addr().String()}
}
