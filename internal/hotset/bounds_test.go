package hotset

import (
	"fmt"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
)

func moment(d time.Duration) time.Time { return time.Unix(1_800_000_000, 0).Add(d) }

// setOf has one hot key, and one loop, each until a time of its own.
func setOf(version uint64, at, hot, loop time.Duration) report.HotSet {
	return report.HotSet{Version: version, At: moment(at),
		Keys:  []hottype.HotKey{{Key: "k", Rate: 1, Until: moment(hot)}},
		Loops: []hottype.HotKey{{Key: "l", Rate: 1, Until: moment(loop)}}}
}

// A hot key ends to the microsecond, a loop to the nanosecond, each at its own time.
func TestReplica_EntriesEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ noInputTTL, keep time.Duration }{{0, 10 * time.Minute}, {-1, 0}, {time.Second,
		time.Second}} {
		m := &Replica{NoInputTTL: c.noInputTTL}
		m.Replace("a", setOf(1, 0, 10*time.Second, 8*time.Second))
		end := 10*time.Second + c.keep
		for at, want := range map[time.Duration]bool{0: true, end - time.Microsecond: true, end: false} {
			if got := m.Lookup([]byte("k"), moment(at)) != nil; got != want {
				t.Errorf("kept for %v: hot %v at %v", c.keep, got, at)
			}
		}
		for at, want := range map[time.Duration]int{8*time.Second - 1: 1, 8 * time.Second: 0} {
			if got := len(m.Loops(moment(at))); got != want {
				t.Errorf("%d loops at %v", got, at)
			}
		}
		if n := len(m.Entries(moment(end - time.Microsecond))); n != 1 || m.Stats(moment(0)).ExpiredPublishers != 0 {
			t.Errorf("kept for %v: %d entries a moment before the end", c.keep, n)
		}
		if n := len(m.Entries(moment(end))); n != 0 || m.Stats(moment(0)).ExpiredPublishers != 1 ||
			m.Stats(moment(0)).Keys != 0 {
			t.Errorf("kept for %v: %d entries at the end, %+v", c.keep, n, m.Stats(moment(0)))
		}
	}
	// Without keys a publisher is remembered for as long as it may be silent.
	m := &Replica{NoInputTTL: -1}
	m.Replace("a", report.HotSet{Version: 1, At: moment(0)})
	for _, c := range []struct {
		at   time.Duration
		want uint64
	}{{5*time.Second - 1, 0}, {5 * time.Second, 1}} {
		if m.Entries(moment(c.at)); m.Stats(moment(0)).ExpiredPublishers != c.want {
			t.Errorf("at %v: %+v", c.at, m.Stats(moment(0)))
		}
	}
}

// A version that is not above the last one is ignored until the last set is over, keys and loops.
func TestVersionsThatAreIgnored(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		version uint64
		at      time.Duration
		taken   bool
	}{
		{6, 0, true}, {5, time.Second, false}, {4, time.Second, false}, {5, 9*time.Second - 1, false}, {5,
			9 * time.Second, true},
		{1, 9 * time.Second, true},
	} {
		for _, ends := range [][2]time.Duration{{9 * time.Second, 0}, {0, 9 * time.Second}} {
			var m Replica
			m.Replace("a", setOf(5, 0, ends[0], ends[1]))
			m.Replace("b", setOf(1, 0, 0, 0))
			set := setOf(c.version, c.at, time.Minute, 0)
			m.Replace("a", set)
			st := m.Stats(moment(0))
			if want := uint64(2); (st.Replaced == want+1) != c.taken || (st.Ignored == 0) != c.taken ||
				st.Replaced+st.Ignored != 3 {
				t.Errorf("%+v, ends %v: %+v", c, ends, st)
			}
		}
	}
}

// A publisher is stale when it has been silent for more than five seconds by our clock, and no publisher is
// when this process itself stood still for as long.
func TestSilenceIsCountedExactly(t *testing.T) {
	t.Parallel()
	var m Replica
	m.Replace("a", setOf(1, 0, time.Minute, 0))
	tape := []struct {
		at   time.Duration
		want string
	}{
		{0, "[]"}, {4 * time.Second, "[]"}, {5 * time.Second, "[]"}, {5*time.Second + 1, "[a 2]"}, {6 * time.Second,
			"[]"},
		{11 * time.Second, "[]"}, {16*time.Second + 1, "[a 0]"}, {21*time.Second + 1, "[]"}, {21*time.Second + 2,
			"[a 2]"},
		{11 * time.Minute, "[a 3]"}, {11*time.Minute + 1, "[]"},
	}
	for _, step := range tape {
		var list []string
		for _, c := range m.CheckPublishers(moment(step.at)) {
			list = append(list, fmt.Sprintf("%s %d", c.Publisher, c.State))
			if c.Keys != 1 || !c.Until.Equal(moment(11*time.Minute)) {
				t.Errorf("%v: %+v", step.at, c)
			}
		}
		if got := fmt.Sprint(list); got != step.want {
			t.Errorf("%v: %s, want %s", step.at, got, step.want)
		}
	}
}

// At most 256 publishers are remembered, and the newest one always is.
func TestPublishersAtTheirBound(t *testing.T) {
	t.Parallel()
	var m Replica
	for i := range 300 {
		m.Replace(fmt.Sprintf("p%03d", i), setOf(1, 0, time.Minute-time.Duration(i), 0)) // the newest is over first
		st := m.Stats(moment(0))
		if st.Publishers != int64(min(i+1, 256)) || st.ExpiredPublishers != uint64(max(0, i-255)) {
			t.Fatalf("after %d: %+v", i+1, st)
		}
	}
	if m.sets["p299"] == nil || m.sets["p000"] == nil || m.sets["p298"] != nil {
		t.Error("not the one that is over first was forgotten")
	}
}
