package fleet

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

// World is one run: the nodes, what is done to them, and what is seen of them.
type World struct {
	plan  *plan
	start time.Time
	net   *Network
	redis *Redis

	mu          sync.Mutex // guards the rest; never held while anything waits
	limiters    []*Limiter // by their place; nil while there is none
	aggregators []*Aggregator
	collector   *Collector
	addrs       int
	over        []*process // those that were stopped or killed
	clocks      map[string]*clock
	blocks      []*block
	pushed      time.Duration // when the second rules were acknowledged; 0: not yet
	seen        *seen
	endTraffic  func()
	driving     sync.WaitGroup
	acting      sync.WaitGroup
}

// block is an override that a person puts.
type block struct {
	id          string
	put, lifted time.Duration // acknowledged; 0: not
	lifting     bool
}

// at is virtual time since the start.
func (w *World) at() time.Duration { return time.Since(w.start) }

// newWorld starts all nodes.
func newWorld(p *plan, seed uint64, trace io.Writer) *World {
	w := &World{plan: p, start: time.Now(), net: newNetwork(seed), clocks: map[string]*clock{}}
	w.seen = newSeen(w, trace)
	if trace != nil {
		w.net.trace = w.seen.note
	}
	w.redis = newRedis(w.net)
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

// process names a new run of a node. The clock is that of the machine, which stays.
func (w *World) process(node, name string) process {
	if w.clocks[node] == nil {
		w.clocks[node] = new(clock)
	}
	p := process{name: name, began: w.at(), clock: w.clocks[node], net: w.net, quiet: new(atomic.Bool), rules: new(atomic.Int64)}
	p.log = slog.New(logs{w.seen, name, p.quiet})
	w.net.SetBoth(name, redisNode, w.plan.link)
	return p
}

func (w *World) startLimiter(i int) {
	node := fmt.Sprintf("limiter%d", i+1)
	p := w.process(node, fmt.Sprintf("%s.%d", node, w.addrs))
	servers := w.servers()
	for i := range w.aggregators {
		w.net.SetBoth(p.name, aggregatorNode(i), w.plan.datagrams)
	}
	if w.plan.collector {
		w.net.SetBoth(p.name, "collector", w.plan.datagrams)
		servers = []string{"collector:8125"}
	}
	w.limiters[i] = startLimiter(p, w.redis, mustRules(w.plan, limitRate), w.addr(), servers)
}

func (w *World) startAggregator(i int) {
	w.addrs++
	node := aggregatorNode(i)
	w.aggregators[i] = startAggregator(w.process(node, fmt.Sprintf("%s.%d", node, w.addrs)), w.redis,
		mustRules(w.plan, limitRate), node)
}

// run lets the plan happen until its end. Judge is called every second, while all nodes wait.
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
	}
	w.endTraffic()
	w.acting.Wait()
}

// drivePlan sends the traffic of the plan, and so many requests a second for keys that nobody else wants.
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
	w.over = all
}

// drive sends the requests of some traffic, in the order and at the times of random.
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

