package aggregate

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/detect"
)

// Stats are the counters of an Aggregator since it was built, and how it is
// right now.
type Stats struct {
	Detect  detect.Stats
	Batches uint64 // calls of Send
	Counts  uint64 // counts in them
	// IngestLag is now less the newest second that was accepted: under a
	// second when counts are current, 0 before the first.
	IngestLag time.Duration

	Published     uint64        // publications that succeeded
	PublishErrors uint64        // attempts that failed
	Coalesced     uint64        // sets that a newer one replaced before they were published
	PublishLast   time.Duration // how long the last successful publication took
	PublishTotal  time.Duration // how long the successful ones took together
	LastPublished time.Time     // when the last one succeeded; zero before it
}

// Stats gives the counters.
func (a *Aggregator) Stats() Stats {
	st := Stats{Batches: a.batches.Load()}
	a.mu.Lock()
	st.Detect, st.Counts = a.detector.Stats(), a.counts
	a.mu.Unlock()
	if st.Detect.Newest > 0 {
		st.IngestLag = max(0, a.cfg.Now().Sub(time.Unix(st.Detect.Newest, 0)))
	}
	p := a.out.published()
	st.Published, st.PublishErrors, st.Coalesced = p.ok, p.failed, p.coalesced
	st.PublishLast, st.PublishTotal, st.LastPublished = p.took, p.tookTotal, p.at
	return st
}

func (o *outbox) published() published {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stats
}
