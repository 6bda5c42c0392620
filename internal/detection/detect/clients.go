package detect

import (
	"math"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/clientsketch"
	"github.com/hotparam/pipeline/internal/counting/origins"
)

const (
	// sketchSlots is in how many parts a window's client sketch is kept at most. A
	// longer window has coarser parts: its oldest part leaves late, by at most
	// an eighth of the window.
	sketchSlots = 8
	// sketchFrom is the part of its threshold from which on a key's client sketch is
	// kept. What came before is not seen, and taken to be like what came after.
	sketchFrom = 4
)

// clientSketches keeps who stands behind the keys of one rule that are near its
// threshold or over it, over the rule's window. Not for concurrent use.
//
// A key's clients are kept as a few sketches of consecutive seconds, merged when they are
// read: what has left the window leaves as a whole, because a sketch cannot
// forget a part of itself.
type clientSketches struct {
	budget *sketchBudget
	// anonymous says that requests without a client are kept too:
	// they are judged as those of one client.
	anonymous bool
	window    int64 // seconds
	grain     int64 // seconds of one part
	keys      map[hottype.Key]*sketchRing
	whole     hottype.ClientSketch // of the last question
}

type sketchRing struct {
	last int64 // the newest second of all
	ring []sketchSlot
}

// sketchSlot is who asked in some seconds: those of which second / grain is number.
type sketchSlot struct {
	number int64
	sketch hottype.ClientSketch
	// anonymous counts the requests without a client. It is below 0 while
	// a sender's summary has come before the count that it belongs to.
	anonymous int64
	requests  int64
	// Where most of the requests come from.
	network, sender hottype.Origin
}

func newClientSketches(window int64, b *sketchBudget) *clientSketches {
	window = max(window, 1)
	return &clientSketches{
		budget: b, window: window, grain: (window + sketchSlots - 1) / sketchSlots,
		keys: make(map[hottype.Key]*sketchRing),
	}
}

// add takes the client sketch of a count that its window has taken, when the key's sum
// is near the threshold or was so a moment ago. Nothing of who is kept.
func (cs *clientSketches) add(c *hottype.Count, near bool) {
	named := c.Clients != nil && c.Clients.Attributed > 0
	if !named && !cs.anonymous && c.Origin.N == 0 {
		return
	}
	p := cs.keys[c.Key]
	if p == nil {
		if !near {
			return
		}
		if cs.budget.free <= 0 {
			cs.budget.evict()
		}
		cs.budget.free--
		p = &sketchRing{last: c.Second, ring: make([]sketchSlot, (cs.window+cs.grain-1)/cs.grain+1)}
		cs.keys[hottype.Key(strings.Clone(string(c.Key)))] = p
	}
	p.last = max(p.last, c.Second)
	number := floor(c.Second, cs.grain)
	at := &p.ring[number-floor(number, int64(len(p.ring)))*int64(len(p.ring))]
	switch {
	case at.number > number && (at.sketch.Attributed != 0 || at.requests != 0):
		return // a count ahead of time has taken its place
	case at.number != number:
		clientsketch.Reset(&at.sketch)
		*at = sketchSlot{number: number, sketch: at.sketch}
	}
	at.requests += c.N
	network, sender := origins.Of(c)
	at.network.Add(network.Tag, network.N)
	at.sender.Add(sender.Tag, sender.N)
	if cs.anonymous {
		at.anonymous += c.N
	}
	if named {
		clientsketch.Merge(&at.sketch, c.Clients)
		if cs.anonymous {
			at.anonymous -= c.Clients.Attributed
		}
	}
}

type asked struct {
	clients *hottype.ClientSketch // holds until the next question
	unnamed int64                 // requests without a client
	// All requests that were looked at, and where most of them come from.
	requests        int64
	network, sender hottype.Origin
}

func (a *asked) add(at *sketchSlot) {
	a.requests += at.requests
	a.network.Add(at.network.Tag, at.network.N)
	a.sender.Add(at.sender.Tag, at.sender.N)
}

// of returns what is known of a key in the window that ends with second now; false if nothing is.
func (cs *clientSketches) of(key hottype.Key, now int64) (a asked, ok bool) {
	clientsketch.Reset(&cs.whole)
	a.clients = &cs.whole
	cs.each(key, now, func(at *sketchSlot) {
		clientsketch.Merge(&cs.whole, &at.sketch)
		a.unnamed += at.anonymous
		a.add(at)
	})
	a.unnamed = max(a.unnamed, 0)
	return a, a.requests > 0
}

