package statsd_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/transport/statsd"
)

// inbox sums the counts that a listener hands over.
type inbox struct {
	mu   sync.Mutex
	sums map[hottype.Key]int64
	some chan struct{} // receives a token at every Handle, if there is room
	// seconds receives the second of each count, if there is room, or is nil.
	seconds chan int64
}

func newInbox() *inbox {
	return &inbox{sums: map[hottype.Key]int64{}, some: make(chan struct{}, 1)}
}

func (in *inbox) handle(counts []hottype.Count) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, c := range counts {
		in.sums[c.Key] += c.N
		select {
		case in.seconds <- c.Second:
		default:
		}
	}
	select {
	case in.some <- struct{}{}:
	default:
	}
}

// await waits until a key has reached n.
func (in *inbox) await(t *testing.T, key hottype.Key, n int64) {
	t.Helper()
	timeout := time.After(10 * time.Second)
	for {
		in.mu.Lock()
		got := in.sums[key]
		in.mu.Unlock()
		if got >= n {
			return
		}
		select {
		case <-in.some:
		case <-timeout:
			t.Fatalf("%s: got %d of %d", key, got, n)
		}
	}
}

type running struct {
	*statsd.Listener
	stop func() // ends Run and waits for it
}

func listen(t *testing.T, in *inbox, cfg statsd.ListenerConfig) running {
	t.Helper()
	if len(cfg.Addresses)+len(cfg.Packets) == 0 {
		cfg.Addresses = []string{"127.0.0.1:0"}
	}
	if cfg.Names.Prefix == "" {
		cfg.Names = hp1
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Handle = in.handle
	l, err := statsd.NewListener(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return running{l, run(t, l)}
}

// run runs a listener until the end of the test, or until stop, which waits for it.
func run(t *testing.T, l *statsd.Listener) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// outlet is a running Sender.
type outlet struct {
	*statsd.Sender
	stop func() // ends Run and waits for it
}

func sender(t *testing.T, cfg statsd.SenderConfig) outlet {
	t.Helper()
	if cfg.Names.Prefix == "" {
		cfg.Names = hp1
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s, err := statsd.NewSender(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return outlet{s, stop}
}

// fataler is a *testing.T or a *rapid.T.
type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// send sends counts, waits until their results are known, and returns these.
func (o outlet) send(t fataler, counts ...hottype.Count) statsd.ServerStats {
	t.Helper()
	before, total := o.Stats(), uint64(0)
	for _, c := range counts {
		total += uint64(max(c.N, 0))
	}
	if err := o.Send(context.Background(), counts); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.After(20 * time.Second); ; {
		now := o.Stats()
		sent, dropped, invalid := now.Sent-before.Sent, now.Dropped-before.Dropped, now.Invalid-before.Invalid
		if sent+dropped+invalid >= total {
			return statsd.ServerStats{
				Sent: sent, Dropped: dropped, Invalid: invalid, Lines: now.Lines - before.Lines,
				SetLines: now.SetLines - before.SetLines, Datagrams: now.Datagrams - before.Datagrams,
			}
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("of %d requests %d were sent and %d dropped", total, sent, dropped)
		}
	}
}
