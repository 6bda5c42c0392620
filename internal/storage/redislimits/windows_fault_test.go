package redislimits

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/internal/wait"
)

// left returns the remaining amount that a process knows, once it has exchanged.
func (w *Windows) left(t testing.TB, c limit.Charge) int64 {
	t.Helper()
	c.Cost = 0
	w.ask(t, time.Now(), c)
	w.exchange(context.Background())
	return w.ask(t, time.Now(), c).Remaining
}

// Every key expires when its window no longer counts, whatever is written to the key.
func TestWindows_KeysExpireWithTheirWindow(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	all, ctx := processes(t, 3, s.Addr()), context.Background()
	const window = 300 * 24 * time.Hour
	for _, algorithm := range []limit.Algorithm{limit.FixedWindow, limit.SlidingWindow} {
		c := windowCharge(visitor(1), algorithm, 100, window, 1)
		for range 3 {
			for _, w := range all {
				now := time.Now()
				w.ask(t, now, c)
				w.ask(t, now, c)
				w.exchange(ctx)
				w.RefundAt(now, []limit.Charge{c})
				w.exchange(ctx)
			}
		}
	}
	end := time.UnixMicro(time.Now().UnixMicro() / window.Microseconds() * window.Microseconds()).Add(window)
	keys := s.Client().Keys(ctx, "*").Val()
	if len(keys) != 2 {
		t.Errorf("keys %q, want one of each window", keys)
	}
	for _, k := range keys {
		want := time.Until(end)
		if strings.Contains(k, "sliding") {
			want += window
		}
		if ttl := s.Client().PTTL(ctx, k).Val(); ttl < want-time.Minute || ttl > want+time.Minute {
			t.Errorf("%s expires in %v, want %v", k, ttl, want)
		}
	}
}

// A key of another type, or a full one, is not shared and is logged once. Keys beside it are shared.
func TestWindows_DoNotShareForeignKeys(t *testing.T) {
	t.Parallel()
	s, ctx, log := redistest.Start(t), context.Background(), new(redistest.Log)
	raw := s.Client()
	all := processes(t, 2, s.Addr())
	all[0].store.log = log.Logger()
	began := time.Now()
	all[0].store.now = func() time.Time { return began }
	good := windowCharge(visitor(1), limit.SlidingWindow, 10, 300*24*time.Hour, 1)
	for i, spoil := range []func(key string){
		func(key string) { raw.LPush(ctx, key, "x") },
		func(key string) { raw.Set(ctx, key, "x", 0) },
		func(key string) { raw.HSet(ctx, key, "all", "many") },
		func(key string) { raw.HSet(ctx, key, all[0].id, "1 2 3", "all", "5") },
		func(key string) { raw.HSet(ctx, key, all[0].id, "1 7", "all", "5") }, // less than its part
		func(key string) {
			for n := range 512 {
				raw.HSet(ctx, key, fmt.Sprint("p", n), "1 0", "all", "0")
			}
		},
	} {
		bad := windowCharge(visitor(byte(10+i)), limit.FixedWindow, 10, 300*24*time.Hour, 1)
		window := bad.Spec.Window.Microseconds()
		spoil(all[0].shards[0].keys.sumsKey(window, time.Now().UnixMicro()/window*window, &bad.Subject))
		for _, w := range all {
			w.ask(t, time.Now(), bad)
		}
	}
	total := 0
	for range 20 {
		for _, w := range all {
			if w.ask(t, time.Now(), good).Allowed {
				total++
			}
			w.exchange(ctx)
		}
	}
	st := all[0].Stats()
	if total > 11 || st.Errors > 0 || st.Rejected != 6 || !all[0].Fresh(began, &good.Subject) {
		t.Errorf("%d of 10 beside foreign keys; %+v", total, st)
	}
	if n := strings.Count(log.String(), "not shared"); n != 1 {
		t.Errorf("%d log lines: %s", n, log.String())
	}
}

