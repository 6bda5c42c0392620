package gate

import (
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/adaptive"
	"github.com/hotparam/pipeline/internal/deciding/fairness"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/rules"
)

// decision is one decision under way: everything it needs, so that a pooled one
// decides without allocating. It belongs to one goroutine at a time.
type decision struct {
	st     *state
	now    time.Time
	req    *hottype.Request
	client hottype.Client // of req, as ip.ipv6_prefix has it

	scratch rules.Scratch
	matches []rules.Match // alias scratch
	keys    []requestKey  // one per match
	alias   []byte

	step  step
	cost  int64
	until *deadline // of all calls to the shared store; nil before the first

	// The charges, by the store that judges them. Those of failed could not be judged
	// by theirs; fallback holds this process's shares of them, which Local judges.
	local, async, shared      group
	failed, fallback          group
	shadowLocal, shadowShared group
	candidates, tried         group

	permits []permit // of the call to the shared store under way
	blamed  *breaker // for the last one; nil: all that were asked

	places []place        // of requests in flight
	lease  *hottype.Lease // what is held of them; nil: nothing

	upstream *adaptive.Upstream // of the request; nil: no limit follows it

	asks       bool // there are charges or places: somebody has to be asked
	compares   bool // some key has a candidate limit
	divided    bool // some key is divided among clients
	refunds    bool // some key gives back what a request took
	prefetched bool // the charges of shared were paid from what had been charged ahead
	reached    bool // what is said about its client let the request come as far as its keys

	counters *shard
	ticks    uint32 // of requests for hot keys; stays when it is reset
}

// requestKey is what the gate knows of one key of the request.
type requestKey struct {
	name   hottype.Key       // "" where nobody had it ready as a string
	reason hottype.Reason    // why an admitted request passed this key
	h      *keyLimit         // nil: nothing limits it
	counts *hotset.Decisions // nil: not counted
	fair   *fairShare        // nil: the key is not charged, or not divided
	share  fairness.Answer
}

// count counts a decision on the key.
func (k *requestKey) count(allowed bool) {
	if k.counts == nil {
		return
	}
	if k.h != nil && k.h.met != nil {
		k.h.met.Add(1)
	}
	if allowed {
		k.counts.Allowed.Add(1)
	} else {
		k.counts.Denied.Add(1)
	}
}

// group is charges that one store takes together. The slices are parallel and not one
// slice of structs, because a store's Take wants charges and results as they are here.
type group struct {
	charges []limit.Charge
	results []limit.Result
	meta    []meta
}

// meta is what a charge means to the verdict.
type meta struct {
	*term
	key     int      // index into decision.keys, -1 for a limit of no key
	denials *denials // nil: refusals are not remembered
	refunds uint64   // of denials, before the store is asked
}

// add adds a charge, to be filled in where it stands: it is large.
func (gr *group) add(m meta) *limit.Charge {
	n := len(gr.charges)
	gr.charges = slices.Grow(gr.charges, 1)[:n+1] // zero, as cut leaves it
	gr.results = append(gr.results, limit.Result{})
	gr.meta = append(gr.meta, m)
	return &gr.charges[n]
}

func (gr *group) empty() bool { return len(gr.charges) == 0 }

// from is the charges from the i-th on.
func (gr *group) from(i int) group {
	return group{gr.charges[i:], gr.results[i:], gr.meta[i:]}
}

// cut keeps the first n charges and lets go of the strings in the others.
func (gr *group) cut(n int) {
	clear(gr.charges[n:])
	clear(gr.meta[n:])
	gr.charges, gr.results, gr.meta = gr.charges[:n], gr.results[:n], gr.meta[:n]
}

// move moves the charges that match to another group and keeps the order of both.
func (gr *group) move(to *group, match func(*limit.Charge) bool) {
	kept := 0
	for i := range gr.charges {
		if match(&gr.charges[i]) {
			*to.add(gr.meta[i]) = gr.charges[i]
			continue
		}
		gr.charges[kept], gr.meta[kept] = gr.charges[i], gr.meta[i]
		kept++
	}
	gr.cut(kept)
}

// reset makes the decision ready for the pool: it holds on to nothing of a request.
func (d *decision) reset() {
	d.st, d.req, d.matches, d.step = nil, nil, nil, whole
	d.client, d.upstream = hottype.Client{}, nil
	clear(d.keys)
	d.keys = d.keys[:0]
	d.until, d.blamed, d.prefetched, d.reached = nil, nil, false, false
	if !d.asks {
		return
	}
	clear(d.places)
	d.places, d.lease = d.places[:0], nil
	d.asks, d.compares, d.divided, d.refunds = false, false, false, false
	for _, gr := range []*group{
		&d.local, &d.async, &d.shared, &d.failed, &d.fallback, &d.shadowLocal, &d.shadowShared, &d.candidates, &d.tried,
	} {
		if !gr.empty() {
			gr.cut(0)
		}
	}
}

// chargeClient adds a per-IP window.
func (d *decision) chargeClient(w *clientLimit) {
	c := d.charge(meta{term: &w.term, key: -1}, &w.spec)
	c.Subject.Space, c.Subject.Client = w.space, d.client
}

// chargeKey adds the limit of key i, if it has one.
func (d *decision) chargeKey(i int) {
	h := d.keys[i].h
	if h != nil && h.inFlight != nil && d.req.Holds {
		d.place(h.inFlight, i)
	}
	if h == nil || !h.limited {
		return
	}
	if d.req.Holds && d.adapts(i) && h.adaptive.places != nil {
		d.place(h.adaptive.places, i)
	}
	m := meta{term: &h.term, key: i}
	if h.single {
		m.denials, m.refunds = &h.denials, h.denials.refunds.Load()
	}
	d.keys[i].fair, d.divided = h.fair, d.divided || h.fair != nil
	d.refunds, d.compares = d.refunds || h.refund != nil, d.compares || h.candidate != nil
	c := d.charge(m, &h.spec)
	c.Subject.Space, c.Subject.Name = spaceHot, string(d.name(i))
}

// place adds a place of requests in flight, for a key or for the client (-1).
func (d *decision) place(f *inFlight, key int) {
	d.places, d.asks = append(d.places, place{f, key}), true
}

// charge adds a charge where it belongs. Its subject is still to be filled in.
func (d *decision) charge(m meta, spec *limit.Spec) *limit.Charge {
	d.asks = true
	c := d.group(m.term).add(m)
	c.Spec, c.Cost = *spec, d.cost
	return c
}

// group is where a charge of a term belongs.
func (d *decision) group(t *term) *group {
	switch {
	case t.shadow && t.shared:
		return &d.shadowShared
	case t.shadow:
		return &d.shadowLocal
	case t.shared:
		return &d.shared
	case t.async:
		return &d.async
	}
	return &d.local
}

// name is the key of a match as a string. It allocates where neither a hot
// entry nor an override had one ready.
func (d *decision) name(i int) hottype.Key {
	k := &d.keys[i]
	if k.name == "" {
		k.name = hottype.Key(d.matches[i].Key)
	}
	return k.name
}
