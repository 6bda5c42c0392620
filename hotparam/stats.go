package hotparam

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Stats tell what a Pipeline has done since it was built. Counters only grow.
type Stats struct {
	// Counted are requests, once for each key that they have. Delivered of them
	// reached the detection of this process, were sent by StatsD, or were taken by the
	// Sink. Dropped were lost: more keys than memory is for, or nobody who took
	// them. The rest waits for the next 100 ms; after Run's end it is lost too.
	Counted, Delivered, Dropped uint64
	// Allowed requests passed; Denied were refused, by what refused them.
	Allowed uint64
	Denied  hottype.Denials
	// Panics are requests that passed because judging them panicked.
	Panics uint64
	// Hot are the keys that are hot now, heaviest first.
	Hot []Hot
}

// Stats reads the counters. It is made for once a second, not for each request.
func (p *Pipeline) Stats() Stats {
	counted, decided := p.parts.Tally.Stats(), p.parts.Gate.Stats()
	st := Stats{
		Counted: counted.Added, Delivered: counted.Flushed, Dropped: counted.DroppedFull + counted.DroppedSink,
		Allowed: decided.Allowed.Total(), Denied: decided.Denied,
		Panics: p.layer.Stats().Panics + p.decide.Panics(),
	}
	if p.delivered != nil {
		sent, lost := p.delivered()
		st.Delivered, st.Dropped = sent, st.Dropped+lost
	}
	for _, e := range p.parts.Hot.Entries(time.Now()) {
		st.Hot = append(st.Hot, e.Hot())
	}
	return st
}
