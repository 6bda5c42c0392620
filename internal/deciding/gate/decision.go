package gate

import (
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/adaptive"
	"github.com/hotparam/pipeline/internal/deciding/fairness"
	"github.com/hotparam/pipeline/internal/deciding/guarded"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/rules"
)

// decision is one decision in progress. It holds everything that it needs, so that a pooled decision decides without
// allocating. It belongs to one goroutine at a time.
type decision struct {
	g        *Gate
	counters *shard
	ticks    uint32 // of requests for hot keys, for samples

	requestState

	scratch rules.MemoScratch
	matches []rules.Match // of scratch, or of state.memo; must not be changed
	keys    []requestKey  // one for each match
	// perClient holds the windows of the client for the requests of the matched rules.
	perClient []*ruleWindows
	alias     []byte

	// The charges, by the store that takes them. fallback holds this process's shares of the charges whose store
	// failed; the local store takes them. watched holds the charges of limits that only count.
	local, async, shared, fallback, watched chargeGroup

	proof proof         // of the classes of the client; only if hasPlaces
	slots []slotRequest // of requests in flight
	call  guarded.Call  // of the shared store
}

// requestState is the part of a decision that belongs to its request and is cleared after it.
type requestState struct {
	st     *state
	now    time.Time
	req    *hottype.Request
	client hottype.Client // of req, as ip.ipv6_prefix defines it
	cost   int64

	releases      bool // the caller releases the lease and reports the status of the response
	clientCharged bool // the limits of the client were charged by another request

	// A response cache decides in two steps. In the first one mayCache is set, and if the cache may
	// answer, only limits of the client are charged; in the second one keysOnly is set.
	mayCache, keysOnly bool

	class    *class             // of the client
	override clientOverride     // of the client
	upstream *adaptive.Upstream // nil if no limit follows it
	blocked  int                // index+1 of the first key that is blocked, or 0
	lease    *verdict.Lease     // of the slots that were acquired, or nil
	// wouldDeny is the result of the limit in shadow mode that would have denied first, or nil if that is not a limit.
	wouldDeny *limit.Result

	tooManyRules  bool // the request matches more rules with windows of clients than are charged: it is denied
	longPath      bool // the path is beyond the bounds: the request has no keys, and is denied
	exemptAddress bool // ip.exempt contains the client's address
	exempt        bool // a rule exempts the request: all its keys under that rule are exempt
	withoutKeys   bool // the verdict is because of the client or the cost: the request does not reach its keys
	charged       bool // some limit applies
	reported      bool // the verdict has the numbers of some limit

	hasFair   bool // some key has a fair limit
	hasRefund bool // some key refunds by the status of the response
	hasPlaces bool // the limit of some key has priority
}

type requestKey struct {
	name   hottype.Key       // "" while it is not known as a string
	reason hottype.Reason    // of an allowed request that passes this key
	h      *keyLimit         // nil if nothing limits the key
	counts *hotset.Decisions // nil if not counted
	denied bool              // a limit of this key denied
	// wouldDeny is true if a limit of this key in shadow mode would have denied.
	wouldDeny bool
	fair      *fairShare // nil if the key is not charged, or not fair
	share     fairness.Result
}

func (k *requestKey) countDecision(allowed bool) {
	if k.counts == nil {
		return
	}
	if k.h != nil && k.h.hits != nil {
		k.h.hits.Add(1)
	}
	k.counts.Count(allowed, 1)
	if allowed && k.wouldDeny {
		k.counts.WouldDeny.Add(1)
	}
}

// chargeGroup holds charges that one store takes together. The slices are parallel instead of one slice of structs,
// because a store's Take needs charges and results in this form.
type chargeGroup struct {
	charges []limit.Charge
	results []limit.Result
	meta    []chargeMeta
	taken   bool // the store has taken all of them
}

// chargeMeta holds the meaning of a charge for the verdict.
type chargeMeta struct {
	*boundLimit
	key    int    // index into decision.keys, -1 for a limit of the client
	memory memory // of denials
}

