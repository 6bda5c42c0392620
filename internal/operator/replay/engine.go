package replay

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/counting/clientsketch"
	"github.com/hotparam/pipeline/internal/deciding/costs"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/rules"
)

// publisher is the id under which the only detector publishes.
const publisher = "replay"

// maxCounters is more counters than the keys of an ordinary log need, so that counts are exact; otherwise the report
// has their error (Uncertain). The memory of counters is allocated as needed.
const maxCounters = 1 << 23

// peakSeconds is the width of the window of a key's wide peak, Peak5s.
const peakSeconds = 5

type engine struct {
	gate     *gate.Gate
	detector *detect.Detector
	hotSet   hotset.Replica
	version  uint64

	keys    *totals[string]
	clients *totals[hottype.Client]
	spans   spans // of hot keys
	loops   spans
	seconds hotSeconds

	totals Report // numbers of the report, as they grow
	last   int64  // the second that was judged last

	counts    int64 // counts that the detector got
	uncertain int64 // the largest error of a count so far

	tickState

	decided   hottype.Verdict      // verdict on the current request
	hasCosts  bool                 // some rule counts another cost than requests
	seen      costs.Given          // the greatest costs of lines, to know which of them lines have
	counted   []counted            // keys of the current request
	one       [1]hottype.Count     // the count of one of these keys for the detector
	who       hottype.ClientSketch // the client of the current request
	scratch   rules.Scratch        // of countsCost
	malformed bool                 // a key of the current request has the reserved parameter
	records   records
	verdict   func(*Seen, *hottype.Verdict) // Config.Verdict
}

type counted struct {
	key hottype.Key
	id  uint32
	ok  bool // id is valid: the key has a row
	n   int64
}

func newEngine(cfg Config) *engine {
	e := &engine{
		detector: detect.New(cfg.Rules, detect.Options{Counters: maxCounters}),
		keys:     newTotals[string](cfg.MaxKeys, peakSeconds),
		clients:  newTotals[hottype.Client](cfg.MaxKeys, 60),
		spans:    newSpans(detect.BecameHot, detect.Cooled),
		loops:    newSpans(detect.LoopBegan, detect.LoopEnded),
		seconds:  hotSeconds{bySecond: map[int64][]hottype.Key{}},
		last:     math.MinInt64,
		verdict:  cfg.Verdict,
		seen:     costs.NothingGiven,
	}
	e.gate = gate.New(gate.Config{
		Rules: cfg.Rules, Hot: &e.hotSet, Counter: (*counter)(e),
		Local: limit.NewMemory(limit.MemoryConfig{MaxSubjects: cfg.MaxKeys}),
	})
	e.hasCosts = cfg.Rules.HasCosts()
	return e
}

type counter engine

func (c *counter) AddFrom(key []byte, _, n int64, _ hottype.Client) { c.add(key, n) }

// AddCost implements costs.Counter.
func (c *counter) AddCost(key []byte, _, cost, _ int64, _ hottype.Client) { c.add(key, cost) }

func (c *counter) add(key []byte, n int64) {
	id, ok := c.keys.ids[string(key)]
	if !ok {
		id, ok = c.keys.findOrAdd(string(key))
	}
	k := counted{id: id, ok: ok, n: n}
	if ok {
		k.key = hottype.Key(c.keys.names[id])
	} else {
		k.key = hottype.Key(key)
		c.keys.dropped++
	}
	c.malformed = c.malformed || canon.IsMalformed(key)
	c.counted = append(c.counted, k)
}

func (e *engine) handleSecond(ctx context.Context, b *bucket) {
	denied := e.totals.Denied.Total()
	e.records.visitRequests(b, func(s *Seen) { e.replayRequest(ctx, s) })
	e.keys.closeSecond(b.second)
	e.clients.closeSecond(b.second)
	e.seconds.add(b.second, e.detector.OverThreshold(b.second))
	if e.counts > maxCounters { // until then each key has a counter of its own
		for _, r := range e.detector.Errors() {
			e.uncertain = max(e.uncertain, r.Error)
		}
	}
	if e.totals.Requests == 0 {
		e.totals.First = b.second
	}
	n := int64(b.n)
	e.totals.Requests += n
	e.totals.Last = b.second
	e.totals.Timeline.add(b.second, n, int64(e.totals.Denied.Total()-denied))
	e.last = b.second
}

