package statsd_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/statsd"
)

// inbox sums what a listener hands over.
type inbox struct {
	mu   sync.Mutex
	sums map[hotparam.Key]int64
	some chan struct{} // gets a token at every Handle, if there is room
}

func newInbox() *inbox {
	return &inbox{sums: map[hotparam.Key]int64{}, some: make(chan struct{}, 1)}
}

func (in *inbox) handle(counts []hotparam.Count) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, c := range counts {
		in.sums[c.Key] += c.N
	}
	select {
	case in.some <- struct{}{}:
	default:
	}
}

// await waits until a key has reached n.
func (in *inbox) await(t *testing.T, key hotparam.Key, n int64) {
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
	if cfg.Address == "" {
		cfg.Address = "127.0.0.1:0"
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
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return running{l, stop}
}

func sender(t *testing.T, cfg statsd.SenderConfig) *statsd.Sender {
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
	t.Cleanup(func() { _ = s.Close() })
	return s
}
