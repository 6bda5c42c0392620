package arrival_test

import (
	"math"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/counting/arrival"
)

// tape is one flow, its receiver and its Monitor, a second at a time.
type tape struct {
	m          arrival.Monitor
	now        time.Time
	f          arrival.Flow
	sent       uint64
	received   bool // a heartbeat has been received by this process of the receiver
	incomplete bool
}

func start() *tape { return &tape{now: time.Unix(1_800_000_000, 0)} }

// second sends a heartbeat and lines, of which part arrives, and reports.
func (s *tape) second(lines uint64, part float64) {
	s.send(lines, part)
	s.report("a")
}

func (s *tape) send(lines uint64, part float64) {
	s.now = s.now.Add(time.Second)
	s.m.HeartbeatSent("flow1")
	arrived := uint64(math.Round(float64(lines) * part))
	switch {
	case part == 0:
	case !s.received:
		s.f, s.received = arrival.Flow{First: s.sent, Sent: s.sent}, true
	default:
		s.f.Sent = s.sent
	}
	s.sent += lines + 1
	if s.received {
		s.f.Received += arrived
		if part > 0 {
			s.f.Received++ // the heartbeat
		}
	}
}

func (s *tape) report(publisher string) {
	r := arrival.Report{Publisher: publisher, Complete: !s.incomplete, Flows: map[string]arrival.Flow{"other": {}}}
	if s.received {
		f := s.f
		f.Received -= min(f.Received, 1) // lines that came after the heartbeat
		r.Flows["flow1"] = f
	}
	s.m.Observe(s.now, r)
}

// restart restarts the publisher as a new process.
func (s *tape) restart() { s.f, s.received = arrival.Flow{}, false }

func (s *tape) fails() bool { return s.m.Err() != nil }

func TestMonitor_NoticesHalfLossAndRecoversSlowly(t *testing.T) {
	t.Parallel()
	s := start()
	for range 10 {
		s.second(100, 1)
	}
	if loss, known := s.m.Loss(); s.fails() || !known || loss > 0.03 {
		t.Fatalf("all arrives: loss %v %v, %v", loss, known, s.m.Err())
	}
	began := s.now
	for !s.fails() {
		if s.second(100, 0.5); s.now.Sub(began) > 5*time.Second {
			t.Fatal("half of the lines are missing for 5 s")
		}
	}
	if took := s.now.Sub(began); took < 3*time.Second {
		t.Errorf("a loss of %v is one already", took)
	}
	if loss, _ := s.m.Loss(); loss < 0.4 {
		t.Errorf("loss %v", loss)
	}
	began = s.now
	for s.fails() {
		if s.second(100, 1); s.now.Sub(began) > 10*time.Second {
			t.Fatal("all arrives for 10 s")
		}
	}
	if took := s.now.Sub(began); took < 5*time.Second {
		t.Errorf("over after %v", took)
	}
}

// A failure ends by the same report whether reports come punctually or some milliseconds early. (Found by test/fleet,
// seed 91400.)
func TestMonitor_RecoversByEarlyReports(t *testing.T) {
	t.Parallel()
	punctual := reportsToRecover(t, 0, 0)
	for _, early := range []time.Duration{time.Millisecond, 90 * time.Millisecond} {
		for which := range 5 {
			if n := reportsToRecover(t, early, which); n != punctual {
				t.Errorf("with report %d of 5 coming %v early: over after %d reports, want %d", which, early, n, punctual)
			}
		}
	}
}

// reportsToRecover returns the number of reports, from the end of a loss on, until a flow works again. One of five
// reports comes early.
func reportsToRecover(t *testing.T, early time.Duration, which int) (n int) {
	s := start()
	second := func(i int, part float64) {
		s.send(100, part)
		if i%5 == which {
			s.now = s.now.Add(-early)
			defer func() { s.now = s.now.Add(early) }()
		}
		s.report("a")
	}
	for i := range 10 {
		second(i, 0.5)
	}
	if !s.fails() {
		t.Fatal("half of the lines are missing for 10 s")
	}
	for ; s.fails() && n < 20; n++ {
		second(n, 1)
	}
	return n
}

