// Package costs measures the costs of requests for their upstream, and counts them under the keys of the requests, for
// rules by another cost than the number of requests (hottype.Cost).
//
// A cost is known when the response begins or has ended. Time and bytes are counted each second while a request goes
// on, in the second in which they arise, so that a request of minutes makes its key hot in its first seconds.
//
// Counts are demand. A request whose cost will not be known, because it was denied or because its caller does not
// measure, counts for the mean cost of its key, or of its rule while no request for the key was measured. Otherwise a
// key would cool because it is limited, flood its upstream, and become hot again.
package costs

import (
	"cmp"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

// Counter counts costs under keys. *tally.Tally is a Counter.
type Counter interface {
	// AddCost adds the cost of requests of a client. The rest of a cost of which a part was added has no requests.
	AddCost(key []byte, second, cost, requests int64, client hottype.Client)
}

// Meter measures the requests of one process. Any number of goroutines may use it.
type Meter struct {
	counter Counter // nil: nothing is counted
	means   means
	lines   atomic.Pointer[map[string]*line] // by upstream whose number of workers is known
	unknown atomic.Uint64

	mu sync.Mutex // held while lines are replaced
}

// NewMeter returns a Meter without rules. counter may be nil.
func NewMeter(counter Counter) *Meter {
	m := &Meter{counter: counter}
	m.means.seed = maphash.MakeSeed()
	return m
}

// Configure sets the upstreams whose requests wait for workers. It keeps the requests that are in flight at upstreams
// that stay.
func (m *Meter) Configure(set *rules.Set) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := map[string]*line{}
	if set.CountsTime() {
		for i := range set.Upstreams {
			up := &set.Upstreams[i]
			if up.Workers == 0 {
				continue
			}
			l := cmp.Or(m.lineOf(up.Name), &line{})
			l.shared.Store(int64(up.Workers))
			next[up.Name] = l
		}
	}
	m.lines.Store(&next)
}

func (m *Meter) lineOf(upstream string) *line {
	if all := m.lines.Load(); all != nil {
		return (*all)[upstream]
	}
	return nil
}

// Unknown returns the number of requests that were not counted, because nothing was known about the cost of their rule.
func (m *Meter) Unknown() uint64 { return m.unknown.Load() }

// CountMean counts n requests whose cost will not be known.
func (m *Meter) CountMean(second int64, key []byte, rule string, n int64, client hottype.Client) {
	mean, known := m.MeanOf(key, rule)
	if !known {
		m.unknown.Add(uint64(n))
		return
	}
	m.count(second, key, mean*min(n, maxCost/max(mean, 1)), n, client)
}

// learn adds the cost of a request to the means of its key and its rule.
func (m *Meter) learn(key []byte, rule string, cost int64) {
	m.means.add(key, cost)
	m.means.add([]byte(rule), cost)
}

// MeanOf returns the mean cost of a key, or of its rule while no request for the key was measured.
func (m *Meter) MeanOf(key []byte, rule string) (mean int64, known bool) {
	if mean, known = m.means.meanOf(key); !known {
		mean, known = m.means.meanOf([]byte(rule))
	}
	return mean, known
}

func (m *Meter) count(second int64, key []byte, cost, requests int64, client hottype.Client) {
	if m.counter != nil && cost > 0 {
		m.counter.AddCost(key, second, cost, requests, client)
	}
}

// Work is the work of an upstream on one allowed request. Its caller reports when the upstream has the request, each
// second, when the response begins, and when it has ended. Any number of goroutines may use it.
type Work struct {
	meter  *Meter
	line   *line // nil: the number of workers is unknown
	client hottype.Client
	keys   []measured

	mu        sync.Mutex
	handledAt time.Time // when the handler began
	place     *place    // nil before the upstream has the whole request
	answered  bool
	ended     bool
	given     Given
}

// measured is a key under which the cost is counted.
type measured struct {
	key     []byte
	rule    *rules.Rule
	counted int64
	// charge charges the limit of the key for the whole cost, or is nil if no limit charges it.
	charge func(now time.Time, cost int64)
}

// NewWork returns the work on a request for an upstream, whose workers the limiters share.
func (m *Meter) NewWork(now time.Time, upstream string, limiters int64, client hottype.Client) *Work {
	w := &Work{meter: m, line: m.lineOf(upstream), client: client, given: NothingGiven}
	if w.line != nil {
		w.line.setWorkers(now, float64(w.line.shared.Load())/float64(max(limiters, 1)))
	}
	return w
}