func (e *engine) replayRequest(ctx context.Context, s *Seen) {
	now, req := s.At, s.Request
	e.evaluateUntil(now)
	req.Client = e.gate.Rules().IP.ClientOf(req.Client)
	req.FromProxy = true // the server in front has logged the fields
	id, known := e.clientRow(req)
	e.counted, e.malformed = e.counted[:0], false
	e.decide(ctx, s, req)
	v := &e.decided
	clientsketch.Reset(&e.who)
	clientsketch.Add(&e.who, req.Client, 1)
	for _, k := range e.counted {
		if k.ok {
			e.keys.count(k.id)
		}
		e.spans.addClient(k.key, &e.who)
		e.loops.addClient(k.key, &e.who)
		e.one[0] = hottype.Count{Key: k.key, N: k.n, Second: now.Unix(), Clients: &e.who}
		e.detector.AddAll(now, e.one[:])
		e.counts++
	}
	if e.added.IsZero() && len(e.counted) > 0 {
		e.added = now
	}
	switch {
	case e.malformed:
		e.totals.MalformedQueries++
	case len(e.counted) == 0 && !e.countsCost(req):
		e.totals.NoRule++
	}
	if known {
		e.clients.count(id)
	}
	if v.WouldDeny {
		e.totals.Shadowed++
		e.totals.ShadowedBy[v.WouldDenyReason]++
	}
	if !v.Allowed {
		e.countDenial(v, id, known)
	}
	if e.verdict != nil {
		e.verdict(s, v)
	}
}

// clientRow returns the row of the request's client, and false if the client has no row. The gate may keep the name of
// a client, so that the request gets a copy that owns its memory.
func (e *engine) clientRow(req *hottype.Request) (uint32, bool) {
	id, ok := e.clients.ids[req.Client]
	if !ok {
		req.Client.Name = strings.Clone(req.Client.Name)
		if id, ok = e.clients.findOrAdd(req.Client); !ok {
			e.clients.dropped++
			return 0, false
		}
	}
	req.Client = e.clients.names[id]
	return id, true
}

func (e *engine) countDenial(v *hottype.Verdict, client uint32, known bool) {
	e.totals.Denied[v.Reason]++
	if known {
		e.clients.rows[client].denied++
	}
	if v.Reason.Info().OfClient {
		return
	}
	if id, ok := e.keys.ids[string(v.Key)]; ok {
		e.keys.rows[id].denied++
	}
}

// cadence is the interval at which keys are judged, as an aggregator ticks and a tally flushes its counts. It divides a
// second.
const cadence = 100 * time.Millisecond

// maxCooling bounds the time that finish advances for keys to cool.
const maxCooling = 7 * 24 * time.Hour

// tickState records when keys were last judged, and whether they have to be judged again.
type tickState struct {
	ticked    time.Time // the last tick
	added     time.Time // the first count since then, or since no key was a candidate; zero if there is no such count
	published int64     // the second of the last publication
}

// evaluateUntil evaluates keys ten times a second, at whole tenths, up to now. It skips the tenths at which nothing can
// have changed: the tenths before the next count, the next second and the end of any cooling, and all tenths while no
// key is near its threshold. So a quiet log costs next to nothing.
func (e *engine) evaluateUntil(now time.Time) {
	if now.Before(tenthAfter(e.ticked)) {
		return
	}
	for {
		at, ok := e.nextTick()
		if !ok || at.After(now) {
			return
		}
		e.tickDetector(at)
	}
}

// nextTick returns the next tenth at which keys have to be judged if nothing is counted before. It returns false if
// there is no such tenth.
func (e *engine) nextTick() (at time.Time, ok bool) {
	due, ok := e.detector.NextChange()
	if !ok {
		e.added = time.Time{} // the counts since then made no key a candidate
		return due, false
	}
	at = tenthAfter(due.Add(-1))
	if next := tenthAfter(e.added); !e.added.IsZero() && next.Before(at) {
		at = next
	}
	return at.UTC(), true
}

// tenthAfter returns the first whole tenth of a second that is later than t.
func tenthAfter(t time.Time) time.Time { return t.Truncate(cadence).Add(cadence) }

// tickDetector runs the detector and publishes the hot set as an aggregator does: if the set has changed, and otherwise
// once a second, before the set expires.
func (e *engine) tickDetector(now time.Time) {
	set, changes := e.detector.Tick(now)
	e.ticked, e.added = now, time.Time{}
	if len(changes) > 0 || e.published != now.Unix() {
		e.published = now.Unix()
		e.version++
		set.Version = e.version
		e.hotSet.Replace(publisher, set)
	}
	for _, c := range changes {
		e.spans.applyChange(c)
		e.loops.applyChange(c)
	}
}

// finish advances time until no key is hot, and returns all spans.
func (e *engine) finish() (hot, loops []Span) {
	end := time.Unix(e.last+1, 0)
	e.evaluateUntil(end.Add(maxCooling))
	if end.Before(e.ticked) {
		end = e.ticked
	}
	return e.spans.closeAll(end.Unix()), e.loops.closeAll(end.Unix())
}
