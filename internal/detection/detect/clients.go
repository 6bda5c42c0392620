package detect

import (
	"math"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/clientsketch"
	"github.com/hotparam/pipeline/internal/counting/origins"
)

const (
	// sketchSlots is the maximum number of parts in which a window's client sketch is kept. The parts of a longer
	// window cover more seconds: its oldest part leaves late, by at most an eighth of the window.
	sketchSlots = 8
	// sketchFrom sets the count from which a key's client sketch is kept: its threshold / sketchFrom. The clients of
	// earlier requests are not recorded, and assumed to be like later clients.
	sketchFrom = 4
)

// clientSketches records the clients of keys near or over the threshold of one rule, over the rule's window. Not for
// concurrent use.
//
// A key's clients are kept as a few sketches of consecutive seconds, which are merged when they are read. A sketch
// leaves the window as a whole, because it cannot forget a part of itself.
type clientSketches struct {
	budget *sketchBudget
	// anonymous is true if requests without a client are recorded too. They count as the requests of one client.
	anonymous bool
	window    int64 // seconds
	grain     int64 // seconds per part
	keys      map[hottype.Key]*sketchRing
	merged    hottype.ClientSketch // the clients that clientsOf returned last
}

type sketchRing struct {
	last int64 // the newest second recorded
	ring []sketchSlot
}

// sketchSlot holds the clients of the seconds for which second/grain equals number.
type sketchSlot struct {
	number int64
	sketch hottype.ClientSketch
	// anonymous is the number of requests without a client. It is below 0 while a sender's summary has come before the
	// count that it belongs to.
	anonymous int64
	requests  int64
	// network and sender are the origins of most of the requests.
	network, sender hottype.Origin
}

func newClientSketches(window int64, b *sketchBudget) *clientSketches {
	window = max(window, 1)
	return &clientSketches{
		budget: b, window: window, grain: (window + sketchSlots - 1) / sketchSlots,
		keys: make(map[hottype.Key]*sketchRing),
	}
}

// add records the client sketch of a count that the window has taken. A key is recorded from the time at which its sum
// is near the threshold. No memory of c is kept.
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
		return // the slot belongs to a later second already
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

type recordedClients struct {
	clients *hottype.ClientSketch // valid until clientsOf is called again
	unnamed int64                 // requests without a client
	// requests is the number of recorded requests; network and sender are the origins of most of them.
	requests        int64
	network, sender hottype.Origin
}

func (a *recordedClients) add(at *sketchSlot) {
	a.requests += at.requests
	a.network.Add(at.network.Tag, at.network.N)
	a.sender.Add(at.sender.Tag, at.sender.N)
}

// clientsOf returns the clients recorded for a key in the window that ends with second now, and false if there are
// none.
func (cs *clientSketches) clientsOf(key hottype.Key, now int64) (a recordedClients, ok bool) {
	clientsketch.Reset(&cs.merged)
	a.clients = &cs.merged
	cs.eachSlot(key, now, func(at *sketchSlot) {
		clientsketch.Merge(&cs.merged, &at.sketch)
		a.unnamed += at.anonymous
		a.add(at)
	})
	a.unnamed = max(a.unnamed, 0)
	return a, a.requests > 0
}

// originOf estimates the network and the sender behind the sum of a key. It costs less than estimateOf.
func (cs *clientSketches) originOf(key hottype.Key, now, sum int64) clientEstimate {
	var a recordedClients
	cs.eachSlot(key, now, a.add)
	if a.requests == 0 || a.requests < sum/knownFrom {
		return clientEstimate{network: hottype.Origin{Tag: unknownNetwork, N: sum}}
	}
	return clientEstimate{network: a.partOf(a.network, sum), sender: a.partOf(a.sender, sum)}
}

// eachSlot calls f with the parts of a key in the window that ends with second now.
func (cs *clientSketches) eachSlot(key hottype.Key, now int64, f func(*sketchSlot)) {
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

// advance removes the keys without a part in the window that ends with second now.
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

// floor returns a/b rounded down, also for seconds before 1970.
func floor(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// clientEstimate is an estimate of the clients behind the sum of a key, by its client sketch.
type clientEstimate struct {
	// known is false if too small a part of the sum was recorded, or no part, because there was no room. The whole sum
	// then counts as the requests of a single client.
	known bool
	// effective is the sum after each client is capped at its part of the threshold.
	effective int64
	clients   int64          // number of clients; 0 if unknown
	client    hottype.Client // the heaviest client
	share     float64        // its part, 0 to 1
	// network and sender are the origins of most of the sum. All keys without records share one network.
	network, sender hottype.Origin
}

// knownFrom sets the count that must be recorded for an estimate of a whole sum: the sum / knownFrom.
const knownFrom = 4

// unknownNetwork is a tag that no network has.
const unknownNetwork = 1

// estimateOf estimates the clients of a key by its sum over the window, the threshold of its rule and the rule's
// minimum number of clients (0: any number).
//
// A key has enough clients if it reaches its threshold although each client counts for at most threshold/minClients.
// That takes at least minClients clients, and many clients still pass if a few loops add requests to them. All requests
// without a client count as a single client, so that a sender that names no clients, such as a forger, makes no key hot
// alone. Keys without records count likewise: otherwise a client that fills the room for sketches would pass for many.
func (cs *clientSketches) estimateOf(key hottype.Key, now, sum int64, threshold, minClients int64) clientEstimate {
	most := max(1, float64(threshold)/float64(max(minClients, 1)))
	p := cs.originOf(key, now, sum)
	if p.effective = sum; cs.anonymous {
		p.effective = min(sum, int64(most))
	}
	a, _ := cs.clientsOf(key, now)
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

// partOf returns the origin o with its part of a sum, as if requests that were not recorded were like the recorded
// ones.
func (a *recordedClients) partOf(o hottype.Origin, sum int64) hottype.Origin {
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
