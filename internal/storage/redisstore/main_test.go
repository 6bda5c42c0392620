package redisstore

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/storage/redisstore/redistest"
)

// TestMain also fails when go-redis wrote to its logger, standard error for
// most programs, whatever the tests did to their servers.
func TestMain(m *testing.M) {
	flag.Parse()
	if !redistest.Complete() {
		// What is left in a short run waits for servers rather than for a processor.
		_ = flag.Set("test.parallel", "6") // does not fail for such a name and number
	}
	if !redistest.Complete() && os.Getenv(stepsEnv) == "" {
		_ = os.Setenv(stepsEnv, "1000") // does not fail for such a name
	}
	var noise logged
	redis.SetLogger(&noise)
	goleak.VerifyTestMain(quietly{m, &noise})
}

// stepsEnv says how many steps each law of the limits takes. A short run takes a tenth
// of what is usual.
const stepsEnv = "HOTPARAM_LIMIT_STEPS"

type quietly struct {
	m     *testing.M
	noise *logged
}

func (q quietly) Run() int {
	code := q.m.Run()
	if text := q.noise.String(); text != "" && code == 0 {
		fmt.Printf("go-redis is not silent:\n%s", text)
		return 1
	}
	return code
}

// patience is how long a test waits for what should take milliseconds.
const patience = 10 * time.Second

// server is a Redis under test, whatever it is, and a namespace of the test.
type server struct {
	addrs     []string
	raw       redis.UniversalClient
	namespace string
}

func (s server) open(t *testing.T) *Client {
	t.Helper()
	return openWith(t, Config{Addrs: s.addrs, Namespace: s.namespace})
}

// TestEverywhere runs on a server and on a cluster what must be the same on both. Every test has a namespace of its own.
func TestEverywhere(t *testing.T) {
	suite := map[string]func(*testing.T, server){
		"published-set-is-read-back":           testPublishedSetIsReadBack,
		"old-process-is-fenced":                testOldProcessIsFenced,
		"late-calls-undo-nothing":              testLateCallsUndoNothing,
		"set-outlives-its-publisher":           testSetOutlivesItsPublisher,
		"new-process-keeps-what-it-finds":      testNewProcessKeepsWhatItCannotJudge,
		"follower-gets-what-is-there":          testFollowerGetsWhatIsThereAndWhatComes,
		"large-sets-travel-as-changes":         testLargeSetsTravelAsChanges,
		"lost-changes-heal":                    testLostChangesHeal,
		"lost-notices-heal":                    testLostNoticesHeal,
		"broken-set-does-not-stop-the-others":  testBrokenSetDoesNotStopTheOthers,
		"overrides-are-kept-with-their-author": testOverridesAreKeptWithTheirAuthor,
		"broken-overrides":                     testBrokenOverrides,
		"two-followers-see-a-change":           testTwoFollowersSeeAChange,
		"lost-override-notices-heal":           testLostOverrideNoticesHeal,
		"many-writers-of-one-override":         testManyWritersOfOneOverride,
		"lost-overrides-are-written-back":      testLostOverridesAreWrittenBack,
		"reports":                              testReports,
	}
	run := func(t *testing.T, addrs []string, raw redis.UniversalClient) {
		for name, test := range suite {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, server{addrs, raw, name})
			})
		}
	}
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		run(t, []string{s.Addr()}, s.Client())
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := redistest.StartCluster(t)
		raw := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), Protocol: 2, DisableIdentity: true})
		t.Cleanup(func() { _ = raw.Close() })
		run(t, c.Addrs(), raw)
	})
}

func plain(t *testing.T, addr string) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// open makes a client that is closed when the test ends.
func open(t testing.TB, addrs ...string) *Client {
	t.Helper()
	return openWith(t, Config{Addrs: addrs, Namespace: "test", Timeout: 5 * time.Second}) // machines are busy
}

// serverAndCluster are the addresses of one of each, started for the test; in a short
// run there is no cluster.
func serverAndCluster(t testing.TB) map[string][]string {
	all := map[string][]string{"server": {redistest.Start(t).Addr()}}
	if redistest.Complete() {
		all["cluster"] = redistest.StartCluster(t).Addrs()
	}
	return all
}

