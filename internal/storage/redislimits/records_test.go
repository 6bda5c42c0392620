package redislimits

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
)

const tenSeconds = 10_000_000 // us

func windowSpec(sliding bool) limit.Spec {
	s := limit.Spec{Algorithm: limit.FixedWindow, Limit: 100, Window: 10 * time.Second}
	if sliding {
		s.Algorithm = limit.SlidingWindow
	}
	return s
}

// The model of a record is a sum for each window.
func TestRecordIsASumForEachWindow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		spec := windowSpec(rapid.Bool().Draw(rt, "sliding"))
		at := int64(1_800_000_000_000_000)
		r := record{window: tenSeconds, at: at}
		own, others := map[int64]int64{}, map[int64]int64{}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			us := at + rapid.SampledFrom([]int64{0, 1, tenSeconds - 1, tenSeconds, tenSeconds + 1, 2 * tenSeconds,
				3 * tenSeconds,
				-1, -tenSeconds, 4_000_000, 6_000_000}).Draw(rt, "later")
			cost := rapid.Int64Range(0, 9).Draw(rt, "cost")
			switch rapid.IntRange(0, 3).Draw(rt, "what") {
			case 0: // us may be in any window, also a forgotten one
				if w := us / tenSeconds; w == at/tenSeconds || w == at/tenSeconds-1 {
					own[w] = max(0, own[w]-cost)
				}
				r.refundCost(us, cost)
			case 1:
				at = max(at, us)
				r.rotate(us)
			case 2:
				others[at/tenSeconds] = cost
				r.others = cost
			default:
				if cost > 0 {
					at = max(at, us)
					own[at/tenSeconds] += cost
				}
				if r.addCost(us, &spec, cost); r.sliding != (spec.Algorithm == limit.SlidingWindow) {
					rt.Fatal("not of the algorithm that was charged")
				}
			}
			w := at / tenSeconds
			want := record{window: tenSeconds, at: at, own: own[w], ownPrev: own[w-1], others: others[w],
				othersPrev: others[w-1], sliding: r.sliding}
			if r != want {
				rt.Fatalf("%+v, want %+v", r, want)
			}
			if r.windowStart() != w*tenSeconds {
				rt.Fatalf("begins at %d", r.windowStart())
			}
		}
	})
}

// A record under another window starts with the amount that the old window still counts, rounded up.
func TestRecord_StartsWithPartOfOldWindow(t *testing.T) {
	t.Parallel()
	const start = int64(1_800_000_000_000_000)
	for _, c := range []struct {
		sliding            bool
		own, ownPrev, into int64
		want               int64
	}{
		{false, 5, 9, 4_000_000, 5}, {true, 5, 10, 4_000_000, 11}, {true, 5, 10, 4_000_001, 11}, {true, 5, 10,
			3_999_999, 12},
		{true, 5, 0, 1, 5}, {true, 0, 7, 0, 7}, {true, 0, 7, tenSeconds - 1, 1},
	} {
		r := record{window: tenSeconds, at: start + c.into, own: c.own, ownPrev: c.ownPrev, others: 3, othersPrev: 4,
			sliding: c.sliding}
		spec := windowSpec(!c.sliding)
		spec.Window = time.Minute
		r.addCost(start+c.into, &spec, 0)
		if want := (record{window: 60_000_000, at: start + c.into, own: c.want, sliding: !c.sliding}); r != want {
			t.Errorf("%+v: %+v, want %+v", c, r, want)
		}
	}
}

// Sums that were asked for since their last exchange are due, the earlier window first; a record lives for two windows.
func TestCollectDue_ReturnsDueSumsAndDeletesOldRecords(t *testing.T) {
	t.Parallel()
	const start = int64(1_800_000_000_000_000)
	client := hottype.ParseClient("192.0.2.1")
	for _, c := range []struct {
		sliding bool
		asked   uint32 // 1 was exchanged
		at      int64
		want    string
	}{
		{false, 2, 0, "[0:5]"}, {false, 1, 0, "[]"}, {false, 2, tenSeconds - 1, "[0:5]"}, {false, 2, tenSeconds,
			"[10:0]"},
		{true, 2, 0, "[-10:4 0:5]"}, {true, 2, tenSeconds, "[0:5 10:0]"}, {true, 2, 2 * tenSeconds, "[10:0 20:0]"},
		{true, 1, tenSeconds, "[]"}, {true, 1, 2*tenSeconds - 1, "[]"}, {true, 1, 2 * tenSeconds, "gone"},
		{false, 1, 2*tenSeconds - 1, "[]"}, {false, 1, 2 * tenSeconds, "gone"},
	} {
		sp := &stripe{records: map[subjectID][]record{{client: client}: {{space: "ip", window: tenSeconds, at: start,
			own: 5, ownPrev: 4, sliding: c.sliding, asked: c.asked, exchanged: 1}}}}
		var list []string
		for _, s := range sp.collectDue(start+c.at, nil) {
			list = append(list, fmt.Sprintf("%d:%d", (s.start-start)/1_000_000, s.own))
			life := int64(tenSeconds)
			if c.sliding {
				life *= 2
			}
			if s.stripe != sp || s.subject.Client != client || s.subject.Space != "ip" || s.window != tenSeconds ||
				s.over != s.start+life {
				t.Errorf("%+v: %+v", c, s)
			}
		}
		got := fmt.Sprint(list)
		if len(sp.records) == 0 {
			got = "gone"
		}
		if got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// A stripe has room for a number of clients; a client that it knows may have more spaces. Charges without room are
// counted, but refunds are not.
func TestStripe_BoundsItsClients(t *testing.T) {
	t.Parallel()
	sp := &stripe{records: map[subjectID][]record{}}
	charge := func(client, space string, cost int64) limit.Charge {
		return limit.Charge{Subject: limit.Subject{Space: space, Client: hottype.ParseClient(client)},
			Spec: windowSpec(false),
			Cost: cost}
	}
	const us = int64(1_800_000_000_000_000)
	bucket := charge("192.0.2.3", "x", 1)
	bucket.Spec.Algorithm = limit.TokenBucket
	short := charge("192.0.2.1", "x", 1)
	short.Spec.Window = time.Minute
	for i, step := range []struct {
		charge    limit.Charge
		sign      int64
		untracked uint64
		clients   int
	}{
		{charge("192.0.2.1", "a", 3), 1, 0, 1}, {charge("192.0.2.2", "a", 3), 1, 0, 2}, {charge("192.0.2.3", "a", 3), 1,
			3, 2},
		{charge("192.0.2.3", "a", 3), -1, 0, 2}, {charge("192.0.2.1", "b", 4), 1, 0, 2}, {charge("192.0.2.1", "a", 2),
			-1, 0, 2},
		{bucket, 1, 0, 2}, {short, -1, 0, 2}, {charge("192.0.2.3", "a", 0), 1, 0, 2},
	} {
		if got := sp.recordCharges(us, []limit.Charge{step.charge}, step.sign, 2); got != step.untracked ||
			len(sp.records) != step.clients {
			t.Errorf("%d: %d without room, %d clients", i, got, len(sp.records))
		}
	}
	list := sp.records[subjectID{client: hottype.ParseClient("192.0.2.1")}]
	if len(list) != 2 || list[0].space != "a" || list[0].own != 1 || list[0].asked != 2 || list[1].own != 4 ||
		list[1].asked != 1 || findRecord(list, "b") != &list[1] || findRecord(list, "c") != nil {
		t.Errorf("%+v", list)
	}
}
