package aggregate

import (
	"bytes"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/logbound"
	"github.com/hotparam/pipeline/internal/rules"
)

// The log shows which key became hot, its rate and the criterion, and when it cooled.
func TestChangeLog_LogsHotAndCold(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	bubble(t, Config{Log: slog.New(slog.NewTextHandler(&log, nil))}, func(t *testing.T, a *Aggregator, stop func()) {
		send(t, a, "topic?id=1", 12)
		if out := log.String(); !strings.Contains(out,
			`msg="aggregate: a key became hot" key="topic?id=1" rule=topic rate=2.4 threshold="2/s over 5s" why=rate`) {
			t.Errorf("hot:\n%s", out)
		}
		log.Reset()
		a.SetRules(rulesOf(1))
		send(t, a, "topic?id=2", 5)
		pass(10 * time.Second)
		stop()
		out := log.String()
		if !strings.Contains(out, `threshold="1/s over 5s"`) ||
			!strings.Contains(out, `msg="aggregate: a key is cold again" key="topic?id=1" rule=topic for=8s peak=2.4`) {
			t.Errorf("cold:\n%s", out)
		}
	})
}

// The line about a key that became hot has the rate that reached the threshold, if the rate is lower when the line is
// written, as after a takeover that reads counts again.
func TestChangeLog_ShowsPeak(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	l := changeLog{log: slog.New(slog.NewTextHandler(&log, nil)), rules: func() *rules.Set { return rulesOf(50) }}
	l.logChanges([]detect.Change{{Kind: detect.BecameHot, Hot: hottype.HotKey{Key: "topic?id=1", Rule: "topic", Rate: 22,
		PeakRate: 55.04}}})
	if out := log.String(); !strings.Contains(out, `rate=22 threshold="50/s over 5s"`) ||
		!strings.Contains(out, " peak=55\n") {
		t.Error(out)
	}
}

// The log names the units of a cost, and a rate of requests is a number as ever.
func TestChangeLog_NamesUnitsOfCosts(t *testing.T) {
	t.Parallel()
	slow := &rules.Rule{Name: "slow", Cost: hottype.CostTime, Hot: rules.HotCriteria{Rate: 0.5, Window: 5 * time.Second}}
	for _, c := range []struct {
		kind detect.Kind
		want string
	}{{detect.BecameHot, `rate="1.5 s/s" threshold="0.5 s/s over 5s"`}, {detect.LoopBegan, ` peak="2 s/s"`},
		{detect.Cooled, ` peak="2 s/s"`}} {
		var log bytes.Buffer
		l := changeLog{log: slog.New(slog.NewTextHandler(&log, nil)),
			rules: func() *rules.Set { return &rules.Set{Rules: []*rules.Rule{slow}} }}
		l.logChanges([]detect.Change{{Kind: c.kind, Hot: hottype.HotKey{Key: "slow?id=1", Rule: "slow",
			Cost: hottype.CostTime, Rate: 1.5, PeakRate: 2}}})
		if out := log.String(); !strings.Contains(out, c.want) {
			t.Error(out)
		}
	}
}

// A flood of hot keys is logged in few lines, and all of it is counted.
func TestFloodOfHotKeysDoesNotFloodTheLog(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	bounded := logbound.Logger(slog.New(slog.NewTextHandler(&log, nil)))
	bubble(t, Config{Log: bounded}, func(t *testing.T, a *Aggregator, stop func()) {
		stopLog := logbound.Start(bounded)
		for i := range 500 {
			send(t, a, hottype.Key(fmt.Sprint("topic?id=", i, strings.Repeat("x", 7000))), 10)
			pass(10 * time.Millisecond)
		}
		pass(20 * time.Second)
		stop()
		stopLog()
		out := log.String()
		if lines := strings.Count(out, "\n"); lines > 3*2*20+3 || len(out) > 600*lines {
			t.Errorf("%d lines, %d bytes", lines, len(out))
		}
		hot, cold := strings.Count(out, "became hot\""), strings.Count(out, "cold again")
		for line := range strings.Lines(out) {
			if _, rest, ok := strings.Cut(line, "suppressed="); ok {
				n, err := strconv.Atoi(strings.TrimSpace(rest))
				if err != nil {
					t.Error(err)
				}
				if strings.Contains(line, "became hot") {
					hot += n
				} else {
					cold += n
				}
			}
		}
		if hot != 500 || cold != 500 {
			t.Errorf("%d became hot and %d cold:\n%.3000s", hot, cold, out)
		}
	})
}

func TestChangeLog_HasALineForEachChange(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	l := changeLog{slog.New(slog.NewTextHandler(&log, nil)), New(Config{Rules: rulesOf(2)}).rules.Load}
	now := time.Unix(1000, 0)
	h := hottype.HotKey{Key: "topic?id=1\x1b", Rule: "topic", Rate: 3.14159, PeakRate: 5, Since: now.Add(-3 * time.Second),
		HeaviestClient: "192.0.2.1"}
	l.logChanges([]detect.Change{
		{Hot: h, Kind: detect.LoopBegan, At: now}, {Hot: h, Kind: detect.LoopEnded, At: now},
		{Hot: h, Kind: detect.Cooled, At: now, Displaced: true},
		{Hot: hottype.HotKey{Key: "gone", Rule: "gone"}, Kind: detect.BecameHot, At: now},
	})
	for _, want := range []string{
		"a loop: one or a few clients", "rate=3.1", "client=192.0.2.1", "the loop has ended", "for=3s peak=5",
		"(max_hot)", `threshold=""`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in\n%s", want, &log)
		}
	}
	if strings.Contains(log.String(), "\x1b") {
		t.Error("raw bytes in the log")
	}
}
