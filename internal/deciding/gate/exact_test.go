package gate

import (
	"fmt"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// A new name replaces the lightest name, or the first by name of several, regardless of the order of the map.
func TestTopNamesTape(t *testing.T) {
	t.Parallel()
	for range 10 {
		h := topNames{}
		h.add("")
		for i := range sampleNames {
			for range 1 + (i+20)%sampleNames {
				h.add(fmt.Sprintf("n%02d", i))
			}
		}
		h.add("new") // n04 has 1
		if h["n04"] != 0 || h["new"] != 2 || len(h) != sampleNames {
			t.Fatalf("%v", h)
		}
		h.add("other") // n05 and new have 2
		if h["n05"] != 0 || h["other"] != 3 || h["new"] != 2 {
			t.Fatalf("%v", h)
		}
		h.add("other")
		top := h.heaviestNames()
		if len(top) != 5 || top[0] != (report.NameCount{Name: "n03", N: 24}) ||
			top[4] != (report.NameCount{Name: "n23", N: 20}) {
			t.Fatalf("%v", top)
		}
		h.halveCounts()
		if h["n03"] != 12 || h["n02"] != 11 || h["new"] != 1 || h["n06"] != 1 {
			t.Fatalf("%v", h)
		}
		h.halveCounts()
		if _, known := h["new"]; known || h["n03"] != 6 {
			t.Fatalf("%v", h)
		}
	}
}

// Counts of a key are halved at 2048 samples.
func TestSamplesAreHalved(t *testing.T) {
	t.Parallel()
	k := &keySample{prefixes: topNames{}, classes: topNames{}, spelling: topNames{}}
	for range 2047 {
		k.add("p", "c", "s")
	}
	if s := k.report("k"); s.Sampled != 2047 || s.Prefixes[0].N != 2047 || s.Classes[0].N != 2047 ||
		s.Spellings[0].N != 2047 {
		t.Errorf("%+v", s)
	}
	k.add("p", "c", "s")
	if s := k.report("k"); s.Sampled != 1024 || s.Prefixes[0].N != 1024 || s.Classes[0].N != 1024 ||
		s.Spellings[0].N != 1024 {
		t.Errorf("%+v", s)
	}
}

func TestNetworkOfAClient(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{"192.0.2.77": "192.0.2.0/24", "2001:db8:1:2::3": "2001:db8:1::/48"} {
		if got := prefixOf(hottype.Client{Addr: netip.MustParseAddr(addr)}); got != want {
			t.Errorf("%s: %s", addr, got)
		}
	}
	for n, want := range map[int]int{0: 0, 63: 63, 64: 64, 65: 64} {
		if got := prefixOf(hottype.Client{Name: string(make([]byte, n))}); len(got) != want {
			t.Errorf("a name of %d: %d bytes", n, len(got))
		}
	}
}

// A gate without any part decides.
func TestGateOfNothing(t *testing.T) {
	t.Parallel()
	g := New(Config{})
	v := g.Decide(t.Context(), time.Unix(1, 0), &hottype.Request{Method: "GET", Target: "/a?b=c"})
	if !v.Allowed || g.cfg.Hot == nil || g.cfg.Local == nil || DefaultBudget != 20*time.Millisecond {
		t.Errorf("%+v", v)
	}
}

// The verdict has the numbers of the limit that has least left, of several the first.
func TestTightestLimitIsReported(t *testing.T) {
	t.Parallel()
	var d decision
	var v verdict.Verdict
	for i, c := range []struct {
		remaining int64
		want      string
	}{{5, "r0"}, {5, "r0"}, {6, "r0"}, {4, "r3"}, {0, "r4"}, {0, "r4"}} {
		b := boundLimit{rule: fmt.Sprint("r", i), window: time.Duration(i)}
		d.reportLimit(&v, &b, &limit.Result{Allowed: true, Remaining: c.remaining, Limit: int64(i),
			ResetAfter: time.Duration(i)})
		if v.Rule != c.want {
			t.Errorf("step %d: %s, want %s", i, v.Rule, c.want)
		}
	}
	if v.Limit != 4 || v.Remaining != 0 || v.ResetAfter != 4 || v.Window != 4 {
		t.Errorf("%+v", v)
	}
}

// The time in which a limit's whole capacity comes back.
func TestRefillOfALimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec limit.Spec
		want time.Duration
	}{
		{limit.Spec{Algorithm: limit.FixedWindow, Limit: 5, Window: time.Minute, Burst: 9}, time.Minute},
		{limit.Spec{Algorithm: limit.TokenBucket, Limit: 10, Window: time.Second, Burst: 25}, 2500 * time.Millisecond},
		{limit.Spec{Algorithm: limit.TokenBucket, Window: time.Second, Burst: 25}, time.Second},
		{limit.Spec{Algorithm: limit.TokenBucket, Limit: 1, Window: time.Second, Burst: -1}, time.Second},
		{limit.Spec{Algorithm: limit.TokenBucket, Limit: 1, Window: time.Second}, 0},
		{limit.Spec{Algorithm: limit.GCRA, Limit: 4, Window: time.Second, Burst: 3}, time.Second},
		{limit.Spec{Algorithm: limit.TokenBucket, Limit: 1, Window: math.MaxInt64, Burst: 1}, math.MaxInt64},
		{limit.Spec{Algorithm: limit.TokenBucket, Limit: 1, Window: math.MaxInt64, Burst: 2}, math.MaxInt64},
		{limit.Spec{Algorithm: limit.TokenBucket, Limit: 1, Window: math.MaxInt64, Burst: 1 << 40}, math.MaxInt64},
		{limit.Spec{Algorithm: limit.TokenBucket, Limit: 1, Window: 1 << 31, Burst: 1 << 33}, math.MaxInt64},
	} {
		if got := refillTime(c.spec); got != c.want {
			t.Errorf("%+v: %v, want %v", c.spec, got, c.want)
		}
	}
}

