package redislimits

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// wire decides the fate of the scripts of one client on their way.
type wire struct {
	fate string
	late [][]any // calls that the server has not received yet
}

var errCut = errors.New("cut")

func (w *wire) DialHook(next redis.DialHook) redis.DialHook { return next }
func (w *wire) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (w *wire) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		switch w.fate {
		case "lost":
			cmd.SetErr(errCut)
			return errCut
		case "late": // the caller gives up before the server reads it
			w.late = append(w.late, cmd.Args())
			cmd.SetErr(errCut)
			return errCut
		case "cut": // the server does it, but its answer does not arrive
			err := next(ctx, cmd)
			if !redis.HasErrorPrefix(err, "NOSCRIPT") {
				err = errCut
				cmd.SetErr(err)
			}
			return err
		case "twice":
			_ = next(ctx, cmd)
		}
		return next(ctx, cmd)
	}
}

// sumsOf holds the sums of allowed requests by the beginning of their window, in unix us.
type sumsOf map[int64]int64

// span is a window: its length and its beginning, in us.
type span struct{ length, start int64 }

// peer is one process of the model, with the state that the model expects of it.
type peer struct {
	w      *Windows
	wire   *wire
	skew   time.Duration
	window int64 // us, of the last request
	own    sumsOf
	heard  sumsOf         // and their rounds
	told   map[span]int64 // as Redis has them
	as     map[span]int   // and of which round
	failed bool
	vague  bool // the window was changed, and others have not been heard since
	made   []taken
}

// taken is a charge that may be refunded.
type taken struct {
	now    time.Time
	charge limit.Charge
	start  int64
}

// arriving is a call that has not arrived.
type arriving struct {
	args  []any
	from  *peer
	round int
	told  map[span]int64
}

// sumsWorld has several processes at one server, whose clock the test sets.
type sumsWorld struct {
	t      *rapid.T
	clock  *redistest.Clock // of the server
	raw    *redis.Client
	now    time.Time
	spec   limit.Spec
	peers  []*peer
	gone   []*peer // ended; their sums stay
	late   []arriving
	rounds int
}

const unlimited = 1 << 20

func (wd *sumsWorld) start(us int64) int64 { return us - us%wd.spec.Window.Microseconds() }

func (wd *sumsWorld) join(c *Limiter) *peer {
	p := &peer{wire: &wire{}, skew: rapid.SampledFrom([]time.Duration{0, 0, time.Hour, -time.Hour, 2 * time.Minute}).
		Draw(wd.t, "skew")}
	p.wire.fate = "ok"
	c.rdb.AddHook(p.wire)
	c.now = func() time.Time { return wd.now.Add(p.skew) }
	wd.fresh(p, c)
	return p
}

func (wd *sumsWorld) fresh(p *peer, c *Limiter) {
	p.w, p.window = patient(c), wd.spec.Window.Microseconds()
	p.own, p.heard, p.told, p.as, p.failed, p.vague, p.made = sumsOf{}, sumsOf{}, map[span]int64{}, map[span]int{},
		true, false, nil
}

// local returns the time by the clock of the process.
func (wd *sumsWorld) local(p *peer) time.Time { return wd.now.Add(p.skew) }

// turn moves the model's own sums of a process to the current length of the window.
func (wd *sumsWorld) turn(p *peer) {
	us, window := wd.now.UnixMicro(), wd.spec.Window.Microseconds()
	if p.window == window {
		return
	}
	start := us - us%p.window
	own := p.own[start]
	if wd.spec.Algorithm == limit.SlidingWindow {
		covered := p.window - us%p.window
		own += (p.own[start-p.window]*covered + p.window - 1) / p.window
	}
	p.own, p.heard, p.vague, p.window, p.made = sumsOf{wd.start(us): own}, sumsOf{}, true, window, nil
}

