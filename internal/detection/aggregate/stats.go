package aggregate

import (
	"time"

	"github.com/hotparam/pipeline/internal/detection/detect"
)

// Stats are the counters of an Aggregator since it was built, and how it is
// right now.
type Stats struct {
	Detect  detect.Stats
	Batches uint64 // calls of Send
	Counts  uint64 // counts in them
	// ErrorAlarms is how often the error of a rule's counts rose above a quarter
	// of its threshold: it has too few counters for what it gets.
	ErrorAlarms uint64
	// IngestLag is now less the newest second that was accepted: under a
	// second when counts are current, 0 before the first.
	IngestLag time.Duration

	// Blind says that counts cannot be heard, so that nothing cools and nothing
	// becomes hot.
	Blind bool

	Published     uint64        // publications that succeeded
	Standby       bool          // another process publishes under the same id
	PublishErrors uint64        // attempts that failed
	Coalesced     uint64        // sets that a newer one replaced before they were published
	PublishLast   time.Duration // how long the last successful publication took
	PublishTotal  time.Duration // how long the successful ones took together
	LastPublished time.Time     // when the last one succeeded; zero before it
}

// Stats gives the counters.
func (a *Aggregator) Stats() Stats {
	st := Stats{Batches: a.batches.Load(), Counts: a.counts.Load(), Detect: a.detector.Stats(),
		ErrorAlarms: a.alarm.raised.Load()}
	if st.Detect.Newest > 0 {
		st.IngestLag = max(0, a.cfg.Now().Sub(time.Unix(st.Detect.Newest, 0)))
	}
	st.Blind = a.hot.Load().Blind
	p := a.out.published()
	st.Standby = p.standby
	st.Published, st.PublishErrors, st.Coalesced = p.ok, p.failed, p.coalesced
	st.PublishLast, st.PublishTotal, st.LastPublished = p.took, p.tookTotal, p.at
	return st
}

func (o *outbox) published() published {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stats
}
