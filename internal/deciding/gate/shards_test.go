package gate_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/gate"
)

// sharded is a shared store of four shards on two servers, which fail on demand.
// A subject's shard is the last byte of its name; clients are in shard 3.
type sharded struct {
	*limit.Memory
	mu    sync.Mutex
	on    [4]string // server of each shard, or "" while unknown
	down  map[string]bool
	slow  bool // a server that is down waits for the context
	vague bool // errors do not name the shard that failed
	calls atomic.Int64
}

func newSharded() *sharded {
	return &sharded{Memory: limit.NewMemory(limit.MemoryConfig{}), on: [4]string{"a", "a", "b", "b"},
		down: map[string]bool{}}
}

type shardDown int

func (e shardDown) Error() string    { return fmt.Sprint("shard ", int(e), " is down") }
func (e shardDown) FailedShard() int { return int(e) }

func (s *sharded) Shards() int { return len(s.on) }

func (s *sharded) Shard(subject *limit.Subject) int {
	if subject.Name == "" {
		return 3
	}
	return int(subject.Name[len(subject.Name)-1] - '0')
}

func (s *sharded) Server(shard int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.on[shard]
}

// set changes whether a server is down, and the servers of the shards.
func (s *sharded) set(server string, down bool, move ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down[server] = down
	copy(s.on[:], move)
}

func (s *sharded) Take(ctx context.Context, now time.Time, charges []limit.Charge,
	results []limit.Result) (bool, error) {
	s.calls.Add(1)
	for i := range charges {
		shard := s.Shard(&charges[i].Subject)
		s.mu.Lock()
		down := s.down[s.on[shard]]
		s.mu.Unlock()
		switch {
		case !down:
			continue
		case s.slow:
			<-ctx.Done()
		}
		if s.vague {
			return false, errDown
		}
		return false, fmt.Errorf("store: %w", shardDown(shard))
	}
	return s.Memory.Take(ctx, now, charges, results)
}

func onShards(t *testing.T, store *sharded, yaml string, log *bytes.Buffer) *bundle {
	var keys []hottype.Key
	cfg := gate.Config{Shared: store, Limiters: func() int { return 4 }, Budget: time.Hour} // as in build
	if log != nil {
		cfg.Log = slog.New(slog.NewTextHandler(log, nil))
	}
	b := build(t, yaml, cfg)
	for _, rule := range []string{"local", "open", "closed"} {
		for shard := range 4 {
			keys = append(keys, hottype.Key(fmt.Sprint(rule, "?id=", shard)))
		}
	}
	b.hot(keys...)
	return b
}

// A failed server opens one breaker for all its shards, after as many failures as a
// store of one server, is probed at intervals, and does not affect other servers.
func TestOneServerOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		store := newSharded()
		store.slow = true
		b := onShards(t, store, failureRules, &log)
		store.set("b", true)
		waited := map[bool]int{}
		for i := range 4000 {
			began, shard := time.Now(), i%4
			v := b.get(fmt.Sprint("/open?id=", shard), "")
			if gone := shard >= 2; !v.Allowed && !gone || gone != (v.Reason == hottype.ReasonStore) {
				t.Fatalf("%d: %+v", i, v)
			}
			if time.Since(began) > 0 {
				waited[shard >= 2]++
			}
			time.Sleep(time.Millisecond)
			b.now = b.now.Add(100 * time.Millisecond)
		}
		// Five until the breaker opens, then one each quarter of a second.
		if waited[false] != 0 || waited[true] < 15 || waited[true] > 5+18 {
			t.Errorf("waited %v", waited)
		}
		if s := b.Stats(); s.StoreOpened != 1 || s.BreakersOpen != 1 || !s.StoreOpen ||
			int(s.StoreErrors) != waited[true] {
			t.Errorf("%+v", s)
		}
		store.set("b", false)
		time.Sleep(time.Second)
		for shard := range 4 {
			if v := b.get(fmt.Sprint("/open?id=", shard), ""); v.Reason != hottype.ReasonHot {
				t.Errorf("%+v", v)
			}
		}
		if s := b.Stats(); s.StoreClosed != 1 || s.BreakersOpen != 0 || s.StoreOpen {
			t.Errorf("%+v", s)
		}
		if n := strings.Count(log.String(), "\n"); n != 3 || strings.Count(log.String(), "server=b") != 3 {
			t.Errorf("logged:\n%s", &log)
		}
	})
}

// Both servers out: each is logged by itself.
func TestBreakers_BothServersOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // a breaker asks again after a time
		store := newSharded()
		b := onShards(t, store, failureRules, nil)
		store.set("a", true)
		store.set("b", true)
		for i := range 100 {
			b.get(fmt.Sprint("/open?id=", i%4), "")
		}
		if s := b.Stats(); s.StoreOpened != 2 || s.BreakersOpen != 2 || s.StoreErrors != 10 {
			t.Errorf("%+v", s)
		}
	})
}

