// Package graphite reads counts from Graphite: it requests our busy metrics from the render API and hands over their
// buckets as counts, each bucket once.
//
//	StatsD server ──> carbon ──> GET /render ──> Poller ──> Handle
//	  1 flush/s                   1 poll/s
//
// This was the first form of the whole idea, a script that queries Graphite every few seconds. It is kept for sites
// that run StatsD and Graphite anyway; package statsd and package kafka are quicker and lose less.
//
// # Requests
//
// There is one target for each rule, such as
//
//	maximumAbove(stats_counts.hotparam.topic.hot_param.*,139.86)
//
// so that the threshold is applied where the data is, and a response holds only the busy keys. The threshold is the
// rule's release threshold for one bucket: a window whose sum reaches it has a bucket that reaches it, so that no key
// is missed that is hot or still has to cool. maximumAbove ignores buckets without a value, and leaves the names as
// they are.
//
// From and until are relative, so that they are read by Graphite's clock, not ours.
//
// # From buckets to seconds
//
// A bucket with the time t holds the counts of the StatsD server in the flush interval that ended at t. They are spread
// evenly over the seconds of that interval. They reach us late, and always equally late: by the flush, by carbon, by
// the poll. If they were left at their own second, the newest seconds of every window would be missing and no key would
// ever reach its threshold. Therefore all counts are moved by the same delay, the longest recently observed between the
// end of a bucket and the poll that brought it, so that a window is full when it is judged. See clockoffset.go and
// docs/adr.
//
// Counts that are older than the longest window are left out, and counts that are more than half a minute behind are
// not moved up to the present, so that a backlog does not make keys hot.
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

// Poller requests busy series from Graphite at each call of Poll. It is safe for concurrent use.
type Poller struct {
	cfg    Config
	client *http.Client
	url    url.URL // of the render API, without a query
	where  string  // the same for messages
	plan   atomic.Pointer[plan]

	polling sync.Mutex // held by Poll; guards the fields below
	taken   *takenBuckets
	offset  clockOffset
	// difference is Graphite's clock minus ours; clockKnown is true if responses have a date.
	difference time.Duration
	clockKnown bool
	lastOK     time.Time // start of the last poll if all its requests succeeded; else zero
	failing    bool
	shownStep  int64 // the last step that was logged as too long
	beat       int64 // newest second of Graphite's clock with a heartbeat of a sender
	round      round

	mu    sync.Mutex // guards stats
	stats Stats
}

type round struct {
	taken   []takenBucket
	newest  int64     // newest second of any series, by Graphite's clock
	last    int64     // time of the last point, with or without a value
	asked   time.Time // when the current request was sent
	heard   time.Time // when the request was sent whose response had the last point
	step    int64     // longest step
	beat    int64     // newest second with a heartbeat
	scratch []bucket
}

// probeLookback is the number of seconds that are requested until the step is known: two points of carbon's default of
// a minute.
const probeLookback = 130

// takenBucket is a new bucket of a key: n requests in the flush interval that ended at end, by Graphite's clock.
type takenBucket struct {
	key hottype.Key
	n   int64
	end int64
}

// New builds a Poller. It does not send a request yet, so that an absent Graphite is not an error.
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

// SetRules replaces the rules from the next poll on.
func (p *Poller) SetRules(set *rules.Set) { p.plan.Store(newPlan(p.cfg, set)) }

func (p *Poller) Close() { p.client.CloseIdleConnections() }

// Poll polls once and hands over the new buckets. After an error, the first of which in a row is logged, the remaining
// buckets are left to the next poll. Polls do not overlap: a second one waits.
func (p *Poller) Poll(ctx context.Context) error {
	p.polling.Lock()
	defer p.polling.Unlock()
	if err := p.waitForFlush(ctx); err != nil {
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
		lookback = max(lookback, probeLookback)
	}
	for _, q := range plan.queries {
		p.round.asked = p.cfg.Now()
		errs = append(errs, p.fetch(short, q, lookback, p.takeSeries))
	}
	p.handOver(plan, began)
	p.taken.pruneSeries(p.offset.serverSecond(p.cfg.Now()) - 2*lookback)
	err := errors.Join(errs...)
	if ctx.Err() == nil {
		p.finishPoll(began, err)
	}
	return err
}

// waitForFlush waits until the StatsD server has flushed, for a poll that cron began on the full second.
func (p *Poller) waitForFlush(ctx context.Context) error {
	wait.For(ctx, p.cfg.Settle-time.Duration(p.cfg.Now().Nanosecond()))
	return ctx.Err()
}

// handOver converts the taken buckets to counts at our seconds and passes them to Handle.
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
		// Without a Date header the last point is the best estimate of the server's clock in a response, because its
		// bucket was being filled when the request came.
		server := time.Unix(r.last, 0)
		p.offset.observeClock(r.heard, server, time.Duration(step+1)*time.Second)
		p.difference = server.Sub(r.heard)
	}
	fresh := !p.lastOK.IsZero() && began.Sub(p.lastOK) <= maxLag*time.Second
	p.offset.observeNewest(now, r.newest, step, fresh)
	counts := p.placeCounts(now.Unix() - plan.window)
	if len(counts) > 0 {
		p.cfg.Handle(counts)
	}
}

// placeCounts spreads the buckets over the seconds of their flush interval. Counts of the second after and of earlier
// ones are left out, because no window reaches back so far.
func (p *Poller) placeCounts(after int64) []hottype.Count {
	k := int64(p.cfg.Flush / time.Second)
	var counts []hottype.Count
	var requests, old, moved uint64
	for _, t := range p.round.taken {
		for i := range k {
			n := evenShare(t.n, k, i)
			if n == 0 {
				continue
			}
			second, ok := p.offset.placeOf(t.end - k + i)
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
	p.updateStats(func(st *Stats) {
		st.Buckets += uint64(len(p.round.taken))
		st.Requests += requests
		st.DroppedOld += old
		st.DroppedShift += moved
	})
	return counts
}