// Occasional small losses are not a failure: a burst, a heartbeat of a sender without traffic, 2 % all the time.
func TestMonitor_BearsSmallLosses(t *testing.T) {
	t.Parallel()
	for name, part := range map[string]func(second int) (lines uint64, part float64){
		"one burst": func(i int) (uint64, float64) {
			return 100, map[bool]float64{true: 0.1, false: 1}[i == 20]
		},
		"two percent":        func(int) (uint64, float64) { return 1000, 0.98 },
		"a heartbeat of ten": func(i int) (uint64, float64) { return 0, float64(min(i%10, 1)) },
		"three in a row":     func(i int) (uint64, float64) { return 0, float64(min(i%20/3, 1)) },
	} {
		s := start()
		for i := range 60 {
			if s.second(part(i)); s.fails() {
				t.Errorf("%s: fails after %d s: %v", name, i, s.m.Err())
				break
			}
		}
	}
}

// Publishers report whenever their set changes. A report without progress of the flow has no new information about a
// gap that has ended. (Found by test/fleet, seed 31001.)
func TestMonitor_IgnoresReportsBetweenHeartbeats(t *testing.T) {
	t.Parallel()
	s := start()
	report := func(after time.Duration) {
		s.now = s.now.Add(after)
		if s.report("a"); s.fails() {
			t.Fatalf("fails at %v: %v", s.now, s.m.Err())
		}
		s.now = s.now.Add(-after)
	}
	for i := range 30 {
		gap := i == 20 || i == 21
		s.send(100, map[bool]float64{true: 0, false: 1}[gap])
		switch {
		case gap:
		case i == 22:
			report(400 * time.Millisecond)
		default:
			report(0)
			report(600 * time.Millisecond)
		}
	}
}

func TestMonitor_FailsIfNothingArrives(t *testing.T) {
	t.Parallel()
	never, stops := start(), start()
	for range 10 {
		stops.second(50, 1)
	}
	for name, s := range map[string]*tape{"never": never, "no more": stops} {
		for i := range 6 {
			s.second(50, 0)
			if s.fails() && i < 2 {
				t.Errorf("%s: fails after %d s", name, i+1)
			}
		}
		if loss, known := s.m.Loss(); !s.fails() || loss != 1 || !known {
			t.Errorf("%s: loss %v %v, %v", name, loss, known, s.m.Err())
		}
		at := s.now
		for range 7 {
			s.second(50, 1)
		}
		if loss, _ := s.m.Loss(); s.fails() || loss > 0.05 || !s.m.ArrivedSince(at) {
			t.Errorf("%s: arrives again: loss %v, %v", name, loss, s.m.Err())
		}
	}
}

// A restart of a receiver is not a loss, however long it was away, and neither is the restart of one receiver of
// several.
func TestMonitor_RestartOfReceiverIsNoLoss(t *testing.T) {
	t.Parallel()
	for away := range 25 {
		for _, others := range []bool{false, true} {
			s := start()
			for i := range 60 {
				s.send(100, 1)
				if i == 20 {
					s.restart()
				}
				if i < 20 || i >= 20+away {
					s.report("a")
				} else {
					s.restart()
				}
				if others {
					s.m.Observe(s.now, arrival.Report{Publisher: "b", Complete: true})
				}
				if s.fails() {
					t.Fatalf("away for %d s, others %v: fails after %d s: %v", away, others, i, s.m.Err())
				}
			}
			if loss, known := s.m.Loss(); !known || loss > 0.05 {
				t.Errorf("away for %d s: loss %v %v", away, loss, known)
			}
		}
	}
}

// Lines that a receiver received before its restart are not compared with the lines that it received since.
func TestMonitor_ComparesNoLinesAcrossRestart(t *testing.T) {
	t.Parallel()
	s := start()
	for i := range 20 {
		if i == 2 {
			s.restart()
		}
		if s.second(100, 1); i == 2 {
			continue
		}
		if loss, known := s.m.Loss(); known && loss > 0.05 {
			t.Errorf("after %d s: loss %v", i, loss)
		}
	}
}

