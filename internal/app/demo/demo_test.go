package demo

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/detect"
)

func TestRulesOf_ParsesDemoRules(t *testing.T) {
	t.Parallel()
	sets, err := rulesOf(Rules)
	if err != nil {
		t.Fatal(err)
	}
	for phase, want := range map[int][2]bool{limited: {}, served: {true, false}, adaptive: {false, true}} {
		r := sets[phase].RuleFor("topic")
		if got := [2]bool{r.Cache != nil, r.Limit.Adaptive != nil}; got != want {
			t.Errorf("phase %d is served and adaptive: %v, want %v", phase, got, want)
		}
	}
}

func TestPlan_PhasesBeginInTime(t *testing.T) {
	t.Parallel()
	p := newPlan(20 * time.Second)
	for at, want := range map[time.Duration]int{
		0: before, time.Second: limited, 2 * time.Second: limited, 4 * time.Second: limited, 5 * time.Second: between,
		7 * time.Second: between, 8 * time.Second: served, 9 * time.Second: served, 10 * time.Second: pause,
		11 * time.Second: adaptive, 12 * time.Second: adaptive, 14 * time.Second: slowed, 19 * time.Second: slowed,
		20 * time.Second: after,
	} {
		if got := p.phaseAt(at); got != want {
			t.Errorf("phase at %v is %d, want %d", at, got, want)
		}
	}
	forever := newPlan(0)
	if forever.phaseAt(10*time.Second) != limited || forever.phaseAt(forever.length+60*time.Second) != slowed ||
		forever.phaseAt(79*time.Second) != after {
		t.Error("a demo without end does not repeat its wave")
	}
}

// The watcher's own account of a wave: 300 requests a second against a threshold of 400 in 2 s, found 50 ms and
// enforced 80 ms after the threshold was reached.
func TestWatcher_MeasuresWave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWatcher("topic?id=1", 400, 2*time.Second, 100, 100)
		crossed := time.Time{}
		for i := range 500 {
			w.onSend(Viral, time.Now())
			w.onSend(Quiet, time.Now())
			if i == 399 {
				crossed = time.Now()
			}
			time.Sleep(time.Second / 300)
			if i == 399 {
				break
			}
		}
		time.Sleep(50*time.Millisecond - time.Since(crossed))
		wave := w.onChange(detect.Change{Kind: detect.BecameHot, Hot: hottype.HotKey{Key: "topic?id=1"}})
		if wave == nil || wave.FoundMS != 50 {
			t.Fatalf("%+v, want found after 50 ms", wave)
		}
		if w.onChange(detect.Change{Kind: detect.BecameHot, Hot: hottype.HotKey{Key: "topic?id=2"}}) != nil {
			t.Error("another key's change is taken for the viral one's")
		}
		time.Sleep(30 * time.Millisecond)
		w.onDone(Viral, 429)
		w.onDone(Viral, 200)
		w.onDone(Quiet, 200)
		time.Sleep(time.Second)
		w.onChange(detect.Change{Kind: detect.Cooled, Hot: hottype.HotKey{Key: "topic?id=1"}})
		got := w.Waves()
		if len(got) != 1 || got[0].EnforcedMS != 80 || got[0].Asked != 2 || got[0].LetThrough != 1 ||
			got[0].Bound != 200 || got[0].Cooled.IsZero() {
			t.Errorf("%+v", got)
		}
	})
}

// The demo itself, as short as possible: requests for quiet topics must all be answered, and the viral topic must have
// been found and limited.
func TestRun_FindsAndLimitsViralTopic(t *testing.T) {
	if os.Getenv("HOTPARAM_REQUIRE_SERVERS") == "" {
		t.Skip("waits for twenty seconds to pass; runs with HOTPARAM_REQUIRE_SERVERS=1")
	}
	t.Parallel()
	var out strings.Builder
	var r Result
	opts := Options{Command: Command{Duration: 20 * time.Second, Topics: 100, Listen: "127.0.0.1:0"}, Out: &out,
		Result: func(got Result) error { r = got; return nil }, Serve: "hotparam serve",
		Log: slog.New(slog.DiscardHandler)}
	if err := Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	// A pipeline that holds requests back makes them fail. If no request has failed, few were sent.
	few := r.Limited.Failed == 0 && float64(r.Limited.Total()) < 100*r.Limited.Seconds
	if r.tooBusy() || few {
		t.Skipf("this machine is too busy to send what the demo needs; not sent: %d requests", r.Behind)
	}
	for _, want := range []string{"is hot", "other topics", "turned away", "held to its limit:", "from memory:",
		"the site becomes slow", "the site is slow:", "hotparam serve --upstream"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the demo does not say %q:\n%s", want, &out)
		}
	}
	if !strings.Contains(out.String(), "(100.00 %)") {
		t.Errorf("not every request for another topic was answered:\n%s", &out)
	}
	// Requests that were on their way when the wave began or ended are counted on one side only.
	if l := r.Limited; l.Denied < l.OK || l.Site+connections < l.OK || l.Site > l.OK+connections {
		t.Errorf("the first wave was not held to its limit: %+v", l)
	}
	if a := r.Adaptive; a.Slow.Denied == 0 || len(a.Limits) == 0 || a.Limits[len(a.Limits)-1].Rate >= 2000 {
		t.Errorf("the limit of the third wave did not follow the site: %+v", a)
	}
	// Until the topic is hot again all requests reach the site: the threshold, and the requests that come while it is
	// found.
	if s := r.Served; s.Total() < 500 || float64(s.OK) < 0.99*float64(s.Total()) ||
		float64(s.Site) > 100+100*s.Seconds {
		t.Errorf("of the second wave %d were answered, %d by the site: %+v", s.OK, s.Site, s)
	}
}