// While the servers of shards are unknown, or the store has one, they share a breaker.
func TestUnknownServersAreOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // a breaker asks again after a time
		store := newSharded()
		store.set("", true, "", "", "", "")
		b := onShards(t, store, failureRules, nil)
		for i := range 100 {
			b.get(fmt.Sprint("/open?id=", i%4), "")
		}
		if s := b.Stats(); s.StoreOpened != 1 || s.BreakersOpen != 1 || s.StoreErrors != 5 {
			t.Errorf("%+v", s)
		}
	})
}

// A failover moves the shards of a server to another one: one call finds that out
// for all of them. Shards that moved before, unnoticed, fail with those they are with.
func TestBreakers_FollowMovedShards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newSharded()
		b := onShards(t, store, failureRules, nil)
		for range 2 { // a failure of b shows where each shard is
			store.set("b", true)
			for range 5 {
				b.get("/open?id=3", "")
			}
			store.set("b", true, "a", "a", "c", "c")
			time.Sleep(time.Second)
			for shard := range 4 {
				if v := b.get(fmt.Sprint("/open?id=", shard), ""); v.Reason != hottype.ReasonHot {
					t.Fatalf("%d after the failover: %+v", shard, v)
				}
			}
			store.set("b", false, "a", "a", "b", "b")
		}
		if s := b.Stats(); s.StoreOpened != 2 || s.StoreClosed != 2 || s.StoreErrors != 10 {
			t.Errorf("%+v", s)
		}
		store.set("a", true, "a", "b", "b", "b") // 1 has left a
		for range 6 {
			b.get("/open?id=0", "")
		}
		if v := b.get("/open?id=1", ""); v.Reason != hottype.ReasonHot {
			t.Errorf("1 is on b: %+v", v)
		}
		if v := b.get("/open?id=0", ""); v.Reason != hottype.ReasonStore {
			t.Errorf("0 is on a: %+v", v)
		}
	})
}

const windowRules = failureRules + `
ip:
  fixed: {limit: 3, window: 1h, scope: cluster, on_store_failure: %s}
`

// A request has limits on two servers, and one of them fails: the failure policy of its rule decides about its charge,
// the other charge is exact, and both are charged or none.
func TestOneFailedShardOfARequest(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"at once", "refused"} {
		store := newSharded()
		b := onShards(t, store, fmt.Sprintf(windowRules, "open"), nil)
		store.set("b", true)
		for range 5 {
			if how == "refused" { // the breaker is open then
				b.get("/open?id=2", "")
			}
		}
		left := func() int64 {
			r := make([]limit.Result, 1)
			if _, err := store.Memory.Take(t.Context(), b.now, []limit.Charge{{
				Subject: limit.Subject{Space: "hot", Name: "local?id=0"},
				Spec:    limit.Spec{Algorithm: limit.TokenBucket, Limit: 4, Window: time.Second, Burst: 8},
			}}, r); err != nil {
				t.Fatal(err)
			}
			return r[0].Remaining
		}
		for i := range 8 { // the window, on b, is open; the key, on a, has 8 and not its share of 2
			if v := b.get("/local?id=0", "1.1.1.1"); !v.Allowed || v.Reason != hottype.ReasonStore ||
				v.Rule != "ip_fixed" || v.Limit != 8 || left() != int64(7-i) {
				t.Fatalf("%s: %d: %+v, %d left", how, i, v, left())
			}
		}
		if v := b.get("/local?id=0", "1.1.1.1"); v.Allowed || v.Reason != hottype.ReasonHot || v.Limit != 8 {
			t.Errorf("%s: %+v", how, v)
		}
	}
}

// The fallback for a server that is out is charged only if the other servers allow the request.
func TestPartOfARequestIsGivenBack(t *testing.T) {
	t.Parallel()
	store := newSharded()
	b := onShards(t, store, fmt.Sprintf(windowRules, "local"), nil)
	store.set("b", true)
	for range 8 {
		b.get("/open?id=0", "") // until it is empty, on a
	}
	for range 20 {
		if v := b.get("/open?id=0", "1.1.1.1"); v.Allowed || v.Reason != hottype.ReasonHot {
			t.Fatalf("the key is empty: %+v", v)
		}
	}
	if v := b.get("/other", "1.1.1.1"); !v.Allowed { // a share of 3 is 1
		t.Errorf("the client's share was charged for nothing: %+v", v)
	}
	if v := b.get("/other", "1.1.1.1"); v.Allowed || v.Reason != hottype.ReasonIPFixed || v.Limit != 1 {
		t.Errorf("%+v", v)
	}
	// The share denies, so the key keeps its tokens.
	for range 20 {
		if v := b.get("/open?id=1", "1.1.1.1"); v.Allowed || v.Reason != hottype.ReasonIPFixed {
			t.Fatalf("%+v", v)
		}
	}
	if v := b.get("/open?id=1", ""); !v.Allowed || v.Remaining != 7 {
		t.Errorf("%+v", v)
	}
}

