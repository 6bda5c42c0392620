package hotset

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
)

// told lists what CheckPublishers says, as "publisher=state:keys".
func told(m *Replica, now time.Time) (list []string) {
	for _, s := range m.CheckPublishers(now) {
		list = append(list, fmt.Sprintf("%s=%d:%d", s.Publisher, s.State, s.Keys))
	}
	return list
}

// A publisher that dies disarms no limiter: its keys stay for NoInputTTL, the keys of another publisher are unaffected,
// and each change of a state is reported once.
func TestSilentPublisherKeepsItsKeys(t *testing.T) {
	t.Parallel()
	m := &Replica{NoInputTTL: 60 * time.Second}
	version := uint64(0)
	publish := func(publisher string, now float64, noInput bool, keys ...hottype.HotKey) {
		version++
		s := set(version, now, keys...)
		s.NoInput = noInput
		m.Replace(publisher, s)
	}
	for now := range 100 {
		second := float64(now)
		until := second + 5
		if now <= 10 { // then it is frozen
			publish("a", second, false, hot("k1", 1, until), hot("k2", 1, until))
		}
		switch {
		case now < 20:
			publish("b", second, false, hot("k3", 2, until), hot("k2", 2, until))
		case now < 30:
			publish("b", second, true, hot("k3", 2, until))
		default:
			publish("b", second, false)
		}
		var want []string
		switch now {
		case 16: // 5 s after it was heard
			want = []string{"a=2:2"}
		case 20:
			want = []string{"b=1:1"}
		case 30:
			want = []string{"b=0:0"}
		case 75: // 60 s after the end that it gave
			want = []string{"a=3:2"}
		}
		if got := told(m, at(second)); !slices.Equal(got, want) {
			t.Errorf("second %d: told %v, want %v", now, got, want)
		}
		for key, hot := range map[string]bool{"k1": now < 75, "k2": now < 75, "k3": now < 30} {
			if got := m.Lookup([]byte(key), at(second)) != nil; got != hot {
				t.Errorf("second %d: %s is hot: %v", now, key, got)
			}
		}
		st := m.Stats(at(second))
		if silent := now >= 16 && now < 75; (st.StalePublishers == 1) != silent ||
			(st.Publishers == 1) != (now >= 16) {
			t.Errorf("second %d: %+v", now, st)
		}
		if now == 50 && (st.KeysKept != 2 || m.Lookup([]byte("k2"), at(50)).Hot().Rate != 1) {
			t.Errorf("%+v", st)
		}
	}
}

// A publisher that is received again at once removes the keys that have cooled meanwhile.
func TestPublisherIsHeardAgain(t *testing.T) {
	t.Parallel()
	m := new(Replica)
	m.Replace("a", set(1, 0, hot("k1", 1, 5), hot("k2", 1, 5)))
	for second := range 30 {
		m.CheckPublishers(at(float64(second)))
	}
	if len(m.Entries(at(30))) != 2 || m.Stats(at(30)).KeysKept != 2 {
		t.Errorf("%+v", m.Stats(at(30)))
	}
	m.Replace("a", set(2, 30, hot("k2", 1, 35)))
	if got := told(m, at(30)); !slices.Equal(got, []string{"a=0:1"}) {
		t.Errorf("told %v", got)
	}
	if got := found(m, at(30)); !slices.Equal(got, []string{"k2=1"}) {
		t.Errorf("hot %v", got)
	}
}

// A limiter that starts while the aggregator is frozen finds an old set: its keys
// are hot, and after a moment it knows that they are not renewed.
func TestOldSetIsFound(t *testing.T) {
	t.Parallel()
	m := new(Replica)
	m.Replace("a", set(1, 0, hot("k", 1, 5)))
	if m.Lookup([]byte("k"), at(300)) == nil {
		t.Error("the key is cold")
	}
	if got := told(m, at(300)); got != nil {
		t.Errorf("told %v at once", got)
	}
	for second := 301; second < 306; second++ {
		m.CheckPublishers(at(float64(second)))
	}
	if got := told(m, at(306)); !slices.Equal(got, []string{"a=2:1"}) {
		t.Errorf("told %v", got)
	}
	if got := told(m, at(605)); !slices.Equal(got, []string{"a=3:1"}) || m.Lookup([]byte("k"), at(605)) != nil {
		t.Errorf("told %v", got)
	}
}

