package statsd

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hotparam/pipeline/internal/counting/arrival"
)

const (
	// refusedAfter is how long datagrams have to be refused before that is an outage, because a server that restarts is
	// not an outage.
	refusedAfter = 3 * time.Second
	// refusedFor is how long a server counts as absent after a refusal. Linux limits how many ICMP messages it sends to
	// another host, so most datagrams to a closed port are not refused.
	refusedFor = 5 * time.Second
)

// health records whether counts can be sent to one server and whether they arrive. It is safe for concurrent use.
type health struct {
	server string
	log    *slog.Logger

	mu      sync.Mutex // guards the fields below
	monitor arrival.Monitor
	err     error // of the last batch
	down    error // the logged outage, or nil if counts arrive
	refused struct{ first, last time.Time }
}

// recordBatch records the result of a batch. errRefused refers to a datagram before it.
func (h *health) recordBatch(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if h.err = err; errors.Is(err, errRefused) {
		h.err = nil
		if now.Sub(h.refused.last) > refusedFor || h.monitor.ArrivedSince(h.refused.last) {
			h.refused.first = now
		}
		h.refused.last = now
	}
	h.updateOutage(now)
}

func (h *health) recordHeartbeat(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.monitor.HeartbeatSent(id)
}

// observeReport records a publisher's report, and returns whether the publisher received new lines of this flow.
func (h *health) observeReport(now time.Time, r arrival.Report) (arrives bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	arrives = h.monitor.Observe(now, r)
	h.updateOutage(now)
	return arrives
}

// updateOutage logs the beginning and the end of an outage.
func (h *health) updateOutage(now time.Time) {
	err := h.err
	if err == nil {
		err = h.monitor.Err()
	}
	last := h.refused.last
	if err == nil && last.Sub(h.refused.first) >= refusedAfter && now.Sub(last) < refusedFor &&
		!h.monitor.ArrivedSince(last) {
		err = errRefused
	}
	switch {
	case err != nil && h.down == nil:
		h.log.Warn("statsd: counts do not arrive: they are lost until they do, and keys become hot late or not at all",
			"server", h.server, "err", fmt.Errorf("statsd: send to %s: %w", h.server, err))
	case err == nil && h.down != nil:
		h.log.Warn("statsd: counts arrive again", "server", h.server)
	}
	h.down = err
}

// hasReport reports whether a receiver of ours has reported on the lines sent to this server.
func (h *health) hasReport() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.monitor.State() != arrival.Unknown
}

func (h *health) flowID() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.monitor.ID()
}

// readState returns the share of the counts that is lost, or -1 if it is not known, the state, and why counts are lost,
// or nil if they are not.
func (h *health) readState() (loss float64, state arrival.State, down error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	loss, known := h.monitor.Loss()
	if !known {
		loss = -1
	}
	return loss, h.monitor.State(), h.down
}

// FlowIDs returns the ids under which receivers report the lines that arrived from this Sender.
func (s *Sender) FlowIDs() []string {
	var ids []string
	for _, q := range s.servers {
		if id := q.health.flowID(); id != "" {
			ids = append(ids, id)
		}
	}
	if s.standby != nil {
		ids = append(ids, s.standby.FlowIDs()...)
	}
	return ids
}

// Observe records a publisher's report, each report once, and returns whether any of it is new.
func (s *Sender) Observe(r arrival.Report) (arrives bool) {
	now := time.Now()
	if s.standby != nil { // counts that one did not receive may have gone to the other
		complete := r.Complete
		r.Complete = false
		r.Complete = complete && !s.standby.Observe(r)
	}
	for _, q := range s.servers {
		arrives = q.health.observeReport(now, r) || arrives
	}
	return arrives
}

// Status returns a text for people and reports whether counts arrive at all servers, as far as that is known.
func (s *Sender) Status() (text string, ok bool) {
	text, worst := "counts arrive", -1.0
	for _, q := range s.servers {
		loss, state, down := q.health.readState()
		worst = max(worst, loss)
		switch {
		case down != nil:
			return fmt.Sprintf("%s: %v", q.server, down), false
		case state == arrival.Unknown:
			text = "unknown whether counts arrive at " + q.server + ": no aggregator reports it"
		}
	}
	if worst >= 0 {
		text += fmt.Sprintf("; %.1f %% lost", worst*100)
	}
	return text, true
}
