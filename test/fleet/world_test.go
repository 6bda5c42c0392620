package fleet

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/wait"
)

// World is one run: the nodes, the plan that acts on them, and the observations.
type World struct {
	plan  *plan
	start time.Time
	net   *Network
	redis *Redis
	kafka *Kafka // or nil if counts go by StatsD
	hook  *Webhook

	mu          sync.Mutex // guards the rest; never held while anything waits
	limiters    []*Limiter // by their place; nil while there is none
	aggregators []*Aggregator
	collector   *Collector
	addrs       int
	over        []*process // stopped or killed processes
	probes      []probe    // since the laws looked at them
	clocks      map[string]*clock
	blocks      []*block
	pushed      time.Duration // when the second rules were acknowledged, or 0 before
	seen        *seen
	endTraffic  func()
	driving     sync.WaitGroup
	acting      sync.WaitGroup
}

// block is an override that an operator puts.
type block struct {
	id          string
	put, lifted time.Duration // when it was acknowledged, or 0 before
	lifting     bool
}

// at returns the virtual time since the start.
func (w *World) at() time.Duration { return time.Since(w.start) }

// newWorld starts all nodes.
func newWorld(p *plan, seed uint64, trace io.Writer) *World {
	w := &World{plan: p, start: time.Now(), net: newNetwork(seed), clocks: map[string]*clock{}}
	w.seen = newSeen(w, trace)
	if trace != nil {
		w.net.trace = w.seen.note
	}
	w.redis = newRedis(w.net)
	if p.sentinels != nil {
		w.redis.watch()
	}
	for _, f := range p.sentinels {
		if f.at == 0 {
			w.disturb(f)
		} else {
			w.after(f.at, func() { w.disturb(f) })
		}
	}
	w.hook = newWebhook(w)
	if p.kafka {
		w.kafka = newKafka(w.net, p.static)
	}
	w.limiters, w.aggregators = make([]*Limiter, p.limiters), make([]*Aggregator, 2)
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.aggregators {
		w.startAggregator(i)
	}
	if p.collector {
		process := w.process("collector", "collector")
		for i := range w.aggregators {
			w.net.SetBoth(process.name, aggregatorNode(i), p.datagrams)
		}
		w.collector = startCollector(process, w.addr(), "collector", w.servers())
	}
	for i := range w.limiters {
		w.startLimiter(i)
	}
	return w
}

func aggregatorNode(i int) string { return fmt.Sprintf("aggregator%d", i+1) }

func (w *World) servers() []string {
	return []string{aggregatorNode(0) + ":8125", aggregatorNode(1) + ":8125"}
}

func (w *World) addr() netip.Addr {
	w.addrs++
	return addrOf(w.addrs)
}

// process names a new run of a node. The clock belongs to the machine and outlives the run.
func (w *World) process(node, name string) process {
	if w.clocks[node] == nil {
		w.clocks[node] = new(clock)
	}
	p := process{name: name, began: w.at(), clock: w.clocks[node], net: w.net, quiet: new(atomic.Bool),
		rules: new(atomic.Int64), held: new(freezer), stood: new(wait.Standstill)}
	p.log = slog.New(logs{w.seen, name, p.quiet})
	for _, server := range servers {
		w.net.SetBoth(name, server, w.plan.link)
	}
	return p
}

func (w *World) startLimiter(i int) {
	node := fmt.Sprintf("limiter%d", i+1)
	p := w.process(node, fmt.Sprintf("%s.%d", node, w.addrs))
	servers := w.servers()
	for i := range w.aggregators {
		w.net.SetBoth(p.name, aggregatorNode(i), w.plan.datagrams)
		w.net.Set(p.name, aggregatorNode(i), w.countsTo(aggregatorNode(i)))
	}
	if w.plan.collector {
		w.net.SetBoth(p.name, "collector", w.plan.datagrams)
		servers = []string{"collector:8125"}
	}
	w.limiters[i] = startLimiter(p, w.redis, mustRules(w.plan, limitRate), w.addr(), servers, w.kafka)
}

