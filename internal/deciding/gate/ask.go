package gate

import (
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/rules"
)

// ask is one decision under way: everything it needs, so that a pooled one
// decides without allocating. It belongs to one goroutine at a time.
type ask struct {
	st  *state
	now time.Time
	req *hottype.Request

	scratch rules.Scratch
	matches []rules.Match // alias scratch
	keys    []keyed       // one per match
	alias   []byte

	cost  int64
	until *deadline // of all calls to the shared store; nil before the first

	// The charges, by who keeps them; out are those that the shared store cannot
	// judge now, and fallback stands in for them.
	local, shared, out        group
	async, fallback, noted    group
	shadowLocal, shadowShared group
	candidates                group
	hasCandidate              bool // some key has a candidate limits

	passes []pass // of the call to the shared store under way
	blamed *part  // for the last one; nil: all that was asked

	counters *shard
}

// keyed is what the gate knows of one key of the request.
type keyed struct {
	name            hottype.Key    // "" where nobody had it ready as a string
	reason          hottype.Reason // why an admitted request passed this key
	h               *holding       // nil: nothing holds for it
	allowed, denied *atomic.Uint64 // nil: not counted
}

// count counts a decision on the key.
func (k *keyed) count(allowed bool) {
	switch {
	case k.allowed == nil:
	case allowed:
		k.allowed.Add(1)
	default:
		k.denied.Add(1)
	}
}

// group is charges that one store takes together; the slices are parallel.
type group struct {
	charges []limit.Charge
	results []limit.Result
	meta    []meta
}

// meta is what a charge means to the verdict.
type meta struct {
	*term
	key     int    // index into ask.keys, -1 for a per-IP window
	refunds uint64 // of the key's limit, before the store is asked
}

func (gr *group) add(c limit.Charge, m meta) {
	gr.charges = append(gr.charges, c)
	gr.results = append(gr.results, limit.Result{})
	gr.meta = append(gr.meta, m)
}

func (gr *group) empty() bool { return len(gr.charges) == 0 }

// from is the charges from the i-th on.
func (gr *group) from(i int) group {
	return group{gr.charges[i:], gr.results[i:], gr.meta[i:]}
}

// cut forgets them.
func (gr *group) cut(i int) {
	rest := gr.from(i)
	rest.reset()
	gr.charges, gr.results, gr.meta = gr.charges[:i], gr.results[:i], gr.meta[:i]
}

// reset forgets the charges and lets go of the strings in them.
func (gr *group) reset() {
	if gr.empty() {
		return
	}
	clear(gr.charges)
	clear(gr.meta)
	gr.charges, gr.results, gr.meta = gr.charges[:0], gr.results[:0], gr.meta[:0]
}

// reset makes the ask ready for the pool: it holds on to nothing of a request.
func (a *ask) reset() {
	a.st, a.req, a.matches = nil, nil, nil
	clear(a.keys)
	a.keys, a.alias = a.keys[:0], a.alias[:0]
	a.until, a.blamed = nil, nil
	a.local.reset()
	a.shared.reset()
	a.out.reset()
	a.async.reset()
	a.fallback.reset()
	a.noted.reset()
	a.shadowLocal.reset()
	a.shadowShared.reset()
	a.candidates.reset()
	a.hasCandidate = false
}

// chargeClient adds a per-IP window.
func (a *ask) chargeClient(w *clientLimit) {
	if w == nil {
		return
	}
	a.group(&w.term).add(limit.Charge{
		Subject: limit.Subject{Space: w.space, Client: a.req.Client},
		Spec:    w.spec, Cost: a.cost,
	}, meta{term: &w.term, key: -1})
}

// chargeKey adds the limit that holds for key i, if any.
func (a *ask) chargeKey(i int) {
	h := a.keys[i].h
	if h == nil || !h.limited {
		return
	}
	a.hasCandidate = a.hasCandidate || h.candidate != nil
	a.group(&h.term).add(limit.Charge{
		Subject: limit.Subject{Space: spaceHot, Name: string(a.name(i))},
		Spec:    h.spec, Cost: a.cost,
	}, meta{term: &h.term, key: i, refunds: h.denials.refunds.Load()})
}

// group is where a charge of a term belongs.
func (a *ask) group(t *term) *group {
	switch {
	case t.shadow && t.shared:
		return &a.shadowShared
	case t.shadow:
		return &a.shadowLocal
	case t.shared:
		return &a.shared
	case t.async:
		return &a.async
	}
	return &a.local
}

// name is the key of a match as a string. It allocates where neither a hot
// entry nor an override had one ready.
func (a *ask) name(i int) hottype.Key {
	k := &a.keys[i]
	if k.name == "" {
		k.name = hottype.Key(a.matches[i].Key)
	}
	return k.name
}
