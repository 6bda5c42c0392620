package arrival

import (
	"fmt"
	"time"
)

const (
	// maxLoss is the share of lines that may be missing. If it is exceeded for lossAfter, the flow fails; it works
	// again when less than half of maxLoss was missing for worksAfter.
	maxLoss    = 0.05
	window     = 3*time.Second - early
	lossAfter  = 3*time.Second - early
	worksAfter = 2*time.Second - early
	// early is how much earlier than a second after the report before it a report may come. Reports are published once
	// a second, and travel for different times. Without early, a report a millisecond early would miss the end of each
	// of these durations, and so keep a failure for a second more each time.
	early = 100 * time.Millisecond
	// minMissing is the minimum number of missing lines that counts as a loss, because a sender without traffic sends
	// one line a second.
	minMissing = 3
	// maxPending is the number of heartbeats without a known arrival at which the flow fails. Fewer may be on their
	// way, or lost one after the other. They are sent once a second, so that none of the lines arrived for that time.
	maxPending = 4
	// pause is the silence of a publisher after which its next report counts as the report of a publisher that was
	// away: lines that it has not received may be lines that it has not read yet.
	pause = 2500 * time.Millisecond
	// moved is the time after which other publishers are believed that a flow does not reach its last receiver. Before
	// that, the receiver may be restarting.
	moved = 30 * time.Second
)

// Monitor judges one flow by the reports of all publishers. The zero value has no information, and a flow without
// information works: behind a relay, or with a receiver that does not report, a loss cannot be seen.
//
// A Monitor is not safe for concurrent use.
type Monitor struct {
	id      string
	pending int // heartbeats sent since the last known arrival

	receiver string    // publisher that received the flow last, or ""
	reported time.Time // its last report, or any publisher's if there is no receiver
	newest   Flow
	samples  []sample // of the window, oldest first

	loss        float64
	state       State
	bad, good   time.Time // since when the loss is too great, or small enough; or zero
	failure     error     // nil if the flow works
	lastArrival time.Time
}

type sample struct {
	at             time.Time
	sent, received uint64
}

// State is the knowledge about a flow.
type State int

// The states of a flow.
const (
	Unknown State = iota // no publisher can report on it
	Arrives              // it arrives, the loss is unknown
	Counted              // the loss is known
)

// HeartbeatSent records a heartbeat of the flow with this id.
func (m *Monitor) HeartbeatSent(id string) {
	if id != m.id {
		*m = Monitor{id: id, failure: m.failure}
	}
	m.pending++
}

// ID returns the id of the flow, or "" before the first heartbeat.
func (m *Monitor) ID() string { return m.id }

// Observe records a publisher's report, and returns whether the publisher received new lines of the flow. Call it once
// for each report, soon after it was published.
func (m *Monitor) Observe(now time.Time, r Report) (advanced bool) {
	if m.id == "" {
		return false
	}
	f, found := r.Flows[m.id]
	advanced = found && (f.Sent > m.newest.Sent || m.receiver == "")
	switch {
	case advanced:
		m.receiver = r.Publisher
	case m.receiver == r.Publisher, m.receiver == "":
	case now.Sub(m.reported) < moved:
		return false
	default: // its receiver is gone, and this publisher does not receive it
		m.receiver, m.pending = "", 0
	}
	if now.Sub(m.reported) > pause && !advanced {
		m.pending = 0
	}
	m.reported = now
	switch {
	case advanced:
		m.pending, m.lastArrival = 0, now
		m.measureLoss(now, f)
	case !found && !r.Complete:
		*m = Monitor{id: m.id}
		return false
	case m.pending >= maxPending:
		m.samples, m.loss, m.state = nil, 1, Counted
		m.bad, m.good, m.failure = now, time.Time{}, errNothing
		return false
	}
	if advanced { // else there is no new information
		m.updateFailure(now)
	}
	return advanced
}

// measureLoss computes the loss of the lines between the samples of the window.
func (m *Monitor) measureLoss(now time.Time, f Flow) {
	restarted := f.First != m.newest.First || f.Received < m.newest.Received || f.Uncounted != m.newest.Uncounted
	if m.newest = f; restarted {
		m.samples = nil
	}
	if m.state = Arrives; f.Uncounted {
		return
	}
	m.samples = append(m.samples, sample{now, f.Sent, f.Received})
	for len(m.samples) > 2 && now.Sub(m.samples[1].at) >= window {
		m.samples = m.samples[1:]
	}
	if sent, missing := m.countMissing(); sent > 0 {
		m.loss, m.state = float64(missing)/float64(sent), Counted
	}
}

// countMissing returns the number of lines sent within the window, and the number of them that did not arrive.
func (m *Monitor) countMissing() (sent, missing uint64) {
	if len(m.samples) < 2 {
		return 0, 0
	}
	first, last := m.samples[0], m.samples[len(m.samples)-1]
	sent = last.sent - first.sent
	return sent, sent - min(sent, last.received-first.received)
}

func (m *Monitor) updateFailure(now time.Time) {
	_, missing := m.countMissing()
	loss, _ := m.Loss()
	m.bad = holdsSince(m.bad, now, loss > maxLoss && missing >= minMissing)
	m.good = holdsSince(m.good, now, loss < maxLoss/2 || missing < minMissing)
	switch {
	case !m.bad.IsZero() && now.Sub(m.bad) >= lossAfter:
		m.failure = fmt.Errorf("%.0f %% of the data sent there does not arrive", loss*100)
	case !m.good.IsZero() && now.Sub(m.good) >= worksAfter:
		m.failure = nil
	}
}

// holdsSince returns the time at which a condition began to hold, or the zero time while it does not.
func holdsSince(began, now time.Time, holds bool) time.Time {
	switch {
	case !holds:
		return time.Time{}
	case began.IsZero():
		return now
	}
	return began
}

// Loss returns the share of the lines of the last 3 s that did not arrive, and whether it is known.
func (m *Monitor) Loss() (ratio float64, known bool) {
	if m.state != Counted {
		return 0, false
	}
	return m.loss, true
}

// ArrivedSince reports whether a heartbeat is known to have arrived after t.
func (m *Monitor) ArrivedSince(t time.Time) bool { return m.lastArrival.After(t) }

var errNothing = fmt.Errorf("none of the last %d heartbeats arrived at an aggregator", maxPending)

// Err returns why counts must be considered lost, or nil if they arrive or there is no information.
func (m *Monitor) Err() error { return m.failure }

// State returns the knowledge about the flow.
func (m *Monitor) State() State { return m.state }
