package detect

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

// shared is hot from half of the traffic on and 10 in 5 s, or by 100 in 5 s.
func shared() *rules.Rule {
	return &rules.Rule{Name: "topic", Hot: rules.HotCriteria{
		Rate: 20, Share: 0.5, MinRate: 2, Window: 5 * time.Second, Cooldown: 3 * time.Second, ReleaseRatio: 0.7,
	}}
}

// reasons says what is hot and why.
func reasons(s hottype.HotSet) string {
	var b strings.Builder
	for _, h := range s.Keys {
		fmt.Fprintf(&b, "%s %s %.2f ", h.Key, h.Criteria, h.Share)
	}
	return strings.TrimSpace(b.String())
}

func TestShareOfTheTraffic(t *testing.T) {
	t.Parallel()
	const a, b = hottype.Key("topic?id=1"), hottype.Key("topic?id=2")
	d := New(set(shared()), Options{})
	for i, step := range []struct {
		at      float64
		add     hottype.Count
		crossed bool
		want    string // at the next Tick
	}{
		{0, count(a, 0, 9), false, ""},                                              // all of it, but under the floor
		{0.1, count(a, 0, 1), true, "topic?id=1 share 1.00"},                        //
		{0.2, count(b, 0, 30), true, "topic?id=2 share 0.75 topic?id=1 share 0.25"}, // a cools from here on
		{3.1, count(b, 3, 0), false, "topic?id=2 share 0.75 topic?id=1 share 0.25"},
		{3.2, count(b, 3, 0), false, "topic?id=2 share 0.75"},
		{3.3, count(b, 3, 70), true, "topic?id=2 rate+share 0.91"},
		{3.4, count(a, 3, 100), true, "topic?id=1 rate+share 0.52 topic?id=2 rate+share 0.48"},
	} {
		if got := d.Add(at(step.at), step.add); got != step.crossed && step.add.N > 0 && i != 5 {
			t.Errorf("step %d: crossed %v", i, got)
		}
		s, _ := d.Tick(at(step.at))
		if got := reasons(s); got != step.want {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
}

// Under min_rate a share says nothing, also of a key that is hot by its rate.
func TestShareUnderItsFloorIsNoReason(t *testing.T) {
	t.Parallel()
	r := shared()
	r.Hot.Rate = 1 // 5 in 5 s; the floor of the share is 10
	d := New(set(r), Options{})
	for i, step := range []struct {
		n    int64
		want string
	}{
		{6, "topic?id=1 rate 1.00"}, {3, "topic?id=1 rate 1.00"}, {1, "topic?id=1 rate+share 1.00"},
	} {
		d.Add(at(0), count("topic?id=1", 0, step.n))
		if s, _ := d.Tick(at(0.1)); reasons(s) != step.want {
			t.Errorf("step %d: %q, want %q", i, reasons(s), step.want)
		}
	}
}

// Each path of the catch-all is a resource of its own.
func TestShareInTheCatchAll(t *testing.T) {
	t.Parallel()
	r := shared()
	r.Name = "*"
	d := New(set(r), Options{Shards: 4})
	d.AddAll(at(0), []hottype.Count{
		count("/a?x=1", 0, 20), count("/a?x=2", 0, 30), count("/b?x=1", 0, 12), count("/c", 0, 9),
		count("/d?x=1", 0, 90), count("/d?x=2", 0, 95),
	})
	s, _ := d.Tick(at(0.5))
	if got := reasons(s); got != "/d?x=2 share 0.51 /a?x=2 share 0.60 /b?x=1 share 1.00" {
		t.Error(got)
	}
}

// surging is hot from three times its past on, and 5 a second.
func surging() *rules.Rule {
	return &rules.Rule{Name: "topic", Hot: rules.HotCriteria{
		Surge: 3, MinRate: 5, Window: 5 * time.Second, Cooldown: 3 * time.Second, ReleaseRatio: 0.7,
	}}
}

func TestSurgeOverTheOwnPast(t *testing.T) {
	t.Parallel()
	d := New(set(surging()), Options{})
	rates := map[hottype.Key]int64{"topic?id=steady": 40, "topic?id=rises": 10, "topic?id=new": 0, "topic?id=small": 1}
	second := func(s int64) string {
		for key, n := range rates {
			if n > 0 {
				d.Add(at(float64(s)), count(key, s, n))
			}
		}
		set, _ := d.Tick(at(float64(s) + 0.9))
		return reasons(set)
	}
	for s := range int64(200) {
		if got := second(s); got != "" { // in the first minute everything is new
			t.Fatalf("second %d: %s is hot", s, got)
		}
	}
	rates["topic?id=rises"], rates["topic?id=new"], rates["topic?id=small"], rates["topic?id=steady"] = 50, 6, 4, 60
	for s := int64(200); s < 210; s++ {
		second(s)
	}
	// steady is heavier than all and has not risen much; small has risen most.
	if got := second(210); !strings.HasPrefix(got, "topic?id=rises surge") ||
		!strings.Contains(got, "topic?id=new surge") || strings.Contains(got, "steady") ||
		strings.Contains(got, "small") {
		t.Error(got)
	}
	if hot, _ := d.Tick(at(210.95)); hot.Keys[0].Baseline < 9 || hot.Keys[0].Baseline > 13 {
		t.Errorf("a key that had 10/s: %+v", hot.Keys)
	}
	// What is in a surge does not become its own past soon.
	for s := int64(211); s < 500; s++ {
		second(s)
	}
	if got := second(500); !strings.HasPrefix(got, "topic?id=rises surge") {
		t.Error(got)
	}
	rates["topic?id=rises"] = 12
	for s := int64(501); s < 512; s++ {
		second(s)
	}
	if got := second(512); strings.Contains(got, "rises") {
		t.Error(got)
	}
}

// The past of a flood is bounded, and is no reason to find less.
func TestPastIsBounded(t *testing.T) {
	t.Parallel()
	d := New(set(surging()), Options{Counters: 2000})
	for s := range int64(100) {
		batch := make([]hottype.Count, 0, 2000)
		for i := range 2000 {
			batch = append(batch, count(hottype.Key(fmt.Sprint("topic?id=", s, "-", i)), s, 3))
		}
		d.AddAll(at(float64(s)), batch)
	}
	if st := d.Stats(); st.Bytes > 2000*600 {
		t.Errorf("%+v", st)
	}
}

// The rate of a steady key reads the same early and late in a second.
func TestRateIsSteadyWithinASecond(t *testing.T) {
	t.Parallel()
	d := New(set(topic(0)), Options{})
	for tenth := range 200 {
		now := at(float64(tenth) / 10)
		d.Add(now, hottype.Count{Key: "topic?id=1", Second: now.Unix(), N: 10})
		s, _ := d.Tick(now.Add(99 * time.Millisecond))
		if tenth > 60 && (len(s.Keys) != 1 || s.Keys[0].Rate < 99.9 || s.Keys[0].Rate > 100.1) {
			t.Fatalf("at %v: %+v", now, s.Keys)
		}
	}
}

func TestCheckRefusesTooFewCounters(t *testing.T) {
	t.Parallel()
	criteria := func(rate, most float64, window int) *rules.Rule {
		return &rules.Rule{Name: "topic", Hot: rules.HotCriteria{Rate: rate, MaxRate: most,
			Window: time.Duration(window) * time.Second}}
	}
	for _, test := range []struct {
		rule *rules.Rule
		o    Options
		want string
	}{
		{criteria(200, 0, 5), Options{}, ""},       // nothing is said
		{criteria(200, 100_000, 5), Options{}, ""}, //
		{criteria(1, 10_000, 5), Options{}, ""},    // all of them fit
		{criteria(200, 1e6, 5), Options{},
			"131072 counters can be wrong by 588 requests in 5s, and a key is hot from 1000 on"},
		{criteria(200, 0, 5), Options{MaxRate: 1e6}, "set detect.counters to 154002 or more"},
		{criteria(200, 1e6, 5), Options{Counters: 154_002}, ""},
		{criteria(1, 1e6, 600), Options{}, "set a higher threshold (no number of counters"},
		{criteria(1, 0, 5), Options{Counters: -1}, "-1 counters are not between 1 and 8388608"},
		{criteria(1, 0, 5), Options{Counters: 1 << 24}, "16777216 counters are not"},
		{criteria(1, 0, 5), Options{MaxRate: -1}, "must not be negative"},
	} {
		err := Check(set(test.rule), test.o)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test.rule.Hot, err, test.want)
		}
	}
}

