package redislimits

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

var _ gate.SharedStore = (*Limiter)(nil)

// topics is large enough that every shard has a topic.
const topics = 96

// onCluster is a gate before a cluster, whose hot topics each have a limit of a million requests. Without Redis the
// gate allows a quarter of that.
type onCluster struct {
	*gate.Gate
	store gate.SharedStore
	log   *redistest.Log
}

// itself returns the store with a breaker for each node; whole returns it with one breaker for all nodes.
func itself(s gate.SharedStore) gate.SharedStore { return s }
func whole(s gate.SharedStore) gate.SharedStore  { return inOne{s} }

type inOne struct{ gate.SharedStore }

func (inOne) Shards() int { return 1 }

func newOnCluster(t testing.TB, cluster *redistest.Cluster, lasting time.Duration,
	as func(gate.SharedStore) gate.SharedStore) *onCluster {
	t.Helper()
	c, err := redisclient.Open(redisclient.Config{Addrs: cluster.Addrs()})
	redistest.MustOpen(t, c, err)
	set, err := rules.Parse("test.yaml", []byte(`
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 10}, limit: {rate: 1000000, burst: 1000000, on_store_failure: local}}
ip:
  fixed: {limit: 1000000, window: 1s, scope: cluster, on_store_failure: open}
`))
	if err != nil {
		t.Fatal(err)
	}
	g, mirror, now := &onCluster{log: new(redistest.Log), store: New(c)}, new(hotset.Replica), time.Now()
	hot := report.HotSet{Version: 1, At: now}
	for i := range topics {
		hot.Keys = append(hot.Keys, hottype.HotKey{Key: hottype.Key(fmt.Sprint("topic?id=", i)), Rule: "topic", Rate: 100,
			Since: now, Until: now.Add(time.Hour)})
	}
	mirror.Replace("test", hot)
	g.Gate = gate.New(gate.Config{
		Rules: set, Hot: mirror, Shared: as(g.store), Budget: lasting, Limiters: func() int { return 4 },
		Log: g.log.Logger(),
	})
	return g
}

// ask makes one decision on a topic, without or with the window of a client.
func (g *onCluster) ask(topic int, client string) hottype.Verdict {
	return g.Decide(context.Background(), time.Now(), &hottype.Request{
		Method: http.MethodGet, Host: "news.example", Target: fmt.Sprint("/topic?id=", topic), Header: http.Header{},
		Client: hottype.ParseClient(client),
	})
}

// bySelf returns the topics that Redis does not decide on.
func (g *onCluster) bySelf() (list []int) {
	for i := range topics {
		if v := g.ask(i, ""); v.Limit != 1_000_000 {
			list = append(list, i)
		}
	}
	return list
}

// byRedis waits until Redis decides on all topics.
func (g *onCluster) byRedis(t testing.TB, what string) time.Duration {
	t.Helper()
	began, tick, end := time.Now(), time.NewTicker(5*time.Millisecond), time.After(30*time.Second)
	defer tick.Stop()
	for len(g.bySelf()) > 0 {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%s: not healed: %v\n%s", what, g.bySelf(), g.log)
		}
	}
	return time.Since(began)
}

// out asks until the breaker of one node has opened. Most of its requests have limits on two nodes, and failures do not
// count against the node that answers.
func (g *onCluster) out(t testing.TB) time.Duration {
	t.Helper()
	began := time.Now()
	for g.Stats().StoreOpened == 0 {
		for i := range topics {
			g.ask(i, fmt.Sprint("192.0.2.", i))
		}
		if time.Since(began) > 30*time.Second {
			t.Fatalf("no breaker opened: %+v\n%s", g.Stats(), g.log)
		}
	}
	return time.Since(began)
}

// One of three masters freezes. The limits on the others stay exact, and are not slower. The limits on the frozen
// master follow the policies of their rules, also together in a request, and this is logged once. When the master is
// back it decides again.
func TestFrozenMasterAffectsOnlyItsShards(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	g := newOnCluster(t, cluster, budget, itself)
	g.byRedis(t, "at first")
	cluster.Nodes[1].Freeze()
	opened := g.out(t)
	gone := g.bySelf()
	if len(gone) < topics/10 || len(gone) > topics*2/3 {
		t.Fatalf("%d of %d topics are not decided by Redis: %v\n%s", len(gone), topics, gone, g.log)
	}
	before, unlucky, strays := g.Stats(), 0, 0
	var healthy, mixed, waits []time.Duration
	for until := time.Now().Add(2 * time.Second); time.Now().Before(until); {
		for i := range topics {
			client := ""
			if i%3 == 0 {
				client = fmt.Sprint("192.0.2.", i)
			}
			began := time.Now()
			v, isGone := g.ask(i, client), slices.Contains(gone, i)
			took := time.Since(began)
			switch {
			case isGone:
				waits = append(waits, took)
			case client == "":
				healthy = append(healthy, took)
			default:
				mixed = append(mixed, took)
				if v.Limit != 1_000_000 { // this request tried the node of its client again
					unlucky++
				}
			}
			if client == "" && isGone != (v.Limit == 250_000) {
				strays++ // a busy machine may take longer than the budget
			}
			if !v.Allowed || took > budget+slack {
				t.Fatalf("topic %d (gone: %v) for %q after %v: %+v", i, isGone, client, took, v)
			}
		}
	}
	t.Logf("out after %v; %s", opened,
		quantiles(map[string][]time.Duration{"healthy": healthy, "with a window": mixed, "gone": waits}))
	if s := g.Stats(); strays > len(healthy)/100 || s.StoreOpened != 1 || s.BreakersOpen != 1 || s.Breakers != 3 ||
		unlucky > 10 || s.StoreErrors-before.StoreErrors > 40 {
		t.Errorf("%d strays, %d unlucky, %+v, before %+v", strays, unlucky, s, before)
	}
	cluster.Nodes[1].Thaw()
	t.Logf("back after %v", g.byRedis(t, "after it"))
	if s := g.Stats(); s.StoreOpened != 1 || s.StoreClosed != 1 || s.StoreOpen {
		t.Errorf("%+v", s)
	}
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(g.log.String()), "\n"), func(line string) bool {
		return strings.Contains(line, "fails persistently") // a busy machine takes more than the 5 s that this needs
	})
	of := func(line string) bool { return strings.Contains(line, "server="+cluster.Nodes[1].Addr()) }
	if len(lines) != 2 || !of(lines[0]) || !of(lines[1]) {
		t.Errorf("want one line each way:\n%s", g.log)
	}
}