// A process that was frozen itself has received nothing, and blames no publisher.
func TestSuspendedReplicaReportsNoStalePublisher(t *testing.T) {
	t.Parallel()
	m := new(Replica)
	m.Replace("a", set(1, 0, hot("k", 1, 5)))
	m.CheckPublishers(at(0))
	if got := told(m, at(60)); got != nil {
		t.Errorf("told %v", got)
	}
	m.Replace("a", set(2, 61, hot("k", 1, 66)))
	if got := told(m, at(61)); got != nil {
		t.Errorf("told %v", got)
	}
}

// The store lost everything, its clock was set back, and the publisher is a new
// process: its versions begin below.
func TestLowerVersionAfterALoss(t *testing.T) {
	t.Parallel()
	m := new(Replica)
	m.Replace("a", set(1000, 0, hot("k1", 1, 5)))
	m.Replace("a", set(10, 4, hot("k2", 1, 9))) // late, as far as the replica can know
	m.Replace("a", set(11, 5, hot("k3", 1, 10)))
	if got := found(m, at(5)); !slices.Equal(got, []string{"k3=1"}) {
		t.Errorf("hot %v", got)
	}
}

func TestFirstIsOneThatIsHeard(t *testing.T) {
	t.Parallel()
	m := &Replica{}
	if first := m.FirstPublisher(at(0)); first != "" {
		t.Errorf("of nobody: %q", first)
	}
	m.Replace("b", set(1, 0))
	m.Replace("a", set(1, 0))
	m.Replace("b", set(2, 4))
	for second, want := range map[float64]string{1: "a", 6: "b", 20: ""} {
		if first := m.FirstPublisher(at(second)); first != want {
			t.Errorf("second %v: %q, want %q", second, first, want)
		}
	}
}

// TestReplica_HasEnded: a key that leaves the set has ended only while a publisher with counts is heard, and none that
// is silent or has no counts had the key. A dead publisher does not keep the keys of others from ending.
func TestReplica_HasEnded(t *testing.T) {
	t.Parallel()
	with := func(at float64, keys ...hottype.Key) report.HotSet {
		s := set(1, at)
		s.Keys, s.Loops = nil, nil
		for _, key := range keys {
			s.Loops = append(s.Loops, hottype.HotKey{Key: key})
		}
		return s
	}
	quiet := func(s report.HotSet) report.HotSet { s.NoInput = true; return s }
	stopped := func(s report.HotSet) report.HotSet { s.Last = true; return s }
	type sets map[string]report.HotSet
	for name, c := range map[string]struct {
		sets sets
		at   float64
		want bool
	}{
		"nobody publishes":                     {nil, 1, false},
		"one is heard":                         {sets{"a": with(0)}, 1, true},
		"one falls silent":                     {sets{"a": with(0)}, 4, false},
		"one has no counts":                    {sets{"a": quiet(with(0))}, 1, false},
		"one has stopped":                      {sets{"a": stopped(with(0))}, 1, false},
		"another has stopped":                  {sets{"a": stopped(with(0, "x")), "b": with(0)}, 1, true},
		"another with the key has no counts":   {sets{"a": quiet(with(0, "x")), "b": with(0)}, 1, false},
		"another with other keys has no count": {sets{"a": quiet(with(0, "y")), "b": with(0)}, 1, true},
	} {
		m := &Replica{}
		for publisher, s := range c.sets {
			m.Replace(publisher, s)
		}
		for now := 0.0; now < c.at; now++ {
			m.CheckPublishers(at(now))
		}
		if got := m.HasEnded("x", at(c.at)); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
