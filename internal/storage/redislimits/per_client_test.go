package redislimits

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/clientlaws"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// lawGate returns a gate under the rules of a law.
func lawGate(t testing.TB, law *clientlaws.Law, options string, cfg gate.Config) *gate.Gate {
	t.Helper()
	yaml := clientlaws.Rules
	if law.Fields {
		yaml = clientlaws.RulesByField
	}
	set, err := rules.Parse("laws.yaml", []byte(yaml(options, law.Unit)))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Hot = new(hotset.Replica); !law.Cold {
		cfg.Hot.Replace("test", report.HotSet{Version: 1, At: time.Now(), Keys: []hottype.HotKey{
			{Key: clientlaws.HotKey, Rule: "topic", Until: time.Now().AddDate(2, 0, 0)}}})
	}
	cfg.Rules, cfg.Budget = set, redistest.Patience
	return gate.New(cfg)
}

// lawPlaces returns ways to open a client of a server, of the shards of a cluster on one server whose clocks differ by
// more than any window is long, and of a cluster.
func lawPlaces(t testing.TB) map[string]func(t testing.TB, law *clientlaws.Law, namespace string) (*Limiter,
	*redistest.Clock) {
	ways := map[string]func(testing.TB, *clientlaws.Law, string) (*Limiter, *redistest.Clock){}
	for name, addrs := range serverAndCluster(t) {
		ways[name] = func(t testing.TB, law *clientlaws.Law, namespace string) (*Limiter, *redistest.Clock) {
			l := openWith(t, redisclient.Config{Addrs: addrs, Namespace: namespace, Timeout: redistest.Patience})
			return l, setClock(l.rdb, law.Start)
		}
	}
	ways["shards by many clocks"] = func(t testing.TB, law *clientlaws.Law, namespace string) (*Limiter,
		*redistest.Clock) {
		l, clock := ways["server"](t, law, namespace)
		intoShards(t, l, namespace)
		ahead := map[string]time.Duration{}
		for i, s := range l.shards {
			ahead[s.keys.prefix] = time.Duration(i*i-40) * law.Unit
		}
		clock.Ahead = func(key string) time.Duration { return ahead[key[:strings.Index(key, "}")+2]] }
		law.Ahead = func(s *limit.Subject) time.Duration { return ahead[l.shards[l.Shard(s)].keys.prefix] }
		return l, clock
	}
	return ways
}

// intoShards makes a limiter keep its limits on one server in the shards of a cluster.
func intoShards(t testing.TB, l *Limiter, namespace string) {
	l.shards = nil
	for i := range shardCount {
		s := newShardLimiter(l, shardKeys(namespace, i))
		t.Cleanup(s.batcher.close)
		l.shards = append(l.shards, s)
	}
}

// The windows of a client, of all requests, for a rule, for a class and for preflights, are in one shard, which one
// call decides and whose sums are exchanged together. The clients that client_key names are spread over all shards.
func TestShard_IsOneForAllWindowsOfAClient(t *testing.T) {
	t.Parallel()
	l := open(t, redistest.Start(t).Addr())
	intoShards(t, l, "test")
	used := map[int]bool{}
	for i := range 200 {
		client := hottype.Client{Name: fmt.Sprint("X-Account=", i)}
		shard := l.Shard(&limit.Subject{Space: "ip_fixed", Client: client})
		used[shard] = true
		for _, of := range []limit.Subject{{Space: "ip_sliding"}, {Space: "ip_fixed:robot"},
			{Space: "ip_fixed::preflight"}, {Space: "client_fixed", Name: "login"}, {Space: "client_sliding", Name: "login:member"}} {
			if of.Client = client; l.Shard(&of) != shard {
				t.Errorf("%+v is in another shard than the other windows of its client", of)
			}
		}
	}
	if len(used) != shardCount {
		t.Errorf("200 clients are in %d shards", len(used))
	}
}

