package redisstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/limit"
)

const (
	// exchangeKeys is how many windows one call carries: some 1 ms of Redis.
	exchangeKeys = 256
	// exchangeCalls is how many calls share a pipeline.
	exchangeCalls = 8
)

// due is one window's sum on its way.
type due struct {
	subject     limit.Subject
	spec        limit.Spec
	start, cost int64
	total, prev int64 // the answer: of all processes
}

// Run exchanges sums until ctx ends, and then a last time. It returns nil:
// errors are counted, and logged when they begin and when they end.
func (w *Windows) Run(ctx context.Context) error {
	tick := time.NewTicker(exchangeEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.exchange(ctx)
		case <-ctx.Done():
			w.exchange(ctx)
			return nil
		}
	}
}

// exchange tells Redis what was admitted here and learns what was admitted
// elsewhere.
//
// It is not cut short by ctx: half an exchange is one whose fate is unknown.
func (w *Windows) exchange(ctx context.Context) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), freshFor)
	defer cancel()
	err := w.ready(ctx)
	if err == nil {
		err = w.tell(ctx)
	}
	was := w.failed
	if w.failed = err != nil; w.failed {
		w.counts.errors.Add(1)
		if !was {
			w.c.log.Warn("redisstore: windows are not exchanged, each process holds clients to what it knows", "error", err)
		}
		return
	}
	w.counts.exchanges.Add(1)
	w.counts.last.Store(int64(time.Since(began)))
	w.heard.Store(time.Now().UnixNano())
	if was {
		w.c.log.Info("redisstore: windows are exchanged again")
	}
}

// ready asks Redis for an answer where it gave none the last time, so that sums
// are not sent into the dark. It also tells the clock at the first time.
func (w *Windows) ready(ctx context.Context) error {
	if !w.failed && w.heard.Load() != 0 {
		return nil
	}
	began := time.Now()
	at, err := w.c.rdb.Time(ctx).Result()
	if err == nil {
		w.correct(began, at.UnixMicro())
	}
	return err
}

// correct takes over the difference to the clock of Redis, which was read
// between began and now, where it is known better than before: half of the round
// trip is the error.
func (w *Windows) correct(began time.Time, redisNow int64) {
	trip := time.Since(began)
	offset := redisNow - began.Add(trip/2).UnixMicro()
	if d := offset - w.offset.Load(); d > trip.Microseconds() || -d > trip.Microseconds() {
		w.offset.Store(offset)
	}
}

// tell sends all sums, lane by lane.
func (w *Windows) tell(ctx context.Context) error {
	byLane := map[*Limiter][]*due{}
	for i := range w.shards {
		w.shards[i].collect(w.at(time.Now()).UnixMicro(), func(d *due) {
			lane := w.c.limiterOf(&d.subject)
			byLane[lane] = append(byLane[lane], d)
		})
	}
	var first error
	for lane, list := range byLane {
		for len(list) > 0 {
			n := min(len(list), exchangeKeys*exchangeCalls)
			if first == nil {
				first = w.send(ctx, lane.keys, list[:n])
			} else {
				w.untell(list[:n])
			}
			list = list[n:]
		}
	}
	return first
}

// collect hands over the sums that Redis has not been told, as told, and those of
// which others should be heard, and forgets records that no longer count.
func (sh *windowShard) collect(us int64, f func(*due)) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for k, list := range sh.records {
		live := 0
		for i := range list {
			if us >= list[i].start+3*list[i].spec.Window.Microseconds() {
				continue
			}
			list[live] = list[i]
			list[live].collect(k, f)
			live++
		}
		switch {
		case live == 0:
			delete(sh.records, k)
		case live < len(list):
			clear(list[live:])
			sh.records[k] = list[:live]
		}
	}
}

func (r *record) collect(k who, f func(*due)) {
	d := due{subject: limit.Subject{Space: r.space, Client: k.client, Name: k.name}, spec: r.spec}
	if more := r.ownPrev - r.toldPrev; more != 0 {
		r.toldPrev = r.ownPrev
		before := d
		before.start, before.cost = r.start-r.spec.Window.Microseconds(), more
		f(&before)
	}
	if more := r.own - r.told; more != 0 || r.asked {
		r.told, r.asked = r.own, false
		d.start, d.cost = r.start, more
		f(&d)
	}
}