// One master out of three is frozen: windows on the others stay shared and fresh, and windows on the frozen one are
// shared again when it is back.
func TestWindows_StaySharedWithOneNodeOut(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	all := processes(t, 2, cluster.Addrs()...)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, w := range all {
		running.Go(func() { _ = w.Run(ctx) })
	}
	defer running.Wait()
	defer stop()
	frozen := cluster.Nodes[0]
	out := map[string]bool{}
	var charges []limit.Charge
	for n := range byte(40) {
		c := windowCharge(visitor(n), limit.FixedWindow, 1000, 300*24*time.Hour, 1)
		charges = append(charges, c)
		shard := all[0].shardOf(&c.Subject)
		out[c.Subject.Client.String()] = cluster.Master(t, shard.keys.prefix) == frozen
	}
	fresh := func(want func(stale bool) bool) func() bool {
		return func() bool {
			for _, w := range all {
				for _, c := range charges {
					if w.Fresh(time.Now(), &c.Subject) != want(out[c.Subject.Client.String()]) {
						return false
					}
				}
			}
			return true
		}
	}
	redistest.Eventually(t, "all to be fresh", fresh(func(bool) bool { return true }))
	frozen.Freeze()
	redistest.Eventually(t, "those on one node to be stale", fresh(func(stale bool) bool { return !stale }))
	knows := func(of func(stale bool) bool, left int64) func() bool {
		return func() bool {
			for _, w := range all {
				for _, c := range charges {
					peek := c
					if peek.Cost = 0; of(out[c.Subject.Client.String()]) &&
						w.ask(t, time.Now(), peek).Remaining != left {
						return false
					}
				}
			}
			return true
		}
	}
	for _, w := range all {
		for _, c := range charges {
			w.ask(t, time.Now(), c)
		}
	}
	redistest.Eventually(t, "the sums on the others", knows(func(stale bool) bool { return !stale }, 998))
	redistest.Eventually(t, "the others, and only they, to be fresh", fresh(func(stale bool) bool { return !stale }))
	frozen.Thaw()
	redistest.Eventually(t, "all sums, counted once", knows(func(bool) bool { return true }, 998))
	redistest.Eventually(t, "all to be fresh again", fresh(func(bool) bool { return true }))
}

// Fixed windows have no bound on the product of limit and length, as sliding ones have.
func TestWindowsHoldLargeLimits(t *testing.T) {
	t.Parallel()
	all := processes(t, 2, redistest.Start(t).Addr())
	for algorithm, most := range map[limit.Algorithm]int64{limit.FixedWindow: 200_000, limit.SlidingWindow: 100_000} {
		c, total := windowCharge(visitor(1), algorithm, most, 24*time.Hour, 1000), int64(0)
		for range 250 {
			for _, w := range all {
				if w.ask(t, time.Now(), c).Allowed {
					total += 1000
				}
				w.left(t, c)
			}
		}
		if total > most+1000 { // allowed by the other within one exchange
			t.Errorf("%s: %d a day admitted of %d, with an exchange after every call", algorithm, total, most)
		}
	}
}

// beforeEach runs before every command of a client.
type beforeEach func()

func (b beforeEach) DialHook(next redis.DialHook) redis.DialHook { return next }
func (b beforeEach) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (b beforeEach) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		b()
		return next(ctx, cmd)
	}
}

// A server that forgets the script between two calls of an exchange counts no sum twice.
func TestWindows_CountOnceWhileScriptsAreFlushed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	all := processes(t, 2, s.Addr())
	calls, raw := 0, s.Client()
	all[0].store.rdb.AddHook(beforeEach(func() {
		if calls++; calls%3 == 0 {
			raw.ScriptFlush(context.Background())
		}
	}))
	charge := func(n int) limit.Charge {
		return windowCharge(hottype.Client{Name: fmt.Sprint("c", n)}, limit.FixedWindow, 1000, 300*24*time.Hour, 1)
	}
	const clients = 3 * exchangeSums
	for range 4 {
		for n := range clients {
			all[0].ask(t, time.Now(), charge(n))
		}
		all[0].exchange(context.Background())
	}
	if st := all[0].Stats(); st.Errors > 0 {
		t.Errorf("%+v", st)
	}
	for n := range clients {
		peek := charge(n)
		peek.Cost = 0
		all[1].ask(t, time.Now(), peek)
	}
	all[1].exchange(context.Background())
	for n := range clients {
		peek := charge(n)
		peek.Cost = 0
		if got := all[1].ask(t, time.Now(), peek).Remaining; got != 996 {
			t.Fatalf("client %d: %d left of 1000 after 4", n, got)
		}
	}
}

