package statsd

import (
	"bytes"
	"net/netip"
	"sync"
	"time"

	"github.com/hotparam/pipeline/internal/counting/arrival"
)

const (
	// maxFlows is the maximum number of senders whose flows a Listener remembers.
	maxFlows = 1024
	// flowTTL is how long a sender is remembered without a heartbeat, and how long an address counts as shared by
	// several.
	flowTTL = 10 * time.Second
)

// flows holds the flows that all readers of a Listener received, of the senders that state the number of their lines.
// Readers write to it once a second for each sender.
type flows struct {
	mu     sync.Mutex // guards the fields below
	byID   map[string]seenFlow
	fullAt time.Time // when there was last no room for another
}

type seenFlow struct {
	arrival.Flow
	at time.Time
}

func (f *flows) storeFlow(id string, flow arrival.Flow, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.byID[id]; !known && len(f.byID) >= maxFlows {
		f.expire(now)
		if len(f.byID) >= maxFlows {
			f.fullAt = now
			return
		}
	}
	if f.byID == nil {
		f.byID = map[string]seenFlow{}
	}
	f.byID[id] = seenFlow{flow, now}
}

func (f *flows) expire(now time.Time) {
	for id, seen := range f.byID {
		if now.Sub(seen.at) > flowTTL {
			delete(f.byID, id)
		}
	}
}

// Received returns the flow of each sender that states the number of its lines, by the id of its socket. The list is
// not complete while there are more than 1024.
func (l *Listener) Received() (list map[string]arrival.Flow, complete bool) {
	f, now := &l.flows, l.cfg.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expire(now)
	list = make(map[string]arrival.Flow, len(f.byID))
	for id, seen := range f.byID {
		list[id] = seen.Flow
	}
	return list, now.Sub(f.fullAt) > flowTTL
}

// sender is an address from which heartbeats come.
type sender struct {
	lines    uint64 // received from it, as ownLineCount counts them
	id       string // of the last heartbeat
	at       time.Time
	first    uint64    // number of sent lines in the first heartbeat of the id
	base     uint64    // lines at that time
	sharedAt time.Time // when the id last changed
}

// readHeartbeat parses the number of lines that a sender has sent, and records the number that arrived. Heartbeats
// without an id, a gauge of 1, come from senders in other languages.
func (r *reader) readHeartbeat(value []byte) error {
	member, ok := bytes.CutSuffix(value, []byte("|s"))
	if !ok {
		return nil
	}
	id, flow, relayed, err := arrival.ParseHeartbeat(string(member))
	if err != nil {
		return err
	}
	now := r.cfg.Now()
	if !relayed {
		r.completeFlow(id, &flow, r.counters.ownLineCount()-r.linesBefore-1, now)
	}
	r.flows.storeFlow(id, flow, now)
	return nil
}

// completeFlow completes the flow of a heartbeat. before is the number of lines before it in its datagram.
func (r *reader) completeFlow(id string, flow *arrival.Flow, before uint64, now time.Time) {
	if flow.Uncounted = !r.ensureSender(now); flow.Uncounted {
		return
	}
	s := r.sender
	lines := s.lines + before
	if s.id != id {
		if s.id != "" && now.Sub(s.at) < flowTTL {
			s.sharedAt = now
		}
		s.id, s.first, s.base = id, flow.Sent, lines
	}
	s.at = now
	flow.First, flow.Received, flow.Uncounted = s.first, lines-s.base, now.Sub(s.sharedAt) < flowTTL
}

// ensureSender ensures that there is a sender, and reports whether the datagram has an address and there is room.
func (r *reader) ensureSender(now time.Time) bool {
	if r.sender != nil {
		return true
	}
	if r.from.Port() == 0 {
		return false
	}
	if len(r.senders) >= maxFlows {
		for from, s := range r.senders {
			if now.Sub(s.at) > flowTTL {
				delete(r.senders, from)
			}
		}
	}
	if len(r.senders) >= maxFlows {
		return false
	}
	if r.senders == nil {
		r.senders = map[netip.AddrPort]*sender{}
	}
	r.sender = &sender{}
	r.senders[r.from] = r.sender
	return true
}