// HasLine reports whether requests for an upstream wait for workers, so that all of them are measured.
func (m *Meter) HasLine(upstream string) bool { return m.lineOf(upstream) != nil }

// AddKey adds a key under which the cost is counted. With hasMean the mean was counted for this request already. The
// function charge, which may be nil, charges the limit of the key when the cost is known. It is called at most once,
// and does not wait.
func (w *Work) AddKey(key hottype.Key, rule *rules.Rule, hasMean bool, charge func(now time.Time, cost int64)) {
	k := measured{key: []byte(key), rule: rule, charge: charge}
	if hasMean {
		k.counted, _ = w.meter.MeanOf(k.key, rule.Name)
	}
	w.keys = append(w.keys, k)
}

// Counts reports whether a key counts by a cost.
func (w *Work) Counts(cost hottype.Cost) bool {
	for i := range w.keys {
		if w.keys[i].rule.Cost == cost {
			return true
		}
	}
	return false
}

// HandlerBegins records that the handler begins, which may still have to read the body.
func (w *Work) HandlerBegins(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.handledAt.IsZero() {
		w.handledAt = now
	}
}

// Begin records that the upstream has the whole request.
func (w *Work) Begin(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.place == nil && !w.answered {
		w.place = w.line.enter(now)
	}
}

// Progress counts the cost that has arisen until now. bytes is the length of the body of the response so far.
func (w *Work) Progress(now time.Time, bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.keys {
		switch k := &w.keys[i]; {
		case k.rule.Cost == hottype.CostTime && w.place != nil && !w.answered:
			w.countUpTo(now, k, w.line.workedOn(w.place, now).Microseconds())
		case k.rule.Cost == hottype.CostBytes && !w.ended:
			w.countUpTo(now, k, bytes)
		}
	}
}

// Respond records that the response begins, with its header, which may be nil. It removes fields that have the cost,
// unless their rule shows them. left is true if the client has left: its request costs at least the mean.
func (w *Work) Respond(now time.Time, header map[string][]string, left bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.answered {
		return
	}
	w.answered = true
	worked, known := time.Duration(0), false
	switch {
	case w.place != nil:
		worked, known = w.line.leave(w.place, now), true
	case !w.handledAt.IsZero() && !left: // the handler did not read the body to its end
		worked, known = now.Sub(w.handledAt), true
	}
	left = left || w.given.Left
	if w.given.Time >= 0 {
		worked, known = w.given.Time, true
	}
	for i := range w.keys {
		switch k := &w.keys[i]; {
		case k.rule.Cost == hottype.CostTime:
			w.complete(now, k, worked.Microseconds(), known, left)
		case k.rule.Cost.ResponseField() != "":
			n, known := costIn(header, k.rule.Cost.ResponseField())
			if w.given.Cost >= 0 {
				n, known = thousandths(w.given.Cost), true
			}
			w.complete(now, k, n, known, left)
		}
	}
	for i := range w.keys { // after all have read it, because two rules may have the same field
		if r := w.keys[i].rule; header != nil && r.Cost.ResponseField() != "" && !r.ShowCost {
			delete(header, r.Cost.ResponseField())
		}
	}
}

// End records that the response has ended, with the length of its body, or -1 if that is not known.
func (w *Work) End(now time.Time, bytes int64, left bool) {
	w.Respond(now, nil, left)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	w.ended = true
	if w.given.Bytes >= 0 {
		bytes = w.given.Bytes
	}
	for i := range w.keys {
		if k := &w.keys[i]; k.rule.Cost == hottype.CostBytes {
			w.complete(now, k, bytes, bytes >= 0, false)
		}
	}
}

// complete counts the rest of the cost of a request under one key. A cost that is not known is the mean, and with
// atLeastMean no cost is lower.
func (w *Work) complete(now time.Time, k *measured, cost int64, known, atLeastMean bool) {
	mean, hasMean := w.meter.MeanOf(k.key, k.rule.Name)
	switch {
	case !known && !hasMean:
		w.meter.unknown.Add(1)
		return
	case !known:
		cost = mean
	case atLeastMean:
		cost = max(cost, mean)
	}
	if known {
		w.meter.learn(k.key, k.rule.Name, cost)
	}
	w.countUpTo(now, k, cost)
	if k.charge != nil {
		k.charge(now, min(cost, maxCost))
	}
}

func (w *Work) countUpTo(now time.Time, k *measured, cost int64) {
	if more := min(cost, maxCost) - k.counted; more > 0 {
		first := int64(0)
		if k.counted == 0 {
			first = 1
		}
		k.counted += more
		w.meter.count(now.Unix(), k.key, more, first, w.client)
	}
}
