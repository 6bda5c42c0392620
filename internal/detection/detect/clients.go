package detect

import (
	"math"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/clientsketch"
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

// sketchBudget bounds the client sketches that all rules of a Detector keep.
type sketchBudget struct {
	free int
	// refused counts client sketches of keys that found no place: such a key is judged
	// by its rate alone.
	refused uint64
}

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

// sketchRing are the client sketches of one key, in a ring.
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
}

func (p *sketchSlot) empty() bool { return p.sketch.Attributed == 0 && p.anonymous == 0 }

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
	if !named && !cs.anonymous {
		return
	}
	p := cs.keys[c.Key]
	if p == nil {
		if !near {
			return
		}
		if cs.budget.free <= 0 {
			cs.budget.refused++
			return
		}
		cs.budget.free--
		p = &sketchRing{last: c.Second, ring: make([]sketchSlot, (cs.window+cs.grain-1)/cs.grain+1)}
		cs.keys[hottype.Key(strings.Clone(string(c.Key)))] = p
	}
	p.last = max(p.last, c.Second)
	number := floor(c.Second, cs.grain)
	at := &p.ring[number-floor(number, int64(len(p.ring)))*int64(len(p.ring))]
	switch {
	case at.number > number && !at.empty():
		return // a count ahead of time has taken its place
	case at.number != number:
		clientsketch.Reset(&at.sketch)
		at.number, at.anonymous = number, 0
	}
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

// of returns the clients of a key in the window that ends with second now, and how
// many requests had no client; nil where nothing is kept of the key.
// It holds until the next call.
func (cs *clientSketches) of(key hottype.Key, now int64) (c *hottype.ClientSketch, unnamed int64) {
	p := cs.keys[key]
	if p == nil {
		return nil, 0
	}
	clientsketch.Reset(&cs.whole)
	for i := range p.ring {
		if n := p.ring[i].number; n >= floor(now-cs.window+1, cs.grain) && n <= floor(now, cs.grain) {
			clientsketch.Merge(&cs.whole, &p.ring[i].sketch)
			unnamed += p.ring[i].anonymous
		}
	}
	if unnamed = max(unnamed, 0); cs.whole.Attributed == 0 && unnamed == 0 {
		return nil, 0
	}
	return &cs.whole, unnamed
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

// clear forgets all keys.
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
	// follows, or nothing, for want of room: then everything counts.
	known bool
	// effective is what is left of the sum when no client counts for more than
	// its part of the threshold.
	effective int64
	clients   int64
	client    hottype.Client // the heaviest
	share     float64        // its part, 0 to 1
}

// knownFrom is which part of a sum must have been looked at for it to say
// anything about the whole: one in so many.
const knownFrom = 4

// judge estimates which clients ask for a key with a sum over the window, of a rule
// with such a threshold that wants at least so many clients (0: any number).
//
// A key is viral when it reaches its threshold although no client counts for
// more than threshold/minClients. That takes at least minClients clients, and many
// clients pass whatever a few loops add to them. Requests without a client count as
// those of one, so a sender that names no clients, a forger among them, makes nothing
// hot alone.
func (cs *clientSketches) judge(key hottype.Key, now, sum int64, threshold, minClients int64) clientEstimate {
	c, unnamed := cs.of(key, now)
	if c == nil {
		return clientEstimate{effective: sum}
	}
	kept := c.Attributed + unnamed
	p := clientEstimate{known: kept >= sum/knownFrom, effective: sum, clients: clientsketch.Clients(c)}
	p.client, p.share = clientsketch.Heaviest(c)
	p.share *= float64(c.Attributed) / float64(kept)
	if p.known && minClients > 1 {
		most := max(1, threshold/minClients)
		nobodys := int64(math.Round(float64(sum) * float64(unnamed) / float64(kept)))
		p.effective = clientsketch.CappedCount(c, sum-nobodys, most) + min(nobodys, most)
	}
	return p
}

// describe writes what is known of the clients into a hot key.
func (p *clientEstimate) describe(h *hottype.HotKey) {
	h.Clients = p.clients
	if !p.client.IsZero() {
		h.Client, h.ClientShare = p.client.String(), p.share
	}
}