// On six nodes a master freezes permanently: its replica takes over without any intervention.
func TestFrozenMasterIsReplaced(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartClusterOfSix(t)
	for _, n := range cluster.Nodes { // else all are down until the replica has taken over
		if err := n.Client().ConfigSet(context.Background(), "cluster-require-full-coverage", "no").Err(); err != nil {
			t.Fatal(err)
		}
	}
	g := newOnCluster(t, cluster, budget, itself)
	g.byRedis(t, "at first")
	cluster.Nodes[0].Freeze()
	began := time.Now()
	var mu sync.Mutex
	took := map[string][]time.Duration{}
	var callers sync.WaitGroup
	stop := make(chan struct{})
	for c := range 4 {
		callers.Go(func() {
			tick := time.NewTicker(2 * time.Millisecond)
			defer tick.Stop()
			for i := c; ; i++ {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				at := time.Now()
				v := g.ask(i%topics, "")
				what := "by Redis"
				if v.Limit != 1_000_000 {
					what = "by share"
				}
				mu.Lock()
				took[what] = append(took[what], time.Since(at))
				mu.Unlock()
			}
		})
	}
	g.out(t)
	g.byRedis(t, "after the failover")
	healed := time.Since(began)
	close(stop)
	callers.Wait()
	t.Logf("healed %v after the freeze; %s\n%s%+v", healed, quantiles(took), g.log, g.Stats())
	if s := g.Stats(); s.StoreOpen || s.StoreOpened != s.StoreClosed {
		t.Errorf("%+v\n%s", s, g.log)
	}
}

// on returns the topics that are on a node.
func (g *onCluster) on(addr string) map[int]bool {
	of, list := g.store, map[int]bool{}
	for i := range topics {
		list[i] = of.Server(of.Shard(&limit.Subject{Space: "hot", Name: fmt.Sprint("topic?id=", i)})) == addr
	}
	return list
}

// BenchmarkFrozenMaster measures the effect on 2,000 decisions a second while one of three masters is frozen and its
// replica takes over after a few seconds, with a breaker for each node and with one for all: -benchtime 20000x is ten
// seconds.
func BenchmarkFrozenMaster(b *testing.B) {
	for name, as := range map[string]func(gate.SharedStore) gate.SharedStore{"each": itself, "one": whole} {
		b.Run(name, func(b *testing.B) {
			cluster := redistest.StartClusterOfSix(b)
			for _, n := range cluster.Nodes {
				if err := n.Client().ConfigSet(b.Context(), "cluster-require-full-coverage", "no").Err(); err != nil {
					b.Fatal(err)
				}
				if err := n.Client().ConfigSet(b.Context(), "cluster-node-timeout", "4000").Err(); err != nil {
					b.Fatal(err)
				}
			}
			g := newOnCluster(b, cluster, gate.DefaultBudget, as)
			g.byRedis(b, "at first")
			gone := g.on(cluster.Nodes[0].Addr())
			cluster.Nodes[0].Freeze()
			b.ResetTimer()
			var asked atomic.Int64
			var mu sync.Mutex
			took, byShare := map[bool][]time.Duration{}, map[bool]int{}
			var callers sync.WaitGroup
			for range 8 {
				callers.Go(func() {
					tick := time.NewTicker(4 * time.Millisecond)
					defer tick.Stop()
					for i := asked.Add(1); i <= int64(b.N); i = asked.Add(1) {
						<-tick.C
						at, topic := time.Now(), int(i)%topics
						v := g.ask(topic, "")
						mu.Lock()
						took[gone[topic]] = append(took[gone[topic]], time.Since(at))
						if v.Limit != 1_000_000 {
							byShare[gone[topic]]++
						}
						mu.Unlock()
					}
				})
			}
			callers.Wait()
			for what, isGone := range map[string]bool{"other": false, "frozen": true} {
				if d := took[isGone]; len(d) > 0 {
					slices.Sort(d)
					b.ReportMetric(float64(d[len(d)/2].Microseconds()), what+"-p50-us")
					b.ReportMetric(float64(d[len(d)*99/100].Microseconds()), what+"-p99-us")
					b.ReportMetric(100*float64(byShare[isGone])/float64(len(d)), what+"-by-share-%")
				}
			}
			st := g.Stats()
			b.ReportMetric(float64(st.StoreErrors), "errors")
			b.ReportMetric(float64(st.StoreOpened), "opened")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// quantiles formats the quantiles of durations.
func quantiles(of map[string][]time.Duration) string {
	var b strings.Builder
	for _, what := range []string{"healthy", "with a window", "gone", "by Redis", "by share"} {
		if d := of[what]; len(d) > 0 {
			slices.Sort(d)
			fmt.Fprintf(&b, "%s: %d, p50 %v p99 %v p99.9 %v max %v; ", what, len(d), d[len(d)/2], d[len(d)*99/100],
				d[len(d)*999/1000], d[len(d)-1])
		}
	}
	return b.String()
}