// Requests that a process allows by its share count once at a gate: after its start and in an outage, while it knows no
// other process, and under another limit.
func TestWindowsCountSharesOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	w, ctx, now := processes(t, 1, s.Addr())[0], context.Background(), time.Now()
	w.store.now = func() time.Time { return now } // so that nothing becomes stale but by the test
	set := func(most int) *rules.Set {
		set, err := rules.Parse("t", fmt.Appendf(nil, `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1000}, limit: {rate: 1000, burst: 1000}}
ip:
  fixed: {limit: %d, window: 24h, consistency: async, on_store_failure: local}
  sliding: {limit: %d, window: 24h, consistency: async, on_store_failure: local}
`, most, most))
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	g := gate.New(gate.Config{Rules: set(200), Async: w, Limiters: func() int { return 2 }})
	admitted := 0
	ask := func(times int) (left int64) {
		for range times {
			v := g.Decide(ctx, now, &hottype.Request{Method: http.MethodGet, Host: "news.example",
				Target: "/topic?id=7", Header: http.Header{}, Client: visitor(1)})
			if v.Allowed {
				admitted++
			}
			left = v.Remaining
		}
		return left
	}
	check := func(when string, most int) {
		t.Helper()
		for range 2 {
			ask(1)
			w.exchange(ctx)
		}
		if left := ask(1); left != int64(most-admitted) {
			t.Errorf("%s: %d left of %d after %d", when, left, most, admitted)
		}
	}
	ask(30) // at once: nothing was exchanged yet
	check("after the start", 200)
	w.shards[0].lastAnswer.Add(-2 * int64(freshFor)) // as if no call was answered for so long
	ask(30)
	check("after an outage", 200)
	g.SetRules(set(150))
	check("after a reload", 150)
	g.SetRules(set(250))
	check("after another", 250)
}

// A process that starts in the middle of a window is fresh once it knows the sums of other processes in that window,
// and not before.
func TestWindowsFresh_OnceOthersAreKnown(t *testing.T) {
	t.Parallel()
	for name, addrs := range serverAndCluster(t) {
		all, c := processes(t, 2, addrs...), windowCharge(visitor(1), limit.FixedWindow, 10, 300*24*time.Hour, 1)
		now := time.Now()
		all[1].store.now = func() time.Time { return now }
		all[0].ask(t, time.Now(), c)
		all[0].exchange(context.Background())
		w, peek := all[1], c
		peek.Cost = 0
		if left := w.ask(t, now, peek).Remaining; left != 10 || w.Fresh(now, &c.Subject) ||
			w.Fresh(now.Add(-time.Hour), &c.Subject) {
			t.Errorf("%s: %d left of 10, fresh before the first exchange", name, left)
		}
		early := w.born.Add(time.Millisecond)
		w.shardOf(&c.Subject).lastAnswer.Store(int64(time.Millisecond))
		if w.Fresh(early, &c.Subject) {
			t.Errorf("%s: fresh after the first call of an exchange", name)
		}
		w.exchange(context.Background())
		if left := w.ask(t, now, peek).Remaining; left != 9 || !w.Fresh(now, &c.Subject) {
			t.Errorf("%s: %d left of 10 after the first exchange, fresh %v", name, left,
				w.Fresh(now, &c.Subject))
		}
	}
}

// A call changes nothing if the server reads it after a later one and its sum equals the sum of an earlier one.
func TestWindows_IgnoreLateCall(t *testing.T) {
	t.Parallel()
	s, ctx := redistest.Start(t), context.Background()
	all, c := processes(t, 2, s.Addr()), windowCharge(visitor(1), limit.FixedWindow, 10, 300*24*time.Hour, 3)
	line, now := &wire{fate: "ok"}, time.Now()
	all[0].store.rdb.AddHook(line)
	all[0].ask(t, now, c)
	all[0].exchange(ctx) // 3
	c.Cost = 1
	all[0].RefundAt(now, []limit.Charge{c})
	line.fate = "late"
	all[0].exchange(ctx) // 2, which does not arrive yet, nor when it is repeated
	all[0].ask(t, now, c)
	line.fate = "ok"
	all[0].exchange(ctx) // 3
	for _, args := range line.late {
		if err := s.Client().Do(ctx, args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if left := all[1].left(t, c); len(line.late) != 2 || left != 7 {
		t.Errorf("%d left of 10 after 3, and %d late calls", left, len(line.late))
	}
}

// unreliable cuts 5 of 100 answers and loses 2, by a seed.
type unreliable struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func (u *unreliable) DialHook(next redis.DialHook) redis.DialHook { return next }
func (u *unreliable) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (u *unreliable) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		u.mu.Lock()
		fate := u.rng.IntN(100)
		u.mu.Unlock()
		err := next(ctx, cmd)
		switch {
		case fate < 5:
			err = io.ErrUnexpectedEOF
		case fate < 7:
			<-ctx.Done()
			err = ctx.Err()
		}
		if err != nil {
			cmd.SetErr(err)
		}
		return err
	}
}