// Windows of clients by rule are exact and charged all or nothing in Redis too, by address and by client_key, by the
// same oracle as in memory: on one server, in shards and on a cluster.
func TestPerClient_IsExactInRedis(t *testing.T) {
	t.Parallel()
	for name, open := range lawPlaces(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(4) {
				law := clientlaws.Law{Seed: seed, Requests: 200, Unit: time.Hour, Fields: seed%2 > 0,
					Start: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
				l, clock := open(t, &law, fmt.Sprint("exact", seed))
				g := lawGate(t, &law, "", gate.Config{Shared: l})
				law.Run(t, func(_ int, now time.Time, req *hottype.Request) hottype.Verdict {
					clock.Set(now)
					return g.Decide(context.Background(), now, req)
				})
				if st := g.Stats(); st.StoreErrors > 0 || st.Panics > 0 {
					t.Fatalf("%+v", st)
				}
			}
		})
	}
}

// Processes that share windows by sums decide each by its own requests and by those of the others up to its last
// request in the same window, by address and by client_key, and charge all windows of a request or none, with the
// bucket of a hot key that Redis keeps. The clocks of shards may differ: each window goes by the clock of its own.
func TestPerClient_IsExactBySums(t *testing.T) {
	t.Parallel()
	for name, open := range lawPlaces(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(2) {
				law := clientlaws.Law{Seed: seed, Requests: 150, Unit: freshFor / 4, Fields: true,
					Processes: 1 + int(seed%2), Cold: seed%2 > 0, Start: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
				var all []*Windows
				var gates []*gate.Gate
				var clocks []*redistest.Clock
				now := law.Start
				for range law.Processes {
					l, clock := open(t, &law, fmt.Sprint("sums", seed))
					l.now = func() time.Time { return now }
					w := patient(l)
					w.exchange(t.Context()) // it learns the clocks
					all, clocks = append(all, w), append(clocks, clock)
					gates = append(gates, lawGate(t, &law, "consistency: async", gate.Config{Async: w, Shared: l}))
				}
				law.Run(t, func(process int, at time.Time, req *hottype.Request) hottype.Verdict {
					now = at
					for _, clock := range clocks {
						clock.Set(now)
					}
					v := gates[process].Decide(context.Background(), now, req)
					for _, w := range all {
						w.exchange(t.Context())
					}
					return v
				})
				for i, w := range all {
					if st := gates[i].Stats(); st.StoreErrors > 0 || st.Panics > 0 {
						t.Errorf("%+v", st)
					}
					if st := w.Stats(); st.Errors > 0 || st.Untracked > 0 || st.Rejected > 0 {
						t.Errorf("%+v", st)
					}
				}
			}
		})
	}
}

// Two processes that share windows by sums allow together what one process allows alone, from the first exchange after
// a request on: for each rule by itself, and for a client with more rules than a part of the records has room for.
func TestPerClient_IsSharedBySums(t *testing.T) {
	t.Parallel()
	for name, addrs := range serverAndCluster(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ws := processes(t, 2, addrs...)
			const most, rulesOfClient = 5, 6000
			at := now()
			if soon := at.Add(10 * time.Minute).Truncate(24 * time.Hour); soon.After(at) {
				at = soon // no window ends within the test
			}
			take := func(w *Windows, rule int, cost int64) bool {
				charges := []limit.Charge{windowCharge(visitor(1), limit.FixedWindow, 1e6, 24*time.Hour, cost),
					windowCharge(visitor(1), limit.FixedWindow, most, 24*time.Hour, cost)}
				charges[1].Subject.Name = fmt.Sprint("rule", rule)
				ok, err := w.Take(t.Context(), at, charges, make([]limit.Result, 2))
				if err != nil {
					t.Fatal(err)
				}
				return ok
			}
			for rule := range rulesOfClient {
				for i, w := range ws {
					if !take(w, rule, int64(2+i*rule%2)) { // 2 or 3
						t.Fatalf("rule %d, process %d: the first request is denied", rule, i)
					}
				}
			}
			for range 2 { // each writes, then each reads
				for _, w := range ws {
					w.exchange(t.Context())
				}
			}
			for rule := range rulesOfClient {
				left := most - 4 - rule%2
				if got := take(ws[rule%2], rule, 1); got != (left > 0) {
					t.Fatalf("rule %d: allowed %v with %d left", rule, got, left)
				}
			}
			for _, w := range ws {
				if st := w.Stats(); st.Untracked > 0 || st.Rejected > 0 || st.Subjects != rulesOfClient+1 {
					t.Errorf("%+v", st)
				}
			}
		})
	}
}