// origin is where the requests of a key with a sum come from. It costs less than judge.
func (cs *clientSketches) origin(key hottype.Key, now, sum int64) clientEstimate {
	var a asked
	cs.each(key, now, a.add)
	if a.requests == 0 || a.requests < sum/knownFrom {
		return clientEstimate{network: hottype.Origin{Tag: unknownNetwork, N: sum}}
	}
	return clientEstimate{network: a.partOf(a.network, sum), sender: a.partOf(a.sender, sum)}
}

// each calls f with the parts of a key that are in the window that ends with second now.
func (cs *clientSketches) each(key hottype.Key, now int64, f func(*sketchSlot)) {
	p := cs.keys[key]
	if p == nil {
		return
	}
	for i := range p.ring {
		if n := p.ring[i].number; n >= floor(now-cs.window+1, cs.grain) && n <= floor(now, cs.grain) {
			f(&p.ring[i])
		}
	}
}

// advance forgets the keys of which the window that ends with now has nothing.
func (cs *clientSketches) advance(now int64) {
	for key, p := range cs.keys {
		if p.last <= now-cs.window-cs.grain {
			delete(cs.keys, key)
			cs.budget.free++
		}
	}
}

func (cs *clientSketches) clear() {
	cs.budget.free += len(cs.keys)
	clear(cs.keys)
}

// floor is a/b, rounded down also for seconds before 1970.
func floor(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// clientEstimate is what a client sketch says about a key with a sum over its window.
type clientEstimate struct {
	// known is false where so little of the sum was looked at that nothing
	// follows, or nothing, for want of room: then all of it counts as one client's.
	known bool
	// effective is what is left of the sum when no client counts for more than
	// its part of the threshold.
	effective int64
	clients   int64          // 0: not known
	client    hottype.Client // the heaviest
	share     float64        // its part, 0 to 1
	// Where most of the sum comes from. Keys of which nothing is known have one network in common.
	network, sender hottype.Origin
}

// knownFrom is which part of a sum must have been looked at for it to say
// anything about the whole: one in so many.
const knownFrom = 4

// unknownNetwork is a tag that no network has.
const unknownNetwork = 1

// judge estimates which clients ask for a key with a sum over the window, of a rule
// with such a threshold that wants at least so many clients (0: any number).
//
// A key is viral when it reaches its threshold although no client counts for
// more than threshold/minClients. That takes at least minClients clients, and many
// clients pass whatever a few loops add to them. Requests without a client count as
// those of one, so a sender that names no clients, a forger among them, makes nothing
// hot alone. So do keys of which nothing is known: else a client that fills the room for
// sketches would be taken for many.
func (cs *clientSketches) judge(key hottype.Key, now, sum int64, threshold, minClients int64) clientEstimate {
	most := max(1, float64(threshold)/float64(max(minClients, 1)))
	p := cs.origin(key, now, sum)
	if p.effective = sum; cs.anonymous {
		p.effective = min(sum, int64(most))
	}
	a, _ := cs.of(key, now)
	kept := a.clients.Attributed + a.unnamed
	if kept == 0 {
		return p
	}
	p.known, p.clients = kept >= sum/knownFrom, clientsketch.Clients(a.clients)
	p.client, p.share = clientsketch.Heaviest(a.clients)
	p.share *= float64(a.clients.Attributed) / float64(kept)
	if p.known && cs.anonymous {
		unnamed := int64(math.Round(float64(sum) * float64(a.unnamed) / float64(kept)))
		p.effective = clientsketch.CappedCount(a.clients, sum-unnamed, most) + min(unnamed, int64(most))
	}
	return p
}

// partOf is the part of a sum that comes from an origin, if what was not looked at is like what was.
func (a *asked) partOf(o hottype.Origin, sum int64) hottype.Origin {
	o.N = int64(math.Ceil(float64(sum) * min(1, float64(o.N)/float64(a.requests))))
	return o
}

func (p *clientEstimate) claim(weight float64, sum int64, index int) origins.Claim {
	part := func(o hottype.Origin) hottype.Origin {
		o.N = int64(math.Ceil(weight * float64(o.N) / float64(max(sum, 1))))
		return o
	}
	return origins.Claim{Weight: weight, Network: part(p.network), Sender: part(p.sender), Index: index}
}