// add adds a charge, which the caller fills in because it is too large to be copied.
func (gr *chargeGroup) add(m chargeMeta) *limit.Charge {
	n := len(gr.charges)
	gr.charges = slices.Grow(gr.charges, 1)[:n+1] // zero, as truncateTo leaves it
	gr.results = append(gr.results, limit.Result{})
	gr.meta = append(gr.meta, m)
	return &gr.charges[n]
}

func (gr *chargeGroup) isEmpty() bool { return len(gr.charges) == 0 }

// truncateTo keeps the first n charges and clears the others, so that their strings are not retained.
func (gr *chargeGroup) truncateTo(n int) {
	clear(gr.charges[n:])
	clear(gr.meta[n:])
	gr.charges, gr.results, gr.meta = gr.charges[:n], gr.results[:n], gr.meta[:n]
}

// reset prepares the decision for the pool: it retains no memory of a request.
func (d *decision) reset() {
	charged := d.charged
	if d.hasPlaces {
		d.proof = proof{}
	}
	d.requestState = requestState{}
	clear(d.keys)
	d.matches, d.keys = nil, d.keys[:0]
	if len(d.perClient) > 0 {
		clear(d.perClient)
		d.perClient = d.perClient[:0]
	}
	if !charged {
		return
	}
	d.call.Reset()
	clear(d.slots)
	d.slots = d.slots[:0]
	for _, gr := range []*chargeGroup{&d.local, &d.async, &d.shared, &d.fallback, &d.watched} {
		if gr.taken = false; !gr.isEmpty() {
			gr.truncateTo(0)
		}
	}
}

// addCharge adds a charge of a key, or of the client if key is -1, to the group of the store that keeps the limit. With
// shadow it goes to the charges that only count (watch.go).
func (d *decision) addCharge(b *boundLimit, key int, shadow bool) *limit.Charge {
	gr := &d.local
	switch {
	case shadow || b.shadow:
		gr = &d.watched
	case b.shared:
		gr = &d.shared
	case b.async:
		gr = &d.async
	}
	d.charged = true
	c := gr.add(chargeMeta{boundLimit: b, key: key})
	c.Spec, c.Cost, c.Subject.Space = b.spec, b.costBefore(d.cost), b.space
	if gr == &d.watched && (b.shared || b.async) {
		c.Spec = fallbackSpec(b.spec, d.g.processCount())
	}
	if key >= 0 {
		c.Subject.Name = string(d.keyName(key))
	} else {
		c.Subject.Client = d.client
		if b.name != "" {
			c.Subject.Name = b.name
		}
	}
	return c
}

// chargeKeys adds the limits of the request's keys.
func (d *decision) chargeKeys() {
	for i := range d.keys {
		if k := &d.keys[i]; k.h != nil {
			d.chargeKey(i, k)
		}
	}
}

func (d *decision) chargeKey(i int, k *requestKey) {
	h := k.h
	if f := h.inFlight; f != nil && d.releases {
		if f.Limit == 0 {
			f = d.g.boundByMean(f, d.matches[i], &h.limit)
		}
		d.needSlot(f, i)
	}
	if !h.limited {
		return
	}
	if d.releases && d.followsUpstream(i) && h.adaptive.slots != nil {
		d.needSlot(h.adaptive.slots, i)
	}
	k.fair, d.hasFair = h.fair, d.hasFair || h.fair != nil
	d.hasRefund = d.hasRefund || h.refund != nil
	d.addCharge(&h.limit, i, false)
}

// needSlot adds a slot of requests in flight, of a key or of the client if key is -1.
func (d *decision) needSlot(f *inFlight, key int) {
	d.slots, d.charged = append(d.slots, slotRequest{inFlight: f, key: key}), true
}

// keyName returns the key of a match as a string. It allocates if neither a hot entry nor an override has the string.
func (d *decision) keyName(i int) hottype.Key {
	k := &d.keys[i]
	if k.name == "" {
		k.name = hottype.Key(d.matches[i].Key)
	}
	return k.name
}

// timeUntil returns the wait of a request that is blocked until time t, or hottype.Never if t is unset.
func (d *decision) timeUntil(t time.Time) time.Duration {
	if t.IsZero() {
		return hottype.Never
	}
	return t.Sub(d.now)
}
