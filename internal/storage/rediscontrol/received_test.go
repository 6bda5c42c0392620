package rediscontrol

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/internal/counting/arrival"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// A sender gets its own flows of each publisher, with small sets and with large ones, which travel as changes.
func testWhatArrivedIsReadByItsSender(t *testing.T, s server) {
	c, reader := s.open(t), s.open(t)
	clock := now()
	c.now = func() time.Time { return clock }
	flows := map[string]arrival.Flow{"A": {Sent: 7, First: 1, Received: 6}, "B": {Sent: 9, Uncounted: true}, "C": {}}
	p := c.NewPublisher(PublisherConfig{ID: "agg", Received: func() (map[string]arrival.Flow, bool) {
		return flows, len(flows) > 1
	}})
	reports := make(chan arrival.Report, 100)
	reader.ObserveArrivals(Arrivals{
		FlowIDs: func() []string { return []string{"A", "B", "absent"} },
		Observe: func(r arrival.Report) { reports <- r },
	})
	deliveries, _ := follow(t, reader)
	want := func(what string, complete bool, flows map[string]arrival.Flow) {
		t.Helper()
		redistest.Next(t, deliveries, "hot set")
		if diff := cmp.Diff(arrival.Report{Publisher: "agg", Complete: complete, Flows: flows},
			redistest.Next(t, reports, what)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	both := map[string]arrival.Flow{"A": flows["A"], "B": flows["B"]}
	publish(t, p, hot(clock, 1))
	want("first report", true, both)
	flows = map[string]arrival.Flow{"A": {Sent: 8, First: 1, Received: 7}}
	publish(t, p, hot(clock, 2000))
	want("in the same second", true, both)
	clock = clock.Add(time.Second)
	publish(t, p, hot(clock, 2001))
	want("a second later", false, flows)
	if ttl := s.raw.PTTL(context.Background(), c.keys.HotReceived("agg")).Val(); ttl <= 0 || ttl > receivedLife {
		t.Errorf("expires in %v", ttl)
	}
	if list := s.immortal(t); len(list) > 0 {
		t.Errorf("never expire: %q", list)
	}
	// Flows that a publisher does not report are unknown: it has no counts of senders, or the stored ones cannot be
	// read.
	s.raw.HSet(context.Background(), c.keys.HotReceived("agg"), "A", "who knows", completeField, "1")
	publish(t, p, hot(clock, 1))
	want("unreadable", false, map[string]arrival.Flow{})
	publish(t, c.Publisher("silent"), hot(clock, 1))
	redistest.Next(t, deliveries, "hot set")
	if r := redistest.Next(t, reports, "of a publisher without counts of senders"); r.Complete || len(r.Flows) > 0 {
		t.Errorf("%+v", r)
	}
}