// send makes the calls for some sums of one lane.
func (w *Windows) send(ctx context.Context, names keys, list []*due) error {
	began := time.Now()
	calls, err := w.pipeline(ctx, names, list, w.c.scripts.exchange.EvalSha)
	if redis.HasErrorPrefix(err, "NOSCRIPT") { // for all of them: nothing was counted
		calls, err = w.pipeline(ctx, names, list, w.c.scripts.exchange.Eval)
	}
	for part := range slices.Chunk(list, exchangeKeys) {
		if len(calls) == 0 {
			break
		}
		now, answered := w.read(calls[0], part)
		calls = calls[1:]
		if answered != nil {
			w.counts.uncertain.Add(uint64(len(part)))
			err = answered
			continue
		}
		w.correct(began, now)
		w.counts.sums.Add(uint64(len(part)))
		w.learn(part)
	}
	return err
}

// pipeline makes one call for each part of the sums, all in one round trip.
func (w *Windows) pipeline(ctx context.Context, names keys, list []*due, run func(context.Context, redis.Scripter, []string, ...any) *redis.Cmd) (calls []*redis.Cmd, err error) {
	_, err = w.c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for part := range slices.Chunk(list, exchangeKeys) {
			k, args := w.arguments(names, part)
			calls = append(calls, run(ctx, p, k, args...))
		}
		return nil
	})
	return calls, err
}

func (w *Windows) arguments(names keys, list []*due) ([]string, []any) {
	k, args := make([]string, len(list)), make([]any, 1, 1+4*len(list))
	args[0] = w.slack
	for i, d := range list {
		k[i] = names.limitState(&d.subject)
		kind := limit.KindFixed
		if d.spec.Algorithm == limit.SlidingWindow {
			kind = limit.KindSliding
		}
		args = append(args, string(rune(kind)), d.spec.Window.Microseconds(), d.start, d.cost)
	}
	return k, args
}

// read takes the answer of one call, which is the time of Redis and two numbers
// for each sum.
func (w *Windows) read(call *redis.Cmd, list []*due) (now int64, err error) {
	answer, err := call.Int64Slice()
	if err != nil {
		return 0, err
	}
	if len(answer) != 2*len(list)+1 {
		return 0, fmt.Errorf("redisstore: exchange: answer %.100v: want %d numbers", fmt.Sprint(answer), 2*len(list)+1)
	}
	for i, d := range list {
		d.total, d.prev = answer[2*i], answer[2*i+1]
	}
	return answer[len(answer)-1], nil
}

// learn imposes what others have admitted beyond what is known already.
func (w *Windows) learn(list []*due) {
	for _, d := range list {
		window := d.spec.Window.Microseconds()
		sh, list := w.records(d)
		var more, morePrev int64
		if r := find(list, &limit.Charge{Subject: d.subject, Spec: d.spec}); r != nil {
			switch d.start {
			case r.start:
				more, morePrev = d.total-r.told-r.others, d.prev-r.toldPrev-r.othersPrev
				r.others += max(0, more)
				r.othersPrev += max(0, morePrev)
			case r.start - window:
				more = d.total - r.toldPrev - r.othersPrev
				r.othersPrev += max(0, more)
			}
		}
		sh.mu.Unlock()
		w.impose(d, d.start, more)
		if d.spec.Algorithm == limit.SlidingWindow {
			w.impose(d, d.start-window, morePrev)
		}
	}
}

// records are those of a sum's client, with its shard locked.
func (w *Windows) records(d *due) (*windowShard, []record) {
	k := who{d.subject.Client, d.subject.Name}
	sh := w.shard(&k)
	sh.mu.Lock()
	return sh, sh.records[k]
}

func (w *Windows) impose(d *due, start, cost int64) {
	if cost > 0 {
		w.counts.learned.Add(uint64(cost))
		w.local.Impose(time.UnixMicro(start), limit.Charge{Subject: d.subject, Spec: d.spec, Cost: cost})
	}
}

// untell makes sums that were not sent due again.
func (w *Windows) untell(list []*due) {
	for _, d := range list {
		sh, list := w.records(d)
		if r := find(list, &limit.Charge{Subject: d.subject, Spec: d.spec}); r != nil {
			switch d.start {
			case r.start:
				r.told -= d.cost
			case r.start - d.spec.Window.Microseconds():
				r.toldPrev -= d.cost
			}
		}
		sh.mu.Unlock()
	}
}
