package redistest

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/hotparam/pipeline/internal/wait"
)

// Patience is a timeout of clients whose calls should take milliseconds.
const Patience = 10 * time.Second

// Main runs the tests of a package. They also fail if a goroutine is left, and if go-redis wrote to its logger, which
// is standard error in most programs. That holds for all states of their servers.
func Main(m *testing.M) {
	flag.Parse()
	if !RequireAll() {
		// The tests of a short run wait for servers rather than for a processor.
		_ = flag.Set("test.parallel", "6") // this name and number are valid
	}
	q := quietly{m, new(Log)}
	redis.SetLogger(q.noise)
	goleak.VerifyTestMain(q)
}

// harmless matches messages of go-redis that are no fault, at most one for each connection. They occur when a client is
// closed during a call, as on a busy machine, and when a cluster answers CLUSTER SLOTS without addresses.
var harmless = regexp.MustCompile(`(?m)^(Unexpected conn\[\d+\] state changed by hook to CLOSED, closing it` +
	`|Conn has unread data \(not push notification\), removing it)\n`)

type quietly struct {
	m     *testing.M
	noise *Log
}

// Run implements goleak.TestingM.
func (q quietly) Run() int {
	code := q.m.Run()
	if text := harmless.ReplaceAllString(q.noise.String(), ""); text != "" && code == 0 {
		fmt.Printf("go-redis is not silent:\n%s", text)
		return 1
	}
	return code
}

// MustOpen returns the result of an open function, and closes it when the test ends.
func MustOpen[C io.Closer](t testing.TB, c C, err error) C {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

// Running runs a function such as Run(ctx), which must return nil when its context ends.
func Running(t testing.TB, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("run: %v", err)
			}
		case <-time.After(ready):
			t.Error("run does not return after its context ended")
		}
	})
	t.Cleanup(stop)
	return stop
}

// Next waits for a value on a channel.
func Next[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(ready):
		t.Fatalf("no %s after %v", what, ready)
		panic("unreachable")
	}
}

// None checks that a channel stays silent for time d.
func None[T any](t *testing.T, ch <-chan T, d time.Duration, what string) {
	t.Helper()
	select {
	case v := <-ch:
		t.Fatalf("unexpected %s: %+v", what, v)
	case <-time.After(d):
	}
}

// Eventually waits until a condition holds.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	within(t, ready, what, ok)
}

// within waits up to d until a condition holds.
func within(t testing.TB, d time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(d); !ok(); wait.For(context.Background(), 5*time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not after %v: %s", d, what)
		}
	}
}

// Log collects log lines.
type Log struct {
	mu  sync.Mutex
	buf strings.Builder
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String returns the lines so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Printf implements the logger of go-redis.
func (l *Log) Printf(_ context.Context, format string, v ...any) {
	_, _ = fmt.Fprintf(l, format+"\n", v...) // a strings.Builder does not fail
}

// Logger writes into the log.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