// ask asks a process and compares its answer with the sums that it has to know.
func (wd *sumsWorld) ask(p *peer, spec limit.Spec, cost int64) {
	wd.turn(p)
	start := wd.start(wd.now.UnixMicro())
	c := windowCharge(visitor(1), spec.Algorithm, spec.Limit, spec.Window, cost)
	got := p.w.ask(wd.t, wd.local(p), c)
	window := spec.Window.Microseconds()
	used, before := p.own[start]+p.heard[start], int64(0)
	if spec.Algorithm == limit.SlidingWindow {
		covered := window - wd.now.UnixMicro()%window
		before = ((p.own[start-window]+p.heard[start-window])*covered + window - 1) / window
	}
	if left := max(0, spec.Limit-used-before); !p.vague &&
		(got.Allowed != (cost <= left) || got.Remaining != left-cost && got.Allowed) {
		wd.t.Fatalf("%+v; own %v, of others %v (before %d): %d should be left for %d", got, p.own, p.heard, before,
			left, cost)
	}
	if got.Allowed && cost > 0 {
		p.own[start] += cost
		p.made = append(p.made, taken{wd.local(p), c, start})
	}
}

func (wd *sumsWorld) refund(p *peer) {
	if len(p.made) == 0 {
		return
	}
	i := rapid.IntRange(0, len(p.made)-1).Draw(wd.t, "refund")
	r := p.made[i]
	p.made = slices.Delete(p.made, i, i+1)
	p.w.RefundAt(r.now, []limit.Charge{r.charge})
	p.own[r.start] -= r.charge.Cost
}

// exchange has a process, which was asked just before, exchange, with a fate.
func (wd *sumsWorld) exchange(p *peer, fate string) {
	wd.ask(p, wd.spec, 0)
	start, window := wd.start(wd.now.UnixMicro()), wd.spec.Window.Microseconds()
	wd.rounds++
	p.wire.fate = fate
	p.w.exchange(context.Background())
	p.wire.fate = "ok"
	ok, first := fate == "ok" || fate == "twice", p.failed
	say := map[span]int64{{window, start}: p.own[start]}
	if wd.spec.Algorithm == limit.SlidingWindow {
		say[span{window, start - window}] = p.own[start-window]
	}
	for _, args := range p.wire.late {
		if !first { // else it only asked for the time
			wd.late = append(wd.late, arriving{args, p, wd.rounds, say})
		}
	}
	p.wire.late = nil
	if ok || fate == "cut" && !first {
		wd.arrive(p, wd.rounds, say)
	}
	if p.failed = !ok; ok {
		p.vague, p.heard = false, sumsOf{}
		for _, q := range append(slices.Clone(wd.peers), wd.gone...) {
			if q != p {
				p.heard[start] += q.told[span{window, start}]
				p.heard[start-window] += q.told[span{window, start - window}]
			}
		}
	}
	if got := p.w.Stats(); ok && (got.Stale != 0 || got.Rejected != 0) {
		wd.t.Fatalf("%+v", got)
	}
}

// arrive applies a call to the model of Redis.
func (wd *sumsWorld) arrive(p *peer, round int, say map[span]int64) {
	for w, sum := range say {
		if round >= p.as[w] {
			p.told[w], p.as[w] = sum, round
		}
	}
}

func (wd *sumsWorld) deliver() {
	if len(wd.late) == 0 {
		return
	}
	i := rapid.IntRange(0, len(wd.late)-1).Draw(wd.t, "late")
	a := wd.late[i]
	wd.late = slices.Delete(wd.late, i, i+1)
	if err := wd.raw.Do(context.Background(), a.args...).Err(); redis.HasErrorPrefix(err, "NOSCRIPT") {
		return
	} else if err != nil {
		wd.t.Fatal(err)
	}
	for w := range a.told {
		if wd.now.UnixMicro() >= w.start+2*w.length {
			delete(a.told, w) // it is no longer charged
		}
	}
	wd.arrive(a.from, a.round, a.told)
}

func (wd *sumsWorld) pass(d time.Duration) {
	wd.now = wd.now.Add(d)
	wd.clock.Set(wd.now)
}