// Three processes behind links that lose answers allow at most 1.5 times a client's limit in a window, and nearly all
// of the limit: a call without an answer is repeated at once, and then the shares apply.
func TestWindows_BoundOvershootWithLostAnswers(t *testing.T) {
	t.Parallel()
	const limit, rate, clients = 100, 100, 20 // a second; the rate is of each process for each client
	set, err := rules.Parse("t", fmt.Appendf(nil, `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 100000}, limit: {rate: 100000, burst: 100000}}
ip:
  fixed: {limit: %d, window: 1s, consistency: async, on_store_failure: local}
`, limit))
	if err != nil {
		t.Fatal(err)
	}
	type window struct {
		second int64
		client byte
	}
	var mu sync.Mutex
	admitted, asked := map[window]int{}, map[window]int{} // guarded by mu
	ctx, stop := context.WithTimeout(t.Context(), 8*time.Second)
	defer stop()
	var running sync.WaitGroup
	for i, w := range processes(t, 3, redistest.Start(t).Addr()) {
		w.callTimeout, w.probeTimeout = callTimeout, probeTimeout
		w.store.rdb.AddHook(&unreliable{rng: rand.New(rand.NewPCG(uint64(i), 7))})
		g := gate.New(gate.Config{Rules: set, Async: w, Limiters: func() int { return 3 }})
		running.Go(func() { _ = w.Run(ctx) })
		running.Go(func() {
			wait.Every(ctx, time.Second/rate, func() {
				for n := range byte(clients) {
					now := time.Now()
					v := g.Decide(ctx, now, &hottype.Request{Method: http.MethodGet, Host: "news.example",
						Target: "/topic?id=7", Header: http.Header{}, Client: visitor(n)})
					mu.Lock()
					if asked[window{now.Unix(), n}]++; v.Allowed {
						admitted[window{now.Unix(), n}]++
					}
					mu.Unlock()
				}
			})
		})
	}
	running.Wait()
	first, last, total, full, most := int64(math.MaxInt64), int64(0), 0, 0, 0
	for w := range asked {
		first, last = min(first, w.second), max(last, w.second)
	}
	for second := first + 2; second < last; second++ { // whole ones, after the start
		for n := range byte(clients) {
			w := window{second, n}
			most = max(most, admitted[w])
			if asked[w] >= 2*limit { // a busy machine does not ask for more than there is
				total += admitted[w]
				full++
			}
		}
	}
	mean := float64(total) / float64(max(full, 1))
	t.Logf("%d windows that were asked for enough: mean %.0f, most %d admitted of %d", full, mean, most, limit)
	if most > limit*3/2 || full > 0 && mean < limit*0.9 {
		t.Errorf("mean %.0f, most %d admitted of %d", mean, most, limit)
	}
}

// deadlines cuts all calls and records how long each may take.
type deadlines struct {
	beforeEach
	within []time.Duration
}

func (d *deadlines) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		end, _ := ctx.Deadline()
		d.within = append(d.within, time.Until(end))
		cmd.SetErr(errCut)
		return errCut
	}
}

// A call of an exchange without an answer is repeated once, within the same time. The next exchange asks once.
func TestExchange_BoundsItsCalls(t *testing.T) {
	t.Parallel()
	w := processes(t, 1, redistest.Start(t).Addr())[0]
	w.exchange(t.Context())
	w.callTimeout, w.probeTimeout = callTimeout, probeTimeout
	d := new(deadlines)
	w.store.rdb.AddHook(d)
	w.exchange(t.Context())
	w.exchange(t.Context())
	if len(d.within) != 3 || max(d.within[0], d.within[1]) > callTimeout || d.within[2] > probeTimeout {
		t.Errorf("calls within %v", d.within)
	}
}

// A failing exchange is logged once, and once when it works again; meanwhile it is counted.
func TestExchange_LogsFailureOnce(t *testing.T) {
	t.Parallel()
	server, log := redistest.Start(t), new(redistest.Log)
	w := patient(openWith(t, redisclient.Config{Addrs: []string{server.Addr()}, Log: log.Logger()}))
	for i, step := range []struct {
		change func()
		lines  int
		text   string
		errors uint64
		stale  int64
	}{
		{func() {}, 0, "", 0, 0}, {server.Stop, 1, "WARN", 1, 1}, {func() {}, 1, "WARN", 2, 1},
		{server.Restart, 2, "works again", 2, 0}, {func() {}, 2, "", 2, 0}, {server.Stop, 3, "WARN", 3, 1},
	} {
		step.change()
		w.exchange(t.Context())
		st, text := w.Stats(), log.String()
		last := text[strings.LastIndex(strings.TrimSuffix(text, "\n"), "\n")+1:]
		if strings.Count(text, "\n") != step.lines || !strings.Contains(last, step.text) ||
			uint64(st.Errors) != step.errors || int64(st.Stale) != step.stale {
			t.Errorf("step %d: %+v\n%s", i, st, text)
		}
	}
}