// 10,000 accounts that visitors invent behind a trusted proxy, and the same account for 10,000 rules, take bounded
// memory, and each request without a place in it is counted.
func TestPerClient_CountsAccountsWithoutRoom(t *testing.T) {
	t.Parallel()
	const many, room = 10_000, 10 * windowStripes
	for name, of := range map[string]func(i int) limit.Subject{
		"accounts": func(i int) limit.Subject {
			return limit.Subject{Client: hottype.Client{Name: fmt.Sprint("X-Account=", i)}, Name: "login"}
		},
		"rules of one account": func(i int) limit.Subject {
			return limit.Subject{Client: hottype.Client{Name: "X-Account=anna"}, Name: fmt.Sprint("rule", i)}
		},
	} {
		w := open(t, redistest.Start(t).Addr()).Windows()
		w.local, w.perStripe = limit.NewMemory(limit.MemoryConfig{MaxSubjects: room}), room/windowStripes
		charge := windowCharge(hottype.Client{}, limit.FixedWindow, 1, 24*time.Hour, 1)
		space, allowed := charge.Subject.Space, 0
		for i := range 2 * many {
			charge.Subject = of(i % many)
			charge.Subject.Space = space
			if w.ask(t, time.Unix(1_700_000_000, 0), charge).Allowed {
				allowed++
			}
		}
		st := w.Stats()
		if n := w.local.Stats().Subjects; n > room || st.Subjects != room {
			t.Errorf("%s: %d in memory, %d with sums", name, n, st.Subjects)
		}
		if first := uint64(many - room); st.Untracked < first || st.Untracked > first+uint64(allowed-many) {
			t.Errorf("%s: %d requests without a place are counted, and %d passed", name, st.Untracked, allowed)
		}
	}
}

// A request whose windows are in shards with different clocks is charged to all of them or to none, also before the
// next exchange, and refunded in each window by the clock of its own.
func TestPerClient_IsRefundedByEachClock(t *testing.T) {
	t.Parallel()
	l := open(t, redistest.Start(t).Addr())
	intoShards(t, l, "test")
	w, at := l.Windows(), time.Unix(1_700_000_000, 0)
	for i := range w.shards {
		w.shards[i].clock.Store(&clock{at, at.Add(time.Duration(i) * time.Hour).UnixMicro()})
	}
	var charges []limit.Charge
	for i := range 20 {
		client := hottype.Client{Name: fmt.Sprint("X-Account=", i)}
		charges = append(charges, windowCharge(client, limit.FixedWindow, 5, time.Minute, 3))
	}
	charges[len(charges)-1].Cost = 6
	if ok, err := w.Take(t.Context(), at, charges, make([]limit.Result, len(charges))); err != nil || ok {
		t.Fatalf("more than one window allows: %v, %v", ok, err)
	}
	charges[len(charges)-1].Cost = 3
	for round := range 3 {
		if ok, err := w.Take(t.Context(), at, charges, make([]limit.Result, len(charges))); err != nil || !ok {
			t.Fatalf("round %d: %v, %v", round, ok, err)
		}
		w.RefundAt(at, charges)
	}
	for _, c := range charges {
		if c.Cost = 0; w.ask(t, at, c).Remaining != 5 {
			t.Errorf("%s is charged or not refunded", c.Subject.Client)
		}
	}
}