func (wd *sumsWorld) step(clients []*Limiter) {
	i := rapid.IntRange(0, len(wd.peers)-1).Draw(wd.t, "process")
	p := wd.peers[i]
	switch what := rapid.SampledFrom([]string{"ask", "ask", "ask", "ask", "refund", "exchange", "exchange", "exchange",
		"late", "limit", "window", "restart", "flush", "time", "turn"}).Draw(wd.t, "what"); what {
	case "ask":
		wd.ask(p, wd.spec, rapid.Int64Range(0, 3).Draw(wd.t, "cost"))
	case "refund":
		wd.refund(p)
	case "exchange":
		wd.exchange(p, rapid.SampledFrom([]string{"ok", "ok", "ok", "lost", "cut", "late", "twice"}).Draw(wd.t, "fate"))
	case "late":
		wd.deliver()
	case "limit":
		wd.spec.Limit = rapid.Int64Range(1, 30).Draw(wd.t, "limit")
	case "window":
		wd.spec.Window = rapid.SampledFrom([]time.Duration{10 * time.Second, 20 * time.Second, time.Minute}).
			Draw(wd.t, "window")
	case "restart":
		wd.exchange(p, "ok") // sums that it has not written are lost with it
		wd.exchange(p, "ok")
		old := *p
		wd.gone = append(wd.gone, &old)
		for j := range wd.late {
			if wd.late[j].from == p {
				wd.late[j].from = &old
			}
		}
		wd.fresh(p, clients[i])
	case "flush":
		wd.raw.ScriptFlush(context.Background())
	case "time":
		wd.pass(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 3 * time.Second}).Draw(wd.t, "d"))
	case "turn":
		for _, q := range wd.peers {
			if q.w.shards[0].lastExchange.Load() < 0 { // until it knows the time, one window has all that it allows
				wd.exchange(q, "ok")
			}
		}
		window := wd.spec.Window.Microseconds()
		wd.pass(time.Duration(window-wd.now.UnixMicro()%window)*time.Microsecond +
			time.Duration(rapid.Int64Range(0, window-1).Draw(wd.t, "into"))*time.Microsecond)
	}
}

// With any faults of calls, and any changes of limits, windows, processes and clocks, a process decides by the requests
// that it has allowed itself, counted once, and by the sums that the others had written when it last read them. Once
// all have exchanged, all know the same sums.
func TestWindows_KnowSumsOfOthers(t *testing.T) {
	t.Parallel()
	s, trial, now := redistest.Start(t), 0, time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(rt *rapid.T) {
		trial++
		wd := &sumsWorld{t: rt, clock: newClock(now), now: now, spec: limit.Spec{
			Algorithm: rapid.SampledFrom([]limit.Algorithm{limit.FixedWindow, limit.SlidingWindow}).
				Draw(rt, "algorithm"), Limit: 20, Window: 20 * time.Second,
		}}
		wd.raw = redis.NewClient(&redis.Options{Addr: s.Addr(), Protocol: 2, DisableIdentity: true})
		wd.raw.AddHook(wd.clock)
		defer wd.raw.Close()
		var clients []*Limiter
		for range 3 {
			client, err := redisclient.Open(redisclient.Config{Addrs: []string{s.Addr()},
				Namespace: fmt.Sprint("trial", trial), Timeout: 5 * time.Second})
			if err != nil {
				rt.Fatal(err)
			}
			defer client.Close()
			c := New(client)
			clients = append(clients, c)
			wd.peers = append(wd.peers, wd.join(c))
			c.rdb.AddHook(wd.clock) // behind the wire: a call knows the time at which it arrives
		}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			wd.step(clients)
		}
		for len(wd.late) > 0 {
			wd.deliver()
		}
		for range 3 { // the first may only read the time, the last reads all sums
			for _, p := range wd.peers {
				wd.exchange(p, "ok")
			}
		}
		wd.agree()
		if err := wd.raw.FlushAll(context.Background()).Err(); err != nil {
			rt.Fatal(err)
		}
	})
}

// agree checks that every process knows the sums of all.
func (wd *sumsWorld) agree() {
	start, window := wd.start(wd.now.UnixMicro()), wd.spec.Window.Microseconds()
	var cur, prev int64
	for _, p := range wd.peers {
		cur, prev = cur+p.own[start], prev+p.own[start-window]
	}
	for _, p := range wd.gone {
		cur, prev = cur+p.told[span{window, start}], prev+p.told[span{window, start - window}]
	}
	if wd.spec.Algorithm == limit.SlidingWindow {
		cur += (prev*(window-wd.now.UnixMicro()%window) + window - 1) / window
	}
	peek := windowCharge(visitor(1), wd.spec.Algorithm, unlimited, wd.spec.Window, 0)
	for i, p := range wd.peers {
		if got := unlimited - p.w.ask(wd.t, wd.local(p), peek).Remaining; got != cur {
			wd.t.Fatalf("process %d knows of %d, all have admitted %d", i, got, cur)
		}
	}
}