// A receiver that went for good, while others publish, takes the flow with it.
func TestMonitor_FailsIfReceiverLeaves(t *testing.T) {
	t.Parallel()
	s := start()
	for range 10 {
		s.second(100, 1)
	}
	gone := s.now
	for !s.fails() && s.now.Sub(gone) < time.Minute {
		s.send(100, 0)
		s.m.Observe(s.now, arrival.Report{Publisher: "b", Complete: true})
	}
	if took := s.now.Sub(gone); took < 30*time.Second || took > 40*time.Second {
		t.Errorf("noticed after %v", took)
	}
	s.received, s.f = true, arrival.Flow{First: s.sent, Sent: s.sent}
	for range 8 { // at another publisher
		s.send(100, 1)
		s.report("c")
	}
	if s.fails() {
		t.Error(s.m.Err())
	}
}

// After a pause of a publisher or a follower nothing is concluded before new heartbeats could arrive.
func TestMonitor_WaitsAfterPauseOfReports(t *testing.T) {
	t.Parallel()
	s := start()
	for range 10 {
		s.second(100, 1)
	}
	stale := s.f
	for range 20 {
		s.send(100, 1)
	}
	now := s.f
	s.f = stale
	s.report("a") // from before the pause
	if s.fails() {
		t.Fatal(s.m.Err())
	}
	s.f = now
	s.second(100, 1)
	if s.fails() {
		t.Error(s.m.Err())
	}
}

// Losses that cannot be seen are not reported: with a publisher that does not receive all flows, a relay that mixes
// flows, another id.
func TestMonitor_UnknownLossIsNoFailure(t *testing.T) {
	t.Parallel()
	s := start()
	s.incomplete = true
	for range 20 {
		s.second(100, 0)
	}
	if _, known := s.m.Loss(); s.fails() || known || s.m.State() != arrival.Unknown {
		t.Errorf("%v, state %v", s.m.Err(), s.m.State())
	}
	s = start()
	for range 20 {
		s.send(100, 0.3)
		s.f.Uncounted = true
		s.report("a")
	}
	if _, known := s.m.Loss(); s.fails() || known || s.m.State() != arrival.Arrives {
		t.Errorf("%v, state %v", s.m.Err(), s.m.State())
	}
	for range 20 { // a new socket each second
		s.m.HeartbeatSent(time.Now().String())
		s.report("a")
	}
	if s.fails() {
		t.Error(s.m.Err())
	}
	var none arrival.Monitor
	none.Observe(time.Now(), arrival.Report{Publisher: "a", Complete: true})
	if none.Err() != nil || none.ID() != "" {
		t.Error("no heartbeat was sent")
	}
}

func TestFlow_IsReadBackFromText(t *testing.T) {
	t.Parallel()
	for _, f := range []arrival.Flow{{}, {Sent: 7, First: 3, Received: 4}, {Sent: math.MaxUint64, Uncounted: true}} {
		if got, err := arrival.ParseFlow(string(f.Append(nil))); err != nil || got != f {
			t.Errorf("%+v: %+v, %v", f, got, err)
		}
		id, got, relayed, err := arrival.ParseHeartbeat(string(arrival.AppendRelayed(nil, "aZ9", f)))
		if err != nil || id != "aZ9" || got != f || !relayed {
			t.Errorf("%+v: %q %+v %v, %v", f, id, got, relayed, err)
		}
	}
	id, f, relayed, err := arrival.ParseHeartbeat(string(arrival.AppendHeartbeat(nil, "aZ9", 12)))
	if err != nil || id != "aZ9" || f != (arrival.Flow{Sent: 12}) || relayed {
		t.Errorf("%q %+v %v, %v", id, f, relayed, err)
	}
}

func FuzzParseHeartbeat(f *testing.F) {
	for _, s := range []string{"a-1", "a-1-2-3", "a-1--", "a", "", "a-", "a--", "-1", "ü-1", "a-1-2", "a-1-2-3-4"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, flow, relayed, err := arrival.ParseHeartbeat(s)
		if err != nil {
			return
		}
		again := arrival.AppendHeartbeat(nil, id, flow.Sent)
		if relayed {
			again = arrival.AppendRelayed(nil, id, flow)
		}
		id2, flow2, relayed2, err := arrival.ParseHeartbeat(string(again))
		if id2 != id || flow2 != flow || relayed2 != relayed || err != nil {
			t.Errorf("%q: %q %+v, then %q %+v %v", s, id, flow, id2, flow2, err)
		}
	})
}
