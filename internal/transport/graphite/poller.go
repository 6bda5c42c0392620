// Package graphite takes counts out of Graphite: it asks the render API which
// metrics of ours are busy, and hands their buckets on as counts, each bucket
// once.
//
//	StatsD server ──> carbon ──> GET /render ──> Poller ──> Handle
//	  1 flush/s                   1 poll/s
//
// This was the first form of the whole idea, a script that looks into Graphite
// every few seconds. It is kept for sites that run StatsD and Graphite anyway;
// the ways by package statsd and package kafka are quicker and lose less.
//
// # What is asked
//
// One target for each rule, such as
//
//	maximumAbove(stats_counts.hotparam.topic.hot_param.*,139.86)
//
// so the threshold is applied where the data is, and an answer holds the
// busy keys only. The threshold is the rule's cooling mark for one bucket: a
// window whose sum reaches the mark has a bucket that does, so no key is missed
// that is hot or still has to cool. maximumAbove does not count buckets without
// a value, and leaves the names as they are.
//
// From and until are relative, so they are read by Graphite's clock, not ours.
//
// # From buckets to seconds
//
// A bucket with the time t stands for what the StatsD server counted in the
// flush interval that ended at t. It is spread evenly over the seconds of that
// interval. They reach us late, and always equally late: by the flush, by
// carbon, by the poll. Left at their own place, the newest seconds of every
// window would be missing and no key would ever reach its threshold. So all of
// them are moved by the same delay, the longest that was lately seen between the
// end of a bucket and the poll that brought it: then a window is full when it
// is judged. See clockoffset.go and docs/adr.
//
// What is older than the longest window is left out, and what is more than half
// a minute behind is not moved up to the present: a backlog makes nothing hot.
package graphite

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/wait"
)

// Poller asks Graphite for busy series, at each Poll. It is safe for concurrent use.
type Poller struct {
	cfg    Config
	client *http.Client
	url    url.URL // of the render API, without a query
	where  string  // the same for people
	plan   atomic.Pointer[plan]

	polling sync.Mutex // held by Poll; guards the fields below
	taken   *takenBuckets
	offset  clockOffset
	// difference is Graphite's clock less ours; clockKnown: answers have a date.
	difference time.Duration
	clockKnown bool
	lastOK     time.Time // when the last poll began that all answers came to; zero when the last one failed
	failing    bool
	shownStep  int64 // a step that was complained of
	beat       int64 // newest second of Graphite's clock with a heartbeat of a sender
	round      round

	mu    sync.Mutex // guards stats
	stats Stats
}

type round struct {
	taken   []taken
	newest  int64     // newest second of any series, by Graphite's clock
	last    int64     // time of the last point, with a value or not
	asked   time.Time // when the request was sent that is being answered
	heard   time.Time // the same, of the one whose answer had the last point
	step    int64     // longest step
	beat    int64     // newest second with a heartbeat
	scratch []bucket
}

// probe is how far back is asked until the step is known: two points of carbon's default of a minute.
const probe = 130

// taken is a new bucket of a key: n requests in the flush interval that ended then, by Graphite's clock.
type taken struct {
	key hottype.Key
	n   int64
	end int64
}

// New builds a Poller. It asks nothing yet: an absent Graphite is no error.
func New(cfg Config) (*Poller, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	u, user, err := renderURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	if user != nil && cfg.Username == "" && cfg.Password == "" {
		cfg.Username = user.Username()
		cfg.Password, _ = user.Password()
	}
	p := &Poller{cfg: cfg, client: newClient(), url: *u, where: u.String(), taken: newTakenBuckets(cfg.MaxSeries)}
	p.plan.Store(newPlan(cfg, cfg.Rules))
	return p, nil
}

// SetRules asks by other rules from the next poll on.
func (p *Poller) SetRules(set *rules.Set) { p.plan.Store(newPlan(p.cfg, set)) }

func (p *Poller) Close() { p.client.CloseIdleConnections() }

// Poll asks once and hands over what is new. An error, of which the first of a row is logged, leaves the
// rest to the next poll. Polls do not overlap: a second one waits.
func (p *Poller) Poll(ctx context.Context) error {
	p.polling.Lock()
	defer p.polling.Unlock()
	if err := p.settle(ctx); err != nil {
		return err
	}
	began := p.cfg.Now()
	short, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	plan := p.plan.Load()
	p.round = round{taken: p.round.taken[:0], scratch: p.round.scratch}
	p.mu.Lock()
	p.stats.Series = 0
	p.mu.Unlock()
	var errs []error
	lookback := plan.lookback
	if p.Stats().Step == 0 {
		lookback = max(lookback, probe)
	}
	for _, q := range plan.queries {
		p.round.asked = p.cfg.Now()
		errs = append(errs, p.fetch(short, q, lookback, p.take))
	}
	p.handOver(plan, began)
	p.taken.forget(p.offset.server(p.cfg.Now()) - 2*lookback)
	err := errors.Join(errs...)
	if ctx.Err() == nil {
		p.finishPoll(began, err)
	}
	return err
}

// settle waits until the StatsD server has flushed, if cron began the poll on the full second.
func (p *Poller) settle(ctx context.Context) error {
	wait.For(ctx, p.cfg.Settle-time.Duration(p.cfg.Now().Nanosecond()))
	return ctx.Err()
}

// handOver places what was taken in our seconds and gives it to Handle.
func (p *Poller) handOver(plan *plan, began time.Time) {
	r := &p.round
	if r.newest == 0 {
		return
	}
	if r.step > 0 {
		p.warnStep(r.step)
	}
	now, step := p.cfg.Now(), cmp.Or(r.step, int64(p.cfg.Flush/time.Second))
	if !p.clockKnown {
		// Without a Date the last point is the nearest to a clock that an
		// answer has: its bucket was under way when the request came.
		server := time.Unix(r.last, 0)
		p.offset.observeClock(r.heard, server, time.Duration(step+1)*time.Second)
		p.difference = server.Sub(r.heard)
	}
	fresh := !p.lastOK.IsZero() && began.Sub(p.lastOK) <= maxLag*time.Second
	p.offset.observe(now, r.newest, step, fresh)
	counts := p.place(now.Unix() - plan.window)
	if len(counts) > 0 {
		p.cfg.Handle(counts)
	}
}

// place spreads the buckets over the seconds of their flush interval. What is
// not after a second of ours is left out: no window reaches so far back.
func (p *Poller) place(after int64) []hottype.Count {
	k := int64(p.cfg.Flush / time.Second)
	var counts []hottype.Count
	var requests, old, moved uint64
	for _, t := range p.round.taken {
		for i := range k {
			n := evenShare(t.n, k, i)
			if n == 0 {
				continue
			}
			second, ok := p.offset.place(t.end - k + i)
			switch {
			case !ok:
				moved += uint64(n)
			case second <= after:
				old += uint64(n)
			default:
				requests += uint64(n)
				counts = append(counts, hottype.Count{Key: t.key, N: n, Second: second})
			}
		}
	}
	p.count(func(st *Stats) {
		st.Buckets += uint64(len(p.round.taken))
		st.Requests += requests
		st.DroppedOld += old
		st.DroppedShift += moved
	})
	return counts
}
