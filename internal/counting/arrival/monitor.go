package arrival

import (
	"fmt"
	"time"
)

const (
	// maxLoss is the share of lines that may be missing. Where it is exceeded for lossAfter, the flow fails;
	// it works again when less than half of that was missing for worksAfter.
	maxLoss    = 0.05
	window     = 3 * time.Second
	lossAfter  = 3 * time.Second
	worksAfter = 2 * time.Second
	// minMissing lines are never called a loss: a sender without traffic sends one a second.
	minMissing = 3
	// maxPending heartbeats may be on their way, or lost one after the other. A second each: none of the lines arrived.
	maxPending = 4
	// pause is the silence of a publisher after which its next reports are those of one that was away: what it has
	// not received it may not have read yet.
	pause = 2500 * time.Millisecond
	// moved is after how long other publishers are believed that a flow does not reach its last receiver. Before, that
	// one may be starting again.
	moved = 30 * time.Second
)

// Monitor judges one flow by the reports of all publishers. The zero value knows nothing, and a flow of which nothing
// is known works: behind a relay, or with a receiver that reports nothing, a loss cannot be seen.
//
// Not safe for concurrent use.
type Monitor struct {
	id      string
	pending int // heartbeats sent since one of them is known to have arrived

	receiver string    // publisher that received the flow last; "": none
	reported time.Time // its last report, or that of any publisher if there is no receiver
	newest   Flow
	samples  []sample // of the window, oldest first

	loss        float64
	state       State
	bad, good   time.Time // since when the loss is too great, or small enough; zero: it is not
	failure     error     // nil: the flow works
	lastArrival time.Time
}

type sample struct {
	at             time.Time
	sent, received uint64
}

// State is what is known of a flow.
type State int

// The states of a flow.
const (
	Unknown State = iota // no publisher can say anything about it
	Arrives              // it arrives, the loss is unknown
	Counted              // Loss is known
)

// HeartbeatSent records a heartbeat of the flow with this id.
func (m *Monitor) HeartbeatSent(id string) {
	if id != m.id {
		*m = Monitor{id: id, failure: m.failure}
	}
	m.pending++
}

// ID is the id of the flow, "" before the first heartbeat.
func (m *Monitor) ID() string { return m.id }

// Observe takes what a publisher reported, and returns whether it received something new of the flow. Call it for each
// report once, soon after it was published.
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
	default: // its receiver is gone, and this one does not have it
		m.receiver, m.pending = "", 0
	}
	if now.Sub(m.reported) > pause && !advanced {
		m.pending = 0
	}
	m.reported = now
	switch {
	case advanced:
		m.pending, m.lastArrival = 0, now
		m.measure(now, f)
	case !found && !r.Complete:
		*m = Monitor{id: m.id}
		return false
	case m.pending >= maxPending:
		m.samples, m.loss, m.state = nil, 1, Counted
		m.bad, m.good, m.failure = now, time.Time{}, errNothing
		return false
	}
	if advanced { // else nothing is known that was not known before
		m.judge(now)
	}
	return advanced
}

// measure computes the loss of the lines between the samples of the window.
func (m *Monitor) measure(now time.Time, f Flow) {
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
	if sent, missing := m.missing(); sent > 0 {
		m.loss, m.state = float64(missing)/float64(sent), Counted
	}
}

// missing counts the lines sent within the window, and those of them that did not arrive.
func (m *Monitor) missing() (sent, missing uint64) {
	if len(m.samples) < 2 {
		return 0, 0
	}
	first, last := m.samples[0], m.samples[len(m.samples)-1]
	sent = last.sent - first.sent
	return sent, sent - min(sent, last.received-first.received)
}

func (m *Monitor) judge(now time.Time) {
	_, missing := m.missing()
	loss, _ := m.Loss()
	m.bad = since(m.bad, now, loss > maxLoss && missing >= minMissing)
	m.good = since(m.good, now, loss < maxLoss/2 || missing < minMissing)
	switch {
	case !m.bad.IsZero() && now.Sub(m.bad) >= lossAfter:
		m.failure = fmt.Errorf("%.0f %% of what is sent there does not arrive", loss*100)
	case !m.good.IsZero() && now.Sub(m.good) >= worksAfter:
		m.failure = nil
	}
}

// since is when a condition began to hold; the zero time while it does not.
func since(began, now time.Time, holds bool) time.Time {
	switch {
	case !holds:
		return time.Time{}
	case began.IsZero():
		return now
	}
	return began
}

// Loss is the share of the lines of the last 3 s that did not arrive, and whether that is known.
func (m *Monitor) Loss() (ratio float64, known bool) {
	if m.state != Counted {
		return 0, false
	}
	return m.loss, true
}

// ArrivedSince reports whether a heartbeat is known to have arrived after t.
func (m *Monitor) ArrivedSince(t time.Time) bool { return m.lastArrival.After(t) }

var errNothing = fmt.Errorf("none of the last %d heartbeats arrived at an aggregator", maxPending)

// Err is why counts have to be taken for lost; nil: they arrive, or nothing is known.
func (m *Monitor) Err() error { return m.failure }

// State is what is known of the flow.
func (m *Monitor) State() State { return m.state }
