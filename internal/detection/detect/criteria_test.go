package detect

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// shared returns a rule by which a key is hot at half of the traffic and 10 in 5 s, or at 100 in 5 s.
func shared() *rules.Rule {
	return &rules.Rule{Name: "topic", Hot: rules.HotCriteria{
		Rate: 20, Share: 0.5, MinRate: 2, Window: 5 * time.Second, Cooldown: 3 * time.Second, ReleaseRatio: 0.7,
	}}
}

// reasons returns the hot keys and the criteria by which they are hot.
func reasons(s report.HotSet) string {
	var b strings.Builder
	for _, h := range s.Keys {
		fmt.Fprintf(&b, "%s %s %.2f ", h.Key, h.Why, h.Share)
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
		{0, count(a, 0, 9), false, ""},                                              // all of it, but under min_rate
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

// The share at a Tick is the part of all requests until then, with requests for keys that are not candidates.
func TestShareBesideLightKeys(t *testing.T) {
	t.Parallel()
	d := New(set(shared()), Options{})
	d.Add(at(0), count("topic?id=1", 0, 30))
	for i, want := range []string{"1.00", "0.79", "0.65"} {
		if s, _ := d.Tick(at(0.1)); reasons(s) != "topic?id=1 share "+want {
			t.Errorf("step %d: %s, want %s", i, reasons(s), want)
		}
		d.Add(at(0.1), count(hottype.Key(fmt.Sprint("topic?id=light", i)), 0, 8))
	}
}

// Below min_rate no key is hot by share, even a key that is hot by its rate.
func TestShareUnderItsFloorIsNoReason(t *testing.T) {
	t.Parallel()
	r := shared()
	r.Hot.Rate = 1 // 5 in 5 s; min_rate wants 10 for a share
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

// surging returns a rule by which a key is hot at three times its past and 5 a second.
func surging() *rules.Rule {
	return &rules.Rule{Name: "topic", Hot: rules.HotCriteria{
		Surge: 3, MinRate: 5, Window: 5 * time.Second, Cooldown: 3 * time.Second, ReleaseRatio: 0.7,
	}}
}

// A key whose share at the end of a second is reached by all counts of that second is hot when the next one begins,
// wherever in the second its requests are.
func TestTick_JudgesShareWhenSecondEnds(t *testing.T) {
	t.Parallel()
	const a, b, share = hottype.Key("topic?id=a"), hottype.Key("topic?id=b"), 0.5
	late := 0
	rapid.Check(t, func(rt *rapid.T) {
		window := rapid.Int64Range(1, 2).Draw(rt, "window")
		rule := &rules.Rule{Name: "topic", Hot: rules.HotCriteria{Share: share, MinRate: 2, ReleaseRatio: 0.7,
			Window: time.Duration(window) * time.Second, Cooldown: time.Second}}
		d := New(set(rule), Options{Shards: rapid.SampledFrom([]int{1, 4}).Draw(rt, "shards")})
		var counts []map[hottype.Key]int64 // by second
		shown := false                     // at the last Tick of a second
		for s := range rapid.Int64Range(2, 6).Draw(rt, "seconds") {
			counts = append(counts, map[hottype.Key]int64{})
			next := 0 // the next tenth with a Tick
			for i := range int64(100) {
				for ; float64(next)/10 <= float64(i)/100; next++ {
					hot, _ := d.Tick(at(float64(s) + float64(next)/10))
					shown = strings.Contains(reasons(hot), string(a))
				}
				if rapid.IntRange(0, 12).Draw(rt, "now") == 0 {
					key := rapid.SampledFrom([]hottype.Key{a, b}).Draw(rt, "key")
					d.Add(at(float64(s)+float64(i)/100), count(key, s, 1))
					counts[s][key]++
				}
				if i == 95 { // after the last Tick
					n := rapid.Int64Range(0, 9).Draw(rt, "late")
					d.Add(at(float64(s)+0.95), count(a, s, n))
					counts[s][a] += n
				}
			}
			ofA, all := int64(0), int64(0)
			for _, c := range counts[max(0, s-window+1):] {
				ofA, all = ofA+c[a], all+c[a]+c[b]
			}
			hot, _ := d.Tick(at(float64(s) + 1))
			if float64(ofA) >= max(2*float64(window), share*float64(all)) {
				if !strings.Contains(reasons(hot), string(a)) {
					rt.Fatalf("%d of %d in the window that ended with second %d: not hot", ofA, all, s)
				}
				if !shown {
					late++
				}
			}
		}
	})
	if late == 0 {
		t.Error("no key reached its share after the last Tick of a second")
	}
}

// A surge whose last requests come after the last Tick of a second is found when the next second begins.
func TestTick_JudgesSurgeWhenSecondEnds(t *testing.T) {
	t.Parallel()
	rule := surging()
	rule.Hot.Window = time.Second
	d := New(set(rule), Options{})
	const key = hottype.Key("topic?id=1")
	for s := range int64(200) {
		d.Add(at(float64(s)), count(key, s, 10))
		if hot, _ := d.Tick(at(float64(s) + 0.9)); len(hot.Keys) > 0 {
			t.Fatalf("second %d: %s", s, reasons(hot))
		}
	}
	d.Add(at(200), count(key, 200, 10))
	if hot, _ := d.Tick(at(200.9)); len(hot.Keys) > 0 {
		t.Fatalf("second 200: %s", reasons(hot))
	}
	d.Add(at(200.95), count(key, 200, 30))
	if hot, _ := d.Tick(at(201)); !strings.HasPrefix(reasons(hot), "topic?id=1 surge") {
		t.Errorf("%q is hot after 40 requests in a second in place of 10", reasons(hot))
	}
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
		if got := second(s); got != "" { // every key is new in the first minute
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
	// Requests of a surge enter the key's own past only slowly.
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

// The baseline of a flood is bounded, and hot keys are still found.
func TestDetector_BoundsTheBaselineOfAFlood(t *testing.T) {
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

// The rate of a steady key is the same early and late in a second.
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

func TestCheckRejectsTooFewCounters(t *testing.T) {
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
		{criteria(200, 0, 5), Options{}, ""},       // no rate is stated
		{criteria(200, 100_000, 5), Options{}, ""}, //
		{criteria(1, 10_000, 5), Options{}, ""},    // all of them fit
		{criteria(200, 1e6, 5), Options{},
			"131072 counters can be wrong by 588 requests in 5s, and a key is hot from 1000 on"},
		{criteria(200, 0, 5), Options{MaxRate: 1e6}, "set detect.counters to 154002 or more"},
		{criteria(200, 1e6, 5), Options{Counters: 154_002}, ""},
		{criteria(1, 1e6, 600), Options{}, "set a higher threshold (no number of counters"},
		{criteria(1, 1<<20, 5), Options{Future: 3 * time.Second}, "set detect.counters to 8388608 or more"},
		{criteria(1, 1<<20+1, 5), Options{Future: 3 * time.Second}, "(no number of counters up to 8388608 would do)"},
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

// Thresholds are rounded once, for every criterion: a key that becomes hot at 2.5 cools below 0.8 of that, which is 2,
// and not below 0.8 of 3.
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
		for _, now := range []float64{1, 4.9, 5, 5.9} { // hot from 5 on, cool below 2
			if s, _ := d.Tick(at(now)); !strings.Contains(reasons(s), string(key)) {
				t.Errorf("%s: not hot at %v", name, now)
			}
		}
		if s, _ := d.Tick(at(6.5)); reasons(s) != "" {
			t.Errorf("%s: hot with nothing: %s", name, reasons(s))
		}
	}
}

// Each criterion begins at its threshold, begins to cool below its release threshold and ends after the cooldown. A
// count at the release threshold meanwhile begins the cooling again.
func TestHysteresisTape(t *testing.T) {
	t.Parallel()
	for i := range criteria {
		required := [criteria]thresholds{noThresholds, noThresholds, noThresholds}
		required[i] = thresholds{10, 7}
		var h hysteresis
		for _, step := range []struct {
			at, completeFrom float64
			sum              int64
			want             bool
		}{
			{0, 0, 9, false}, {0.1, 0, 10, true}, {0.2, 0, 6, true}, {3.1, 0, 6, true}, {3.1, 0, 7, true},
			{4, 0, 6, true}, {6.9, 0, 6, true}, {6.95, 0, 12, true}, {7, 0, 6, true}, {9.9, 0, 0, true},
			{10, 8, 0, true}, {10.9, 8, 0, true}, {11, 8, 0, false}, {12, 8, 9, false},
		} {
			h.update(&required, step.sum, at(step.at))
			h.endCooledCriteria(at(step.at), at(step.completeFrom), 3*time.Second)
			if got := h.isHot(); got != step.want {
				t.Errorf("criterion %d at %v: hot %v", i, step.at, got)
			}
		}
		if h.thresholds != required[i] || h.why != []string{"rate", "share", "surge"}[i] {
			t.Errorf("criterion %d: %+v", i, h)
		}
	}
}

// A duration is rounded up to whole seconds.
func TestWholeSeconds_RoundsUp(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]int64{0: 0, 1: 1, time.Second - 1: 1, time.Second: 1, time.Second + 1: 2,
		5 * time.Second: 5} {
		if got := wholeSeconds(d); got != want {
			t.Errorf("%v: %d s, want %d", d, got, want)
		}
	}
}

// Errors returns each rule with its threshold and the greatest error of its shards.
func TestErrorsOfRules(t *testing.T) {
	t.Parallel()
	off := &rules.Rule{Name: "off", Hot: rules.HotCriteria{Window: time.Second}}
	d := New(set(topic(0), off, catchAll()), Options{Counters: 64, Shards: 2})
	for i := range 1000 {
		for _, rule := range []string{"topic", "off"} {
			d.Add(at(0), count(hottype.Key(fmt.Sprint(rule, "?id=", i)), 0, 3))
		}
	}
	worst := map[string]int64{}
	for _, l := range d.shards {
		for _, h := range l.states {
			worst[h.compiled.rule.Name] = max(worst[h.compiled.rule.Name], h.counts.Error())
		}
	}
	if worst["topic"] == 0 || worst["off"] == 0 {
		t.Fatal("nothing was given up")
	}
	want := []RuleError{
		{"topic", worst["topic"], 10, float64(worst["topic"]) / 10}, {"off", worst["off"], never, 0}, {"*", 0, 1, 0},
	}
	if got := d.Errors(); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if st := d.Stats(); st.Error != max(worst["topic"], worst["off"]) || st.ErrorRatio != want[0].Ratio {
		t.Errorf("%+v", st)
	}
}

// If a rule with few places has very many candidates, the lightest are dropped, and until the next second a key must be
// heavier than the lightest remaining candidate to be listed.
func TestPruneCandidates_Tape(t *testing.T) {
	t.Parallel()
	d := New(set(topic(1)), Options{}) // lists 66, and keeps 33
	add := func(id int, n int64) { d.Add(at(0.5), count(hottype.Key(fmt.Sprint("topic?id=", id)), 0, n)) }
	for i := range 66 {
		add(i, 20+int64(i))
	}
	for i, step := range []struct {
		id                 int
		n                  int64
		candidates, pruned int64
	}{
		{99, 9, 66, 0}, {100, 10, 34, 33}, // the 33 lightest of 66 are dropped: up to 52
		{101, 53, 34, 33}, {101, 1, 35, 33}, {102, 53, 35, 33}, {103, 54, 36, 33},
	} {
		add(step.id, step.n)
		if st := d.Stats(); st.Candidates != step.candidates || int64(st.Pruned) != step.pruned {
			t.Errorf("step %d: %d candidates, %d pruned, want %d and %d", i, st.Candidates, st.Pruned,
				step.candidates, step.pruned)
		}
	}
	d.Tick(at(1)) // all keys over the threshold are found again
	if st := d.Stats(); st.Candidates < 34 || st.Pruned <= 33 {
		t.Errorf("in the next second: %+v", st)
	}
}

// If the lightest keys of a full rule are rejected, a later window begins with all keys that reach the threshold, and
// so does the window after a clock reset. Of equal keys the first by name stay.
func TestPruneCandidates_OfEquals(t *testing.T) {
	t.Parallel()
	for _, next := range []float64{7, -3600} {
		d := New(set(topic(1)), Options{})
		add := func(at float64, id int, n int64) bool {
			c := count(hottype.Key(fmt.Sprint("topic?id=", id)), int64(at), n)
			c.Origin = hottype.Origin{Tag: uint32(id), N: n} // a network for each
			return d.Add(start.Add(time.Duration(at*1e9)), c)
		}
		for i := range 67 { // the last makes room for itself
			add(0, 199-i, 20)
		}
		var kept []string
		for _, c := range d.shards[0].states[0].candidates {
			if c != nil {
				kept = append(kept, string(c.key)[len("topic?id="):])
			}
		}
		slices.Sort(kept)
		if len(kept) != 34 || kept[0] != "133" || kept[33] != "166" {
			t.Errorf("kept are %v", kept)
		}
		// Keys equal to the dropped ones are not evaluated.
		if limit := d.shards[0].states[0].counts.Limit(); limit != 21 {
			t.Errorf("keys are looked at from %d on", limit)
		}
		if add(0, 300, 20) || !add(0, 301, 21) {
			t.Error("not the heavier ones are listed")
		}
		if add(next, 300, 9) || !add(next, 300, 1) {
			t.Errorf("at %v: not hot at its threshold", next)
		}
	}
}

// A key that is listed but not hot becomes hot with the count that reaches the rate of new rules, not with the next
// Tick.
func TestListedKeyReachesTheRateOfNewRules(t *testing.T) {
	t.Parallel()
	rule := func(rate float64) *rules.Rule {
		r := topic(0)
		r.Hot.Rate, r.Hot.Share, r.Hot.MinRate = rate, 0.9, 2
		return r
	}
	for _, rate := range []float64{10, 30} {
		d := New(set(rule(20)), Options{})
		add := func(id int, n int64) bool {
			return d.Add(start, count(hottype.Key(fmt.Sprint("topic?id=", id)), 0, n))
		}
		for i := range 200 { // traffic in which the key has a small share
			add(1000+i, 5)
		}
		if add(1, 15) || d.Stats().Candidates != 1 {
			t.Fatalf("%+v", d.Stats())
		}
		d.SetRules(set(rule(rate)))
		if rest := int64(rate)*5 - 15; add(1, rest-1) || !add(1, 1) {
			t.Errorf("at a rate of %v: not hot at once", rate)
		}
	}
}

// A key without traffic is below every release threshold, so it cools.
func TestThresholdsAreOneAtLeast(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		product, ratio float64
		want           thresholds
	}{{10, 0.7, thresholds{10, 7}}, {10, 0, thresholds{10, 1}}, {0, 0.7, thresholds{1, 1}}, {1, 1, thresholds{1, 1}}} {
		r := topic(0)
		r.Hot.ReleaseRatio = c.ratio
		if got := compileRule(r).thresholdsFor(c.product); got != c.want {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

func TestOptions_HaveDefaults(t *testing.T) {
	t.Parallel()
	want := Options{Counters: 131_072, Shards: 1, Lateness: 10 * time.Second, Future: 2 * time.Second,
		HotTTL: 5 * time.Second, MaxSketches: 4096}
	unset := Options{Counters: -1, Shards: -1, Lateness: -1, Future: -1, HotTTL: -1, MaxSketches: -1}
	few := Options{Counters: 1, Shards: 3, Lateness: 1, Future: 1, HotTTL: 1, MaxSketches: 1}
	many := Options{Counters: MaxCounters + 1, Shards: 65, Lateness: 1, Future: 1, HotTTL: 1, MaxSketches: 1}
	for o, want := range map[Options]Options{
		{}: want, unset: want, want: want,
		few:  {Counters: 1, Shards: 4, Lateness: 1, Future: 1, HotTTL: 1, MaxSketches: 1},
		many: {Counters: MaxCounters, Shards: 64, Lateness: 1, Future: 1, HotTTL: 1, MaxSketches: 1},
	} {
		if got := o.withDefaults(); got != want {
			t.Errorf("%+v: %+v, want %+v", o, got, want)
		}
		for _, l := range New(set(), o).shards {
			if want := max(want.MaxSketches/want.Shards, 1); l.budget.free != want {
				t.Errorf("%+v: a shard has %d client sketches, want %d", o, l.budget.free, want)
			}
		}
	}
}

// A key that is pruned for a heavier key between two steps of a Tick is reported as displaced.
func TestKeyThatLeavesWithinATick(t *testing.T) {
	t.Parallel()
	for _, leaves := range []bool{false, true} {
		d := New(set(topic(1)), Options{})
		d.Add(at(0), count("topic?id=1", 0, 10))
		l := d.shards[0]
		tick := d.last.next(d.opts.HotTTL, 1)
		tick.now = l.classifyCandidates(at(0), tick)
		tick.placeViews(tick.hotViews[0], 1, &tick.keys, BecameHot, Cooled)
		if leaves {
			l.states[0].removeCandidate(l.states[0].candidates[0])
		}
		l.recordShown(tick)
		want := ""
		if leaves {
			want = "cooled:topic?id=1@0.1 displaced"
		}
		if got := tape(d.Tick(at(0.1))); strings.TrimPrefix(got, "topic?id=1=2") != want {
			t.Errorf("leaves %v: %q", leaves, got)
		}
	}
}

// A key that was never counted surges at min_rate; a key whose past is unknown never surges.
func TestThresholdsOfCriteria(t *testing.T) {
	t.Parallel()
	r := &rules.Rule{Hot: rules.HotCriteria{Rate: 20, Share: 0.5, Surge: 3, MinRate: 2, Window: 5 * time.Second,
		ReleaseRatio: 0.5}}
	rate, floor := thresholds{100, 50}, thresholds{10, 5}
	for _, c := range []struct {
		total int64
		past  float64
		want  [criteria]thresholds
	}{
		{0, -1, [criteria]thresholds{rate, floor, noThresholds}}, {0, 0, [criteria]thresholds{rate, floor, floor}},
		{20, 0.5, [criteria]thresholds{rate, floor, floor}},
		{40, 10, [criteria]thresholds{rate, {20, 10}, {30, 15}}},
	} {
		if got := compileRule(r).criteriaThresholds(c.total, c.past); got != c.want {
			t.Errorf("%+v: %+v", c, got)
		}
	}
	r.Hot.Share, r.Hot.Surge = 0, 0
	if got := compileRule(r).criteriaThresholds(40, 10); got != [criteria]thresholds{rate, noThresholds, noThresholds} {
		t.Errorf("by rate only: %+v", got)
	}
}

// Stats counts the keys that lose their places.
func TestStats_CountsDisplacedKeys(t *testing.T) {
	t.Parallel()
	d := New(set(topic(1)), Options{})
	for i := range int64(4) {
		d.Add(at(0), count(hottype.Key(fmt.Sprint("topic?id=", i)), 0, 10*(1+i)))
		d.Tick(at(0))
	}
	if st := d.Stats(); st.Displaced != 3 || st.Hot != 1 {
		t.Errorf("%+v", st)
	}
}