// ask is one request.
func (w *World) ask(l *Limiter, id string, client uint32) {
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

// put has a person block a value, through the aggregator that is there, until it is acknowledged.
func (w *World) put(b *block) {
	o := rules.Override{ID: "block-" + b.id, Key: string(keyOf(b.id)), Action: rules.ActionBlock, Author: "ann"}
	w.insist(func(ctx context.Context, a *Aggregator) error {
		_, err := a.Feed.Overrides().Put(ctx, o)
		return err
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	b.put = w.at()
	w.seen.note("block %s acknowledged", b.id)
}

func (w *World) lift(b *block) {
	w.mu.Lock()
	b.lifting = true
	w.mu.Unlock()
	w.insist(func(ctx context.Context, a *Aggregator) error {
		err := a.Feed.Overrides().Delete(ctx, "block-"+b.id, "ann")
		if err != nil && strings.Contains(err.Error(), "not found") {
			return nil // an earlier try got through without an answer
		}
		return err
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	b.lifted = w.at()
	w.seen.note("block %s lifted", b.id)
}

// push has a person push the second version of the rules.
func (w *World) push() {
	w.insist(func(ctx context.Context, a *Aggregator) error {
		now, err := a.Feed.Rules().Read(ctx)
		if err != nil {
			return err
		}
		version := int64(0)
		if now != nil {
			version = now.Version
		}
		change := &rules.Revision{Action: rules.RevisionPush, At: a.clock.now(), Author: "ann", Text: ruleFile(w.plan, secondRate)}
		next, err := now.With(change, version)
		if err != nil {
			return err
		}
		return a.Feed.Rules().Write(ctx, version, next, change)
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pushed = w.at()
}

// insist tries each aggregator until one says that it is done.
func (w *World) insist(try func(context.Context, *Aggregator) error) {
	for i := 0; w.at() < runFor-5*time.Second; i++ {
		w.mu.Lock()
		a := w.aggregators[i%len(w.aggregators)]
		w.mu.Unlock()
		if a != nil {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			err := try(ctx, a)
			cancel()
			if err == nil && !a.quiet.Load() {
				return
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// cause lets a fault happen.
func (w *World) cause(f fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.note("fault %v", f)
	l, a := f.who%len(w.limiters), f.who%len(w.aggregators)
	limiter, aggregator := w.limiters[l], w.aggregators[a]
	switch f.kind {
	case "freeze-redis":
		w.redis.Freeze(f.took)
	case "lose-redis", "restart-redis":
		if f.kind == "lose-redis" {
			w.redis.Lose()
		}
		w.net.Kill(redisNode)
		w.after(f.end(), func() { w.net.Revive(redisNode) })
	case "cut-limiter":
		if limiter != nil {
			w.net.CutBoth(limiter.name, redisNode, f.took)
		}
	case "cut-aggregator":
		if aggregator != nil {
			w.net.CutBoth(aggregator.name, redisNode, f.took)
		}
	case "kill-limiter":
		if limiter != nil {
			limiter.kill()
			w.over = append(w.over, &limiter.process)
			w.limiters[l] = nil
			w.after(f.end(), func() { w.locked(func() { w.startLimiter(l) }) })
		}
	case "kill-aggregator", "hand-over":
		if aggregator == nil {
			return
		}
		if f.kind == "hand-over" {
			aggregator.stop()
		} else {
			aggregator.kill()
			w.net.Kill(aggregatorNode(a))
			w.net.Revive(aggregatorNode(a))
		}
		w.over = append(w.over, &aggregator.process)
		w.aggregators[a] = nil
		w.after(f.end(), func() {
			<-aggregator.ended
			w.locked(func() { w.startAggregator(a) })
		})
	case "deaf", "storm":
		bad := Link{Delay: w.plan.datagrams.Delay, Loss: 1}
		if f.kind == "storm" {
			bad = Link{Delay: 50 * time.Millisecond, Jitter: 100 * time.Millisecond, Loss: 0.4, Double: 0.2, Late: 0.5}
		}
		if limiter == nil {
			return
		}
		from, to := limiter.name, aggregatorNode(a)
		if w.plan.collector {
			to = "collector"
		}
		w.net.Set(from, to, bad)
		w.after(f.end(), func() { w.net.Set(from, to, w.plan.datagrams) })
	case "clock-drift", "clock-jump":
		nodes := []string{fmt.Sprintf("limiter%d", l+1), aggregatorNode(a)}
		c := w.clocks[nodes[f.who/7%2]]
		by := time.Duration(f.who%700-350) * time.Millisecond / 200 // up to 1.75 s
		if f.kind == "clock-jump" {
			c.ahead.Store(int64(by))
			w.after(f.end(), func() { c.ahead.Store(0) })
			return
		}
		const steps = 50
		for i := range steps {
			w.after(f.at+f.took*time.Duration(i+1)/steps, func() { c.ahead.Store(int64(by) * int64(steps-1-i) / steps) })
		}
	}
}

func (w *World) locked(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// logs is the slog.Handler of a process.
type logs struct {
	seen  *seen
	who   string
	quiet *atomic.Bool
}

func (l logs) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo && !l.quiet.Load()
}

func (l logs) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	l.seen.logged(l.who, r.Level, text)
	return nil
}

func (l logs) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l logs) WithGroup(string) slog.Handler      { return l }

// seen is what an observer knows who sees everything.
type seen struct {
	w *World

	mu       sync.Mutex // guards the rest
	trace    hash.Hash64
	out      io.Writer // nil: none
	requests int
	verdicts []verdict
	warnings []warning
	lines    map[string]int // of logs, by process
}

// verdict is what one request got.
type verdict struct {
	at, took time.Duration
	limiter  string
	id       string
	client   uint32
	allowed  bool
	hot      bool
	reason   hottype.Reason
}

type warning struct {
	at        time.Duration
	who, text string
}

func newSeen(w *World, out io.Writer) *seen {
	return &seen{w: w, trace: fnv.New64a(), out: out, lines: map[string]int{}}
}

// note writes a line into the trace.
func (s *seen) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(format, args...)
}

func (s *seen) write(format string, args ...any) {
	line := fmt.Appendf(nil, "%012d "+format+"\n", append([]any{s.w.at().Microseconds()}, args...)...)
	_, _ = s.trace.Write(line)
	if s.out != nil {
		_, _ = s.out.Write(line)
	}
}

func (s *seen) verdict(l *Limiter, id string, client uint32, v hottype.Verdict, began time.Time) {
	if l.quiet.Load() {
		return // nobody gets the answer of a killed process
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	is := verdict{at: began.Sub(s.w.start), took: time.Since(began), limiter: l.name, id: id, client: client,
		allowed: v.Allowed, hot: v.Hot, reason: v.Reason}
	s.write("%s %s %d %v %v %v %v", l.name, id, client, is.allowed, is.hot, is.reason, is.took)
	s.verdicts = append(s.verdicts, is)
}

func (s *seen) logged(who string, level slog.Level, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines[who]++
	s.write("log %s %v %s", who, level, text)
	if level >= slog.LevelWarn {
		s.warnings = append(s.warnings, warning{s.w.at(), who, text})
	}
}

// since gives the verdicts of requests that came after a time, and forgets the others.
func (s *seen) since(t time.Duration) []verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verdicts = slices.DeleteFunc(s.verdicts, func(v verdict) bool { return v.at < t })
	return slices.Clone(s.verdicts)
}