// The policy closed denies only requests with a charge on the failed server.
func TestPartOfARequestClosed(t *testing.T) {
	t.Parallel()
	store := newSharded()
	b := onShards(t, store, fmt.Sprintf(windowRules, "closed"), nil)
	store.set("b", true)
	for range 20 {
		if v := b.get("/open?id=0", "1.1.1.1"); v.Allowed || v.Reason != hottype.ReasonStore || v.Rule != "ip_fixed" {
			t.Fatalf("%+v", v)
		}
	}
	if v := b.get("/closed?id=0", ""); !v.Allowed || v.Remaining != 7 {
		t.Errorf("on a: %+v", v)
	}
	if v := b.get("/open?id=0", ""); !v.Allowed || v.Remaining != 7 {
		t.Errorf("charged though denied: %+v", v)
	}
}

// An error that does not name the failed server counts as a failure of all that were called.
func TestErrorWithoutShardCountsAgainstAll(t *testing.T) {
	t.Parallel()
	store := newSharded()
	store.vague = true
	b := onShards(t, store, fmt.Sprintf(windowRules, "open"), nil)
	store.set("b", true)
	for range 5 {
		b.get("/open?id=2", "")
	}
	if s := b.Stats(); s.StoreOpened != 1 || s.BreakersOpen != 1 {
		t.Errorf("one part was asked: %+v", s)
	}
	store.set("a", true)
	for range 5 {
		b.get("/open?id=0", "1.1.1.1")
	}
	if s := b.Stats(); s.BreakersOpen != 2 {
		t.Errorf("two were asked: %+v", s)
	}
}

// Servers fail and recover in all ways during concurrent requests: nothing hangs, and
// after recovery each breaker that opened has closed.
func TestShardsUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newSharded()
		b := onShards(t, store, fmt.Sprintf(windowRules, "open"), nil)
		stop := make(chan struct{})
		var callers sync.WaitGroup
		for c := range 16 {
			callers.Go(func() {
				for i := c; ; i++ {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
						b.get(fmt.Sprint("/open?id=", i%4), fmt.Sprint("192.0.2.", i%3))
					}
				}
			})
		}
		servers := []string{"a", "b", "c"}
		for i := range 60 {
			store.set(servers[i%3], i%2 == 0, servers[i%3], servers[(i/3)%3], servers[(i/5)%3], servers[(i/7)%3])
			time.Sleep(150 * time.Millisecond)
		}
		for _, s := range servers {
			store.set(s, false)
		}
		time.Sleep(time.Second)
		close(stop)
		callers.Wait()
		if s := b.Stats(); s.BreakersOpen != 0 || s.StoreOpened == 0 || s.StoreOpened != s.StoreClosed {
			t.Errorf("%+v", s)
		}
	})
}

// halfDenied denies by a hot key, and gets no response from the server of clients.
type halfDenied struct{ *sharded }

func (s halfDenied) Take(_ context.Context, _ time.Time, charges []limit.Charge, results []limit.Result) (bool, error) {
	for i := range charges {
		results[i] = limit.Result{Limit: 8, RetryAfter: time.Nanosecond}
		if !charges[i].Subject.Client.IsZero() {
			results[i] = limit.Result{Allowed: true, Limit: 1000, Remaining: -1}
		}
	}
	return false, nil
}

// A server that does not answer while another server denies is counted as failing, and the request is denied by the
// known results.
func TestDenialBesideAServerThatIsOut(t *testing.T) {
	t.Parallel()
	store := halfDenied{newSharded()}
	b := build(t, failureRules+"ip: {fixed: {limit: 1000, window: 1m, scope: cluster}}\n",
		gate.Config{Shared: store, Limiters: func() int { return 4 }})
	b.hot("open?id=0")
	for i := range 5 {
		if s := b.Stats(); s.StoreOpened != 0 {
			t.Fatalf("open after %d", i)
		}
		b.now = b.now.Add(time.Second)
		if v := b.get("/open?id=0", "192.0.2.1"); v.Allowed || v.Reason != hottype.ReasonHot || v.Remaining != 0 {
			t.Errorf("%+v", v)
		}
	}
	if s := b.Stats(); s.StoreOpened != 1 || s.BreakersOpen != 1 || s.StoreErrors != 0 {
		t.Errorf("%+v", s)
	}
}

// A request that the share of one server denies refunds the share that was taken for the other one, and
// nothing that it did not take.
func TestSharesOfTwoServersAreTakenOrRefunded(t *testing.T) {
	t.Parallel()
	store := newSharded()
	b := onShards(t, store, fmt.Sprintf(windowRules, "local"), nil)
	store.set("a", true)
	store.set("b", true)
	passed := func(client string) (n int) {
		for range 20 {
			if b.get("/local?id=0", client).Allowed {
				n++
			}
		}
		return n
	}
	for i, want := range []int{1, 1, 0, 0, 0} { // a client has 1 of 3, the key 2 of 8
		if n := passed(fmt.Sprint("1.1.1.", i)); n != want {
			t.Errorf("client %d: %d passed, want %d", i, n, want)
		}
	}
	if v := b.get("/other", "1.1.1.2"); !v.Allowed {
		t.Errorf("a client was charged for what the key denied: %+v", v)
	}
}
