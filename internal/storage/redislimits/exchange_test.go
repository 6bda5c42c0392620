package redislimits

import (
	"math"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
)

const noon = int64(1_800_000_000_000_000) // us

// loneShard is a shard that is exchanged by hand, with one record that is not due.
func loneShard(known bool) (*windowShard, *record) {
	born := time.UnixMicro(noon)
	l := &windowShard{Windows: &Windows{born: born, local: limit.NewMemory(limit.MemoryConfig{})},
		stripes: make([]stripe, 1)}
	l.clock.Store(&clock{born, noon})
	l.lastExchange.Store(math.MinInt64 / 2)
	if known {
		l.lastExchange.Store(0)
	}
	list := []record{{space: "ip", window: tenSeconds, at: noon, own: 3, ownPrev: 2, asked: 1, exchanged: 1}}
	l.stripes[0].records = map[subjectID][]record{{client: hottype.ParseClient("192.0.2.1")}: list}
	return l, &list[0]
}

// The clock of Redis is adopted if it differs by more than the call took, or if no clock was known. Sums are due again
// and move with it if they were recorded by a clock that was ahead by more than a second, or, if no clock was known, at
// a time that differs by more than a second.
func TestAdjustClock_AdoptsClockOfRedis(t *testing.T) {
	t.Parallel()
	const trip = 100 * time.Millisecond
	for _, c := range []struct {
		known  bool
		by     time.Duration
		adopts bool
		moves  bool
	}{
		{true, 0, false, false}, {true, trip, false, false}, {true, -trip, false, false}, {true, trip + 1000, true,
			false},
		{true, -trip - 1000, true, false}, {true, -time.Second, true, false}, {true, -time.Second - 1000, true, true},
		{true, time.Second + 1000, true, false}, {true, time.Hour, true, false}, {false, 0, true, false},
		{false, time.Second, true, false}, {false, time.Second + 1000, true, true}, {false, -time.Second, true, false},
		{false, -time.Hour, true, true},
	} {
		l, r := loneShard(c.known)
		began := l.born.Add(time.Minute)
		middle := began.Add(trip / 2)
		now := l.redisTime(middle) + c.by.Microseconds()
		before := *l.clock.Load()
		l.adjustClock(began, began.Add(trip), now)
		want := clock{middle, now}
		if !c.adopts {
			want = before
		}
		if got := *l.clock.Load(); got != want {
			t.Errorf("%+v: %+v, want %+v", c, got, want)
		}
		if c.adopts && l.redisTime(middle.Add(time.Second)) != now+1_000_000 {
			t.Errorf("%+v: a second later it is %d", c, l.redisTime(middle.Add(time.Second)))
		}
		at, asked := noon, uint32(1)
		if c.moves {
			at, asked = noon+c.by.Microseconds(), 2
		}
		if r.at != at || r.asked != asked {
			t.Errorf("%+v: recorded at %d and asked for %d times, want %d and %d", c, r.at-noon, r.asked, at-noon,
				asked)
		}
	}
	l, _ := loneShard(true)
	if l.redisTime(time.UnixMicro(0).Add(-time.Hour)) != 0 || l.redisTime(time.UnixMicro(1<<53)) != maxWindowTime {
		t.Error("a time that the script does not keep exactly")
	}
}

// The sum of other processes is stored for the window that was asked for, and the window counts as exchanged even if
// that sum is unknown.
func TestSetOthers_StoresSumInItsWindow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		window, start, others int64
		want                  record
	}{
		{tenSeconds, noon, 9, record{others: 9, othersPrev: 5, exchanged: 7}},
		{tenSeconds, noon - tenSeconds, 9, record{others: 4, othersPrev: 9, exchanged: 7}},
		{tenSeconds, noon + tenSeconds, 9, record{others: 4, othersPrev: 5, exchanged: 7}},
		{tenSeconds, noon, 0, record{others: 0, othersPrev: 5, exchanged: 7}},
		{tenSeconds, noon, -1, record{others: 4, othersPrev: 5, exchanged: 7}},
		{tenSeconds + 1, noon, 9, record{others: 4, othersPrev: 5, exchanged: 1}},
	} {
		l, r := loneShard(true)
		r.others, r.othersPrev = 4, 5
		subject := limit.Subject{Space: "ip", Client: hottype.ParseClient("192.0.2.1")}
		l.setOthers(&sum{stripe: &l.stripes[0], subject: subject, window: c.window, start: c.start, asked: 7}, c.others)
		c.want.space, c.want.window, c.want.at, c.want.own, c.want.ownPrev, c.want.asked = "ip", tenSeconds, noon, 3, 2,
			1
		if *r != c.want {
			t.Errorf("%+v: %+v", c, *r)
		}
		l.setOthers(&sum{stripe: &l.stripes[0], subject: limit.Subject{Space: "other"}, window: tenSeconds,
			start: noon}, 1)
		if *r != c.want {
			t.Errorf("%+v: changed by another subject", c)
		}
	}
}

// A sum that is due again keeps its time, moved by the change of the clock, but not to a time before 1970.
func TestMarkAllDue_MovesTimes(t *testing.T) {
	t.Parallel()
	for by, want := range map[int64]int64{0: noon, 5: noon + 5, -5: noon - 5, -2 * noon: 0} {
		l, r := loneShard(true)
		if l.markAllDue(by); r.at != want || r.asked != 2 || r.exchanged != 1 {
			t.Errorf("%d: %+v", by, *r)
		}
	}
}