// steady is open for tests that compare answers, thousands of them: a machine that
// stands still for seconds, as busy ones do, makes them late and not wrong. The
// connection is there before the first of them.
func steady(t testing.TB, addr string) *Client {
	t.Helper()
	c := openWith(t, Config{Addrs: []string{addr}, Namespace: "test", Timeout: time.Minute})
	eventually(t, "an answer of the server", func() bool { return c.Ping(context.Background()) == nil })
	return c
}

func openWith(t testing.TB, cfg Config) *Client {
	t.Helper()
	c, err := Open(cfg)
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

// delivery is one call of a hot set follower.
type delivery struct {
	publisher string
	set       hottype.HotSet
}

// follow runs Follow until the test ends, or until stop is called.
func follow(t *testing.T, c *Client) (deliveries <-chan delivery, stop func()) {
	t.Helper()
	out := make(chan delivery, 10_000)
	return out, running(t, func(ctx context.Context) error {
		return c.Follow(ctx, func(p string, set hottype.HotSet) { out <- delivery{p, set} })
	})
}

// running runs something with a Run(ctx) shape; it must return nil when its
// context ends.
func running(t *testing.T, run func(context.Context) error) (stop func()) {
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
		case <-time.After(patience):
			t.Error("run does not return after its context ended")
		}
	})
	t.Cleanup(stop)
	return stop
}

// next waits for something on a channel.
func next[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("no %s after %v", what, patience)
		panic("unreachable")
	}
}

// none makes sure that a channel stays silent for a while.
func none[T any](t *testing.T, ch <-chan T, d time.Duration, what string) {
	t.Helper()
	select {
	case v := <-ch:
		t.Fatalf("unexpected %s: %+v", what, v)
	case <-time.After(d):
	}
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not after %v: %s", patience, what)
		}
	}
}

// hot makes a set of n keys, judged at and hot for a minute.
func hot(at time.Time, n int) hottype.HotSet {
	set := hottype.HotSet{At: at}
	for i := range n {
		set.Keys = append(set.Keys, hottype.Hot{
			Key: hottype.Key(fmt.Sprintf("topic?id=%d", i)), Rule: "topic",
			Rate: 200 + float64(i)/5, Peak: 300 + float64(i)/5,
			Since: at.Add(-time.Minute), Until: at.Add(time.Minute),
		})
	}
	return set
}

// varied makes a set that compresses as a real one does: ids without a pattern
// and times of their own.
func varied(at time.Time, n int) hottype.HotSet {
	r := rand.New(rand.NewPCG(1, 2))
	set := hot(at, n)
	for i := range set.Keys {
		h := &set.Keys[i]
		h.Key = hottype.Key(fmt.Sprintf("article?id=%x&lang=en", r.Uint64()))
		h.Rate = float64(1000+r.IntN(20_000)) / 5
		h.Peak = h.Rate + float64(r.IntN(5000))/5
		h.Lower, h.Upper = h.Rate, h.Rate
		h.Since = at.Add(-rand.N(time.Hour)).Truncate(time.Microsecond)
		h.Until = at.Add(12 * time.Second)
	}
	return set
}

// now is a time as Redis keeps it.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// logged collects log lines.
type logged struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Printf implements the logger of go-redis.
func (l *logged) Printf(_ context.Context, format string, v ...any) {
	_, _ = fmt.Fprintf(l, format+"\n", v...) // a strings.Builder does not fail
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// immortal lists the keys of the test's namespace without an expiry.
func (s server) immortal(t *testing.T) []string {
	t.Helper()
	var out []string
	scan := func(ctx context.Context, c *redis.Client) error {
		keys, err := c.Keys(ctx, newKeys(s.namespace).prefix+"*").Result()
		if err != nil {
			return err
		}
		for _, k := range keys {
			if ttl, err := c.PTTL(ctx, k).Result(); err != nil || ttl <= 0 && ttl != -2 {
				out = append(out, fmt.Sprintf("%s (%v, %v)", k, ttl, err))
			}
		}
		return nil
	}
	var err error
	switch c := s.raw.(type) {
	case *redis.ClusterClient:
		var mu sync.Mutex
		err = c.ForEachMaster(context.Background(), func(ctx context.Context, n *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			return scan(ctx, n)
		})
	case *redis.Client:
		err = scan(context.Background(), c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}