// Marks are rounded once, whatever the criterion: what is hot from 2.5 on cools
// below 0.8 of that, which is 2, and not below 0.8 of 3.
func TestThresholdsAreRoundedOnce(t *testing.T) {
	t.Parallel()
	const key, other = hottype.Key("topic?id=1"), hottype.Key("topic?id=2")
	for name, h := range map[string]rules.HotCriteria{
		"rate":     {Rate: 0.5},
		"share":    {Share: 0.5, MinRate: 0.1},
		"min rate": {Share: 0.01, MinRate: 0.5},
	} {
		h.Window, h.Cooldown, h.ReleaseRatio = 5*time.Second, time.Second/2, 0.8
		d := New(set(&rules.Rule{Name: "topic", Hot: h}), Options{})
		d.AddAll(at(0), []hottype.Count{count(key, 0, 1)})
		d.AddAll(at(1), []hottype.Count{count(key, 1, 2), count(other, 1, 3)})
		for _, now := range []float64{1, 4.9, 5, 5.9} { // from 5 on, 2 of 5
			if s, _ := d.Tick(at(now)); !strings.Contains(reasons(s), string(key)) {
				t.Errorf("%s: not hot at %v", name, now)
			}
		}
		if s, _ := d.Tick(at(6.5)); reasons(s) != "" {
			t.Errorf("%s: hot with nothing: %s", name, reasons(s))
		}
	}
}
