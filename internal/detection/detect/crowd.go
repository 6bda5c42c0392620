package detect

import (
	"math"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/clientsketch"
)

const (
	// crowdSlots is in how many parts a window's crowd is kept at most. A
	// longer window has coarser parts: its oldest part leaves late, by at most
	// an eighth of the window.
	crowdSlots = 8
	// crowdFrom is the part of its threshold from which on a key's crowd is
	// kept. What came before is not seen, and taken to be like what came after.
	crowdFrom = 4
)

// budget bounds the crowds that all rules of a Detector keep.
type budget struct {
	free int
	// refused counts crowds of keys that found no place: such a key is judged
	// by its rate alone.
	refused uint64
}

// crowds keeps who stands behind the keys of one rule that are near its
// threshold or over it, over the rule's window. Not for concurrent use.
//
// A key's crowd is a few crowds of consecutive seconds, merged when somebody
// asks: what has left the window leaves as a whole, because a sketch cannot
// forget a part of itself.
type crowds struct {
	budget *budget
	// anonymous says that requests which nobody lays to a client are kept too:
	// they are judged as those of one client.
	anonymous bool
	window    int64 // seconds
	grain     int64 // seconds of one part
	keys      map[hottype.Key]*parts
	whole     hottype.Crowd // of the last question
}

// parts are the crowds of one key, in a ring.
type parts struct {
	last int64 // the newest second of all
	ring []part
}

// part is who asked in some seconds: those of which second / grain is number.
type part struct {
	number int64
	crowd  hottype.Crowd
	// unnamed are the requests that nobody laid to a client. It is below 0 while
	// a sender's summary has come before the count that it belongs to.
	unnamed int64
}

func (p *part) empty() bool { return p.crowd.Seen == 0 && p.unnamed == 0 }

func newCrowds(window int64, b *budget) *crowds {
	window = max(window, 1)
	return &crowds{
		budget: b, window: window, grain: (window + crowdSlots - 1) / crowdSlots,
		keys: make(map[hottype.Key]*parts),
	}
}

// add takes the crowd of a count that its window has taken, when the key's sum
// is near the threshold or was so a moment ago. Nothing of who is kept.
func (cs *crowds) add(c *hottype.Count, near bool) {
	named := c.Crowd != nil && c.Crowd.Seen > 0
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
		p = &parts{last: c.Second, ring: make([]part, (cs.window+cs.grain-1)/cs.grain+1)}
		cs.keys[hottype.Key(strings.Clone(string(c.Key)))] = p
	}
	p.last = max(p.last, c.Second)
	number := floor(c.Second, cs.grain)
	at := &p.ring[number-floor(number, int64(len(p.ring)))*int64(len(p.ring))]
	switch {
	case at.number > number && !at.empty():
		return // a count ahead of time has taken its place
	case at.number != number:
		clientsketch.Reset(&at.crowd)
		at.number, at.unnamed = number, 0
	}
	if cs.anonymous {
		at.unnamed += c.N
	}
	if named {
		clientsketch.Merge(&at.crowd, c.Crowd)
		if cs.anonymous {
			at.unnamed -= c.Crowd.Seen
		}
	}
}

// of is who asked for a key in the window that ends with second now, and how
// many requests nobody laid to a client; nil where nothing is kept of the key.
// It holds until the next call.
func (cs *crowds) of(key hottype.Key, now int64) (c *hottype.Crowd, unnamed int64) {
	p := cs.keys[key]
	if p == nil {
		return nil, 0
	}
	clientsketch.Reset(&cs.whole)
	for i := range p.ring {
		if n := p.ring[i].number; n >= floor(now-cs.window+1, cs.grain) && n <= floor(now, cs.grain) {
			clientsketch.Merge(&cs.whole, &p.ring[i].crowd)
			unnamed += p.ring[i].unnamed
		}
	}
	if unnamed = max(unnamed, 0); cs.whole.Seen == 0 && unnamed == 0 {
		return nil, 0
	}
	return &cs.whole, unnamed
}

// turn forgets the keys of which the window that ends with now has nothing.
func (cs *crowds) turn(now int64) {
	for key, p := range cs.keys {
		if p.last <= now-cs.window-cs.grain {
			delete(cs.keys, key)
			cs.budget.free++
		}
	}
}

// clear forgets all keys.
func (cs *crowds) clear() {
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

// party is what a crowd says about a key with a sum over its window.
type party struct {
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

// judge says who stands behind a key with a sum over the window, of a rule with
// such a threshold that wants at least so many clients (0: any number).
//
// A key is viral when it reaches its threshold although no client counts for
// more than threshold/minClients. That takes at least minClients clients, and a
// crowd passes whatever a few loops add to it. Requests that nobody laid to a
// client count as those of one: who sends counts without saying who asks, a
// forger among them, makes nothing hot alone.
func (cs *crowds) judge(key hottype.Key, now, sum int64, threshold, minClients int64) party {
	c, unnamed := cs.of(key, now)
	if c == nil {
		return party{effective: sum}
	}
	kept := c.Seen + unnamed
	p := party{known: kept >= sum/knownFrom, effective: sum, clients: clientsketch.Clients(c)}
	p.client, p.share = clientsketch.Heaviest(c)
	p.share *= float64(c.Seen) / float64(kept)
	if p.known && minClients > 1 {
		most := max(1, threshold/minClients)
		nobodys := int64(math.Round(float64(sum) * float64(unnamed) / float64(kept)))
		p.effective = clientsketch.Effective(c, sum-nobodys, most) + min(nobodys, most)
	}
	return p
}

// tell writes what is known of the clients into a hot key.
func (p *party) tell(h *hottype.Hot) {
	h.Clients = p.clients
	if !p.client.IsZero() {
		h.Client, h.ClientShare = p.client.String(), p.share
	}
}
