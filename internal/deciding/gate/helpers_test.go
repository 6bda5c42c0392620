package gate_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// start returns the time at which tests begin: a whole minute, so that windows begin with it.
func start() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

func parse(t rapid.TB, yaml string) *rules.Set {
	t.Helper()
	set, err := rules.Parse("test.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// bundle is a gate whose inputs a test controls.
type bundle struct {
	*gate.Gate
	mirror        *hotset.Replica
	local, shared *limit.Memory
	version       uint64
	now           time.Time
	panics        uint64 // that the test expects
}

// build makes a gate over rules; cfg may bring its own shared store.
func build(t testing.TB, yaml string, cfg gate.Config) *bundle {
	t.Helper()
	b := assemble(parse(t, yaml), cfg)
	t.Cleanup(func() {
		if n := b.Stats().Panics; n != b.panics {
			t.Errorf("%d decisions panicked, want %d", n, b.panics)
		}
	})
	return b
}

func assemble(set *rules.Set, cfg gate.Config) *bundle {
	b := &bundle{
		mirror: new(hotset.Replica), now: start(),
		local: limit.NewMemory(limit.MemoryConfig{}), shared: limit.NewMemory(limit.MemoryConfig{}),
	}
	cfg.Rules, cfg.Hot, cfg.Local = set, b.mirror, b.local
	if cfg.Shared == nil {
		cfg.Shared, cfg.Budget = inMemory{Memory: b.shared}, time.Hour // a busy machine must not make it fail
	}
	b.Gate = gate.New(cfg)
	return b
}

// hot makes exactly these keys hot for an hour.
func (b *bundle) hot(keys ...hottype.Key) {
	b.version++
	set := report.HotSet{Version: b.version, At: b.now}
	for _, k := range keys {
		set.Keys = append(set.Keys, hottype.HotKey{Key: k, Rule: k.Resource(), Rate: 100, Since: b.now,
			Until: b.now.Add(time.Hour)})
	}
	b.mirror.Replace("test", set)
}

// get asks for a target as a client.
func (b *bundle) get(target, client string) hottype.Verdict {
	return b.Decide(context.Background(), b.now, request(target, client))
}

func request(target, client string) *hottype.Request {
	return &hottype.Request{Method: "GET", Host: "news.example", Target: target, Client: hottype.ParseClient(client),
		Header: http.Header{}}
}

// unreliable is a shared store that fails on demand.
type unreliable struct {
	*limit.Memory
	oneServer
	mode  atomic.Int32
	calls atomic.Int32
}

const (
	healthy int32 = iota
	failing       // answers with an error
	stuck         // waits for the context
	panicking
)

var errDown = errors.New("down")

func newUnreliable(mode int32) *unreliable {
	u := &unreliable{Memory: limit.NewMemory(limit.MemoryConfig{})}
	u.mode.Store(mode)
	return u
}

func (u *unreliable) Take(ctx context.Context, now time.Time, c []limit.Charge, r []limit.Result) (bool, error) {
	u.calls.Add(1)
	switch u.mode.Load() {
	case failing:
		return false, errDown
	case stuck:
		<-ctx.Done()
		return false, ctx.Err()
	case panicking:
		panic("store")
	}
	return u.Memory.Take(ctx, now, c, r)
}

// oneServer is the only shard of a gate.SharedStore on one server.
type oneServer struct{}

func (oneServer) Shards() int              { return 1 }
func (oneServer) Shard(*limit.Subject) int { return 0 }
func (oneServer) Server(int) string        { return "" }

// inMemory is a shared store in memory.
type inMemory struct {
	*limit.Memory
	oneServer
}
