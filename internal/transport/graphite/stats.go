package graphite

import "time"

// Stats holds the counters and the current state of a Poller. Unsigned fields only grow.
type Stats struct {
	Polls           uint64        `metric:"hotparam_graphite_polls_total" help:"Polls that ended."`
	Failed          uint64        `metric:"hotparam_graphite_failed_total" help:"Polls that failed."`
	Series          int64         `metric:"hotparam_graphite_series" help:"Series in the response to the last poll."`
	Tracked         int64         `metric:"hotparam_graphite_tracked" help:"Series in memory, so that each value is counted once."`
	Buckets         uint64        `metric:"hotparam_graphite_buckets_total" help:"New values read, one for each series and flush."`
	Requests        uint64        `metric:"hotparam_graphite_requests_total" help:"Requests counted by the values read from Graphite."`
	DroppedForeign  uint64        `metric:"hotparam_graphite_dropped_foreign_total" help:"Series of other programs in the responses."`
	DroppedName     uint64        `metric:"hotparam_graphite_dropped_name_total" help:"Series in the responses with a malformed name."`
	DroppedFull     uint64        `metric:"hotparam_graphite_dropped_full_total" help:"Series in the responses beyond graphite.max_series."`
	DroppedValue    uint64        `metric:"hotparam_graphite_dropped_value_total" help:"Points with an impossible value or time."`
	DroppedOld      uint64        `metric:"hotparam_graphite_dropped_old_total" help:"Requests that are older than every window; not counted."`
	DroppedShift    uint64        `metric:"hotparam_graphite_dropped_shift_total" help:"Requests in the seconds left out because the delay became shorter or Graphite's clock was set."`
	ClockDifference time.Duration `metric:"hotparam_graphite_clock_difference_seconds" help:"Graphite's clock minus the clock of this machine."`
	// Delay is the longest recent lag between requests and the poll that brought their count.
	Delay         time.Duration `metric:"hotparam_graphite_delay_seconds" help:"Seconds by which counts are moved towards the present, because Graphite delivers them late."`
	Step          time.Duration `metric:"hotparam_graphite_step_seconds" help:"Time between two points in Graphite; if longer than the flush interval, counts are lost."`
	Took          time.Duration `metric:"hotparam_graphite_took_seconds" help:"Duration of the last poll."`
	LastSuccess   time.Time     `metric:"hotparam_graphite_last_success_timestamp_seconds" help:"Time at which a poll last succeeded, in unix seconds."`
	LastHeartbeat time.Time     `metric:"hotparam_graphite_last_heartbeat_timestamp_seconds" help:"Time at which a poll last returned new heartbeats of senders, in unix seconds."`
	// Err is the error of the last poll, or "" if it succeeded.
	Err string
}

func (p *Poller) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// LastHeard returns the time of the last successful poll. If Graphite had heartbeats of senders and has had no new ones
// for three flushes and 5 s, the senders or their connection to Graphite are down: then promised is true, and last is
// the time of the last heartbeat.
func (p *Poller) LastHeard() (last time.Time, promised bool, err string) {
	st := p.Stats()
	late := 5*time.Second + 3*max(p.cfg.Flush, st.Step) // carbon may not keep every flush
	if st.LastHeartbeat.IsZero() || p.cfg.Now().Sub(st.LastHeartbeat) <= late {
		return st.LastSuccess, false, st.Err
	}
	return st.LastHeartbeat, true, st.Err
}

func (p *Poller) updateStats(add func(*Stats)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	add(&p.stats)
}

// finishPoll records the end of a poll and logs the beginning and end of an outage.
func (p *Poller) finishPoll(began time.Time, err error) {
	now := p.cfg.Now()
	newBeats := p.round.beat > p.beat
	p.beat = max(p.beat, p.round.beat)
	p.updateStats(func(st *Stats) {
		st.Polls++
		if newBeats {
			st.LastHeartbeat = now
		}
		st.Took = now.Sub(began)
		st.Tracked = int64(len(p.taken.series))
		st.ClockDifference = p.difference
		st.Delay = time.Duration(p.offset.delay) * time.Second
		if st.Err = ""; err != nil {
			st.Failed++
			st.Err = err.Error()
			return
		}
		st.LastSuccess = now
	})
	switch {
	case err != nil && !p.failing:
		p.cfg.Log.Warn("Graphite does not give counts; asking again until it does", "err", err)
	case err == nil && p.failing:
		p.cfg.Log.Info("Graphite returns counts again")
	}
	p.failing = err != nil
	p.lastOK = time.Time{}
	if err == nil {
		p.lastOK = began
	}
}

// warnStep logs once that carbon keeps only one of several flushes.
func (p *Poller) warnStep(step int64) {
	p.updateStats(func(st *Stats) { st.Step = time.Duration(step) * time.Second })
	if step <= int64(p.cfg.Flush/time.Second) || step == p.shownStep {
		return
	}
	p.shownStep = step
	p.cfg.Log.Warn("carbon keeps one value for several flushes of the StatsD server, the others are lost; "+
		"give our metrics a retention of one flush in storage-schemas.conf (deploy/graphite), or set --graphite.flush if that is wrong",
		"step_seconds", step, "flush", p.cfg.Flush)
}