func (w *World) startAggregator(i int) {
	w.addrs++
	node := aggregatorNode(i)
	w.aggregators[i] = startAggregator(w.process(node, fmt.Sprintf("%s.%d", node, w.addrs)), w.redis,
		w.hook, mustRules(w.plan, limitRate), node, w.kafka)
}

// run executes the plan until its end. It calls judge every second, while all nodes wait.
func (w *World) run(seed uint64, judge func()) {
	w.drivePlan(seed, 10*float64(w.plan.limiters))
	for _, f := range w.plan.faults {
		w.after(f.at, func() { w.cause(f) })
	}
	for i, at := range w.plan.overrides {
		b := &block{id: fmt.Sprint(90 + i)}
		w.blocks = append(w.blocks, b)
		w.after(at, func() { w.put(b) })
	}
	w.after(w.plan.lift, func() { w.lift(w.blocks[0]) })
	w.after(w.plan.push, w.push)
	for w.at() < runFor {
		time.Sleep(time.Second)
		synctest.Wait()
		judge()
		w.probeReadiness()
	}
	w.endTraffic()
	w.acting.Wait()
}

// drivePlan sends the traffic of the plan, and cold requests a second for keys that get no other requests.
func (w *World) drivePlan(seed uint64, cold float64) {
	ctx, stop := context.WithCancel(context.Background())
	w.endTraffic = func() {
		stop()
		w.driving.Wait()
	}
	all := append([]traffic{{only: -1, rate: func(time.Duration) float64 { return cold }}}, w.plan.traffic...)
	for i, t := range all {
		w.driving.Go(func() { w.drive(ctx, t, rand.New(rand.NewPCG(seed, uint64(99+i)))) })
	}
}

func (w *World) after(d time.Duration, f func()) {
	w.acting.Add(1)
	time.AfterFunc(d-w.at(), func() {
		defer w.acting.Done()
		f()
	})
}

// stop ends all processes as SIGTERM does.
func (w *World) stop() {
	w.mu.Lock()
	all := w.over
	for _, l := range w.limiters {
		all = append(all, &l.process)
	}
	for _, a := range w.aggregators {
		all = append(all, &a.process)
	}
	if w.collector != nil {
		all = append(all, &w.collector.process)
	}
	w.mu.Unlock()
	for _, p := range all {
		p.stop()
		<-p.ended
	}
	w.hook.close()
	w.over = all
}

// drive sends the requests of t, in the order and at the times that random yields.
func (w *World) drive(ctx context.Context, t traffic, random *rand.Rand) {
	var asking sync.WaitGroup
	defer asking.Wait()
	for ctx.Err() == nil {
		rate := t.rate(w.at())
		if rate <= 0 {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		time.Sleep(time.Duration(random.ExpFloat64() / rate * float64(time.Second)))
		to, client, id := t.only, 100+uint32(random.IntN(w.plan.clients)), t.id
		if to < 0 {
			to = random.IntN(w.plan.limiters)
		}
		if t.one {
			client = 77
		}
		if id == "" {
			id = fmt.Sprint(1000 + random.IntN(5000))
		}
		w.mu.Lock()
		l := w.limiters[to]
		w.mu.Unlock()
		if l != nil && ctx.Err() == nil {
			asking.Go(func() { w.ask(l, id, client) })
		}
	}
}

// ask sends one request. It waits in the socket of a limiter that is stopped, and is decided and counted when it is
// read.
func (w *World) ask(l *Limiter, id string, client uint32) {
	if l.held.awaitThaw(); l.quiet.Load() {
		return
	}
	began := time.Now()
	v := l.Gate.Decide(context.Background(), l.clock.now(), request(id, client))
	w.seen.verdict(l, id, client, v, began)
}

func request(id string, client uint32) *hottype.Request {
	var addr [4]byte
	binary.BigEndian.PutUint32(addr[:], 20<<24|client)
	return &hottype.Request{Method: "GET", Target: "/topic?id=" + id, Client: hottype.ClientFromAddr(netip.AddrFrom4(addr))}
}

func keyOf(id string) hottype.Key { return hottype.Key("topic?id=" + id) }
