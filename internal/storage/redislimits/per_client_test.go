package redislimits

import (
	"context"
	"fmt"
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

// lawGate returns a gate under the rules of clientlaws.
func lawGate(t testing.TB, options string, unit time.Duration, cfg gate.Config) *gate.Gate {
	t.Helper()
	set, err := rules.Parse("laws.yaml", []byte(clientlaws.Rules(options, unit)))
	if err != nil {
		t.Fatal(err)
	}
	hot := new(hotset.Replica)
	hot.Replace("test", report.HotSet{Version: 1, At: time.Now(), Keys: []hottype.HotKey{
		{Key: clientlaws.HotKey, Rule: "topic", Until: time.Now().AddDate(2, 0, 0)}}})
	cfg.Rules, cfg.Hot, cfg.Budget = set, hot, redistest.Patience
	return gate.New(cfg)
}

// Windows of clients by rule are exact and charged all or nothing in Redis too, by the same oracle as in memory: on one
// server and on a cluster.
func TestPerClient_IsExactInRedis(t *testing.T) {
	t.Parallel()
	for name, addrs := range serverAndCluster(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(4) {
				start := time.Now().UTC().Truncate(time.Hour)
				l := openWith(t, redisclient.Config{Addrs: addrs, Namespace: "exact" + string(rune('a'+seed)),
					Timeout: redistest.Patience})
				clock := setClock(l.rdb, start)
				g := lawGate(t, "", time.Hour, gate.Config{Shared: l})
				law := clientlaws.Law{Seed: seed, Requests: 150, Unit: time.Hour, Start: start}
				law.Run(t, func(now time.Time, req *hottype.Request) hottype.Verdict {
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

// Two processes that share windows by sums allow together what one process allows alone, from the first exchange after
// a request on: for each rule by itself, and for a client with more rules than a part of the records has room for.
func TestPerClient_IsSharedBySums(t *testing.T) {
	t.Parallel()
	for name, addrs := range serverAndCluster(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ws := processes(t, 2, addrs...)
			const most, rulesOfClient = 5, 6000
			at := now().Truncate(24 * time.Hour).Add(12 * time.Hour) // no window ends within the test
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
