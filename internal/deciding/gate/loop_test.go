package gate_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/report"
)

// loopRules: 1000 requests of 5 s make a topic hot, of which one client may
// count for 200.
const loopRules = `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 200, window: 5s, cooldown: 3s, min_clients: %d}, limit: {rate: 60, burst: 60, scope: instance}}
ip:
  fixed: {limit: 50, window: 1s, scope: instance}
`

// site is the whole pipeline in one process, with a clock of its own: gate,
// tally, detector, hot set, and back to the gate.
type site struct {
	*bundle
	tally    *tally.Tally
	detector *detect.Detector
	set      report.HotSet
	kinds    map[detect.Kind]int
	hotAt    time.Time // when topic 42 became hot
}

func newSite(t *testing.T, minClients int) *site {
	s := &site{kinds: map[detect.Kind]int{}}
	rules := parse(t, fmt.Sprintf(loopRules, minClients))
	s.detector = detect.New(rules, detect.Options{})
	s.tally = tally.New(tally.Config{Sink: s})
	s.bundle = assemble(rules, gate.Config{Counter: s.tally})
	return s
}

// Send receives the sums of the tally.
func (s *site) Send(_ context.Context, counts []hottype.Count) error {
	for _, c := range counts {
		s.detector.Add(s.now, c)
	}
	return nil
}

// visitors send evenly, each request from the next of clients in turn. The address has a %d at the place where the
// clients differ.
type visitors struct {
	rate    int // requests per second
	clients int
	address string
	sent    int
	denied  int
}

// run advances the time by seconds, in steps of 10 ms; sums leave every 100 ms.
func (s *site) run(t *testing.T, seconds int, all ...*visitors) {
	for step := range 100 * seconds {
		for _, v := range all {
			for due := v.rate*(step+1)/100 - v.rate*step/100; due > 0; due-- {
				v.sent++
				if !s.get("/topic?id=42", fmt.Sprintf(v.address, v.sent%v.clients)).Allowed {
					v.denied++
				}
			}
		}
		s.now = s.now.Add(10 * time.Millisecond)
		if step%10 == 9 {
			s.tick(t)
		}
	}
}

func (s *site) tick(t *testing.T) {
	if err := s.tally.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var changes []detect.Change
	s.set, changes = s.detector.Tick(s.now)
	s.version++
	s.set.Version = s.version
	s.mirror.Replace("test", s.set)
	for _, c := range changes {
		s.kinds[c.Kind]++
		if c.Kind == detect.BecameHot {
			s.hotAt = s.now
		}
	}
}

// One /64 sends 95 % of the requests for a topic. The others must not pay for it, and its own window denies it.
func TestLoopDoesNotTakeTheKeyFromOthers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		minClients int
		loops      []*visitors
		spared     bool
		share      float64 // of the heaviest client, at least
	}{
		{"one loop", 5, []*visitors{{rate: 950, clients: 1000, address: "2001:db8:0:1::%d"}}, true, 0.9},
		{"two loops", 5, []*visitors{{rate: 475, clients: 1, address: "192.0.2.1%d"},
			{rate: 475, clients: 1, address: "192.0.2.2%d"}}, true, 0.4},
		{"three loops in one", 5, []*visitors{{rate: 950, clients: 3, address: "192.0.2.%d"}}, true, 0.3},
		{"one loop, judged by the rate alone", 0, []*visitors{{rate: 950, clients: 1, address: "192.0.2.%d"}}, false,
			0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, readers := newSite(t, test.minClients), &visitors{rate: 50, clients: 200, address: "10.0.0.%d"}
			s.run(t, 30, append(test.loops, readers)...)
			spared := readers.denied*100 < readers.sent
			if spared != test.spared || s.kinds[detect.BecameHot] > 0 == test.spared {
				t.Errorf("%d of %d readers denied, changes %v", readers.denied, readers.sent, s.kinds)
			}
			if !test.spared {
				return
			}
			for _, l := range test.loops {
				if l.denied*2 < l.sent {
					t.Errorf("the loop met no limit: %d of %d denied", l.denied, l.sent)
				}
			}
			if len(s.set.Loops) != 1 || s.kinds[detect.LoopBegan] != 1 {
				t.Fatalf("loops %+v, changes %v", s.set.Loops, s.kinds)
			}
			if l := s.set.Loops[0]; l.Clients < 140 || l.Clients > 280 || l.ClientShare < test.share ||
				l.HeaviestClient == "" {
				t.Errorf("%+v", l)
			}
		})
	}
}

// A key of many clients is hot with the first sum over the threshold, although a loop runs beside it, and a loop that
// continues afterwards is a loop again.
func TestManyClientsAreHotAtOnceAndALoopIsNot(t *testing.T) {
	t.Parallel()
	s, readers := newSite(t, 5), &visitors{rate: 800, clients: 250, address: "10.0.1.%d"}
	s.run(t, 2, readers)
	if at := s.hotAt.Sub(start()); at < 1250*time.Millisecond || at > 1400*time.Millisecond {
		t.Errorf("hot after %v: 1000 requests had come after 1.25 s", at)
	}
	loop := &visitors{rate: 900, clients: 1, address: "192.0.2.%d"}
	s.run(t, 5, readers, loop)
	if len(s.set.Keys) != 1 || s.set.Keys[0].Clients < 170 || len(s.set.Loops) != 0 {
		t.Errorf("both: %+v", s.set)
	}
	s.run(t, 8, loop)
	if len(s.set.Keys) != 0 || len(s.set.Loops) != 1 || s.set.Loops[0].HeaviestClient != "192.0.2.0" {
		t.Errorf("the loop alone: %+v", s.set)
	}
	s.run(t, 10)
	if len(s.set.Loops) != 0 || s.kinds[detect.LoopBegan] != 1 || s.kinds[detect.LoopEnded] != 1 {
		t.Errorf("silence: %+v, %v", s.set, s.kinds)
	}
}