// Each state has a number of its own, by which a memoised limit of an older state is recognised.
func TestNewState_NumbersStates(t *testing.T) {
	t.Parallel()
	g := New(Config{})
	var old *state
	for want := uint64(1); want < 4; want++ {
		if old = g.newState(old, &rules.Set{}, rules.LiveOverrides{}); uint64(old.gen) != want {
			t.Errorf("number %d, want %d", old.gen, want)
		}
	}
}

// Clients that need no limit, as prefixes are written and as clients are read.
func TestExemptPrefixes(t *testing.T) {
	t.Parallel()
	if exemptTable(nil) != nil {
		t.Error("a table of nothing")
	}
	for _, c := range []struct {
		prefix, client string
		want           bool
	}{
		{"192.0.2.0/24", "192.0.2.255", true}, {"192.0.2.0/24", "192.0.3.0", false},
		{"2001:db8:0:0:8000::1/128", "2001:db8::2", true},
		{"::ffff:192.0.2.0/120", "192.0.2.255", true}, {"::ffff:192.0.2.0/120", "192.0.3.0", false},
		{"::ffff:0.0.0.0/96", "203.0.113.1", true}, {"2001:db8::/48", "2001:db8:0:ffff::", true},
		{"2001:db8::/48", "2001:db8:1::", false}, {"2001:db8:0:1::5/128", "2001:db8:0:1::", true},
		{"2001:db8:0:1::/65", "2001:db8:0:1::", true}, {"2001:db8:0:1::/64", "2001:db8:0:2::", false},
	} {
		table := exemptTable([]netip.Prefix{netip.MustParsePrefix(c.prefix)})
		if got := table.Lookup(netip.MustParseAddr(c.client)); got != c.want {
			t.Errorf("%s in %s: %v", c.client, c.prefix, got)
		}
	}
}
