package replay_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/accesslog"
	"github.com/hotparam/pipeline/internal/counting/unpack"
	"github.com/hotparam/pipeline/internal/operator/replay"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

var update = flag.Bool("update", false, "write the golden files anew")

// small has every kind of limit that a small log can meet.
const small = `
rules:
  - name: topic
    match: {path: "/topic", methods: [GET]}
    params: [id]
    hot: {rate: 1, window: 2s, cooldown: 1s}
    limit: {algorithm: token_bucket, rate: 1, burst: 1}
  - name: "*"
    params: ["*"]
    hot: {rate: 500, window: 5s}
    limit: {rate: 100, burst: 200}
ip:
  fixed: {limit: 2, window: 1s}
  sliding: {limit: 100, window: 60s}
classes:
  - {name: bot, match: {header: User-Agent, pattern: "bot"}, ip: {fixed: {limit: 1, window: 1s}}}
overrides:
  - {key: "/form", action: block, reason: "closed"}
`

// plain detects only: a catch-all over the whole query.
func plain(rate string) string {
	return `
rules:
  - name: "*"
    params: ["*"]
    hot: {rate: ` + rate + `, window: 5s}
query_bounds: {value_bytes: 2048}
`
}

func parse(t testing.TB, config string) *rules.Set {
	t.Helper()
	set, err := rules.Parse("test.yaml", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func text(name, s string) replay.Source {
	return replay.Source{Name: name, Reader: strings.NewReader(s), Unpack: unpack.Reader}
}

// rendered runs a replay and returns the JSON of its report.
func rendered(t testing.TB, cfg replay.Config, logs ...replay.Source) string {
	t.Helper()
	rep, err := replay.Run(context.Background(), cfg, logs...)
	if err != nil {
		t.Fatal(err)
	}
	return document(t, rep)
}

func document(t testing.TB, rep *replay.Report) string {
	t.Helper()
	var b strings.Builder
	if err := rep.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestRun_ReportEqualsGoldenFiles(t *testing.T) {
	t.Parallel()
	log, err := os.ReadFile("testdata/small.log")
	if err != nil {
		t.Fatal(err)
	}
	rep, err := replay.Run(context.Background(), replay.Config{Rules: parse(t, small)}, text("small.log", string(log)))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "small.golden.json", document(t, rep))
	var b strings.Builder
	if err := replay.Write(&b, rep, replay.Options{Width: 80}); err != nil {
		t.Fatal(err)
	}
	golden(t, "small.golden.txt", b.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got): %s", name, diff)
	}
}

// This burst of 100 requests in one second is worked out by hand: the tenth request makes the key hot; of the 90
// requests after it, at 10 ms each, the first takes the only token and the next token comes a second later.
func TestRun_LimitsBurstFromItsThresholdOn(t *testing.T) {
	t.Parallel()
	config := `
rules:
  - name: t
    match: {path: "/t"}
    params: [id]
    hot: {rate: 10, window: 1s, cooldown: 2s}
    limit: {algorithm: token_bucket, rate: 1, burst: 1}
`
	log := strings.Repeat("1000000000\tc\tGET\t/t?id=1\n", 100) + "1000000050\tc\tGET\t/t?id=1\n"
	rep, err := replay.Run(context.Background(), replay.Config{Rules: parse(t, config)}, text("log", log))
	if err != nil {
		t.Fatal(err)
	}
	if rep.Denied != (report.Denials{hottype.ReasonHot: 89}) || rep.Keys[0].Denied != 89 ||
		rep.Clients[0].Denied != 89 {
		t.Errorf("denied %+v, of the key %d, of the client %d; want 89", rep.Denied, rep.Keys[0].Denied,
			rep.Clients[0].Denied)
	}
	if len(rep.Hot) != 1 || rep.Hot[0].From != 1000000000 || rep.Hot[0].PeakRate != 100 ||
		rep.Hot[0].Until > 1000000005 {
		t.Errorf("hot %+v", rep.Hot)
	}
	if diff := cmp.Diff(map[int64]int{1000000000: 1}, lengths(rep)); diff != "" {
		t.Error(diff)
	}
}

// A log has no cookies, so only classes by fields and networks have places in a replay.
func TestRun_KnowsPriority(t *testing.T) {
	t.Parallel()
	const rules = `
rules:
  - {name: page, match: {path: /page}, params: [], hot: {rate: 1, window: 1s}, limit: {rate: 1, burst: 8, priority: [app, visitor]}}
classes:
  - {name: app, match: {header: User-Agent, pattern: "app"}}
  - {name: visitor, pass_age: 10s}
`
	line := `192.0.2.%d - - [01/Jan/2026:12:00:%02d +0000] "GET /page HTTP/1.1" 200 1 "-" "%s"` + "\n"
	var log strings.Builder
	for second := range 10 {
		for i := range 10 {
			agent := "crawler"
			if i == 9 { // the last of each second
				agent = "app"
			}
			fmt.Fprintf(&log, line, i, second, agent)
		}
	}
	denied := map[string]int{}
	cfg := replay.Config{Rules: parse(t, rules), Verdict: func(s *replay.Seen, v *hottype.Verdict) {
		if !v.Allowed {
			denied[v.Class]++
		}
	}}
	if _, err := replay.Run(context.Background(), cfg, text("log", log.String())); err != nil {
		t.Fatal(err)
	}
	if denied["app"] != 0 || denied[""] < 60 {
		t.Errorf("denied by class: %v", denied)
	}
}

func lengths(rep *replay.Report) map[int64]int {
	n := map[int64]int{}
	for s, keys := range rep.HotSeconds {
		n[s] = len(keys)
	}
	return n
}

// Lines may be in any order within the lateness, and in any files in any order:
// the report is the same.
func TestRun_DoesNotDependOnOrderOfLines(t *testing.T) {
	t.Parallel()
	set := parse(t, small)
	rapid.Check(t, func(rt *rapid.T) {
		lines := drawEvents(rt)
		want := numbers(rt, set, lines)
		shuffled := rapid.Permutation(lines).Draw(rt, "shuffled")
		cut := rapid.IntRange(0, len(lines)).Draw(rt, "cut")
		if diff := cmp.Diff(want, numbers(rt, set, shuffled[:cut], shuffled[cut:])); diff != "" {
			rt.Fatal(diff)
		}
	})
}

// numbers runs a replay of files of events and returns the report without the facts about the files.
func numbers(t *rapid.T, set *rules.Set, files ...[]string) *replay.Report {
	var logs []replay.Source
	for _, f := range files {
		logs = append(logs, text("", strings.Join(f, "\n")))
	}
	rep, err := replay.Run(context.Background(), replay.Config{Rules: set, Format: accesslog.Events}, logs...)
	if err != nil {
		t.Fatal(err)
	}
	rep.Sources = nil
	return rep
}

// drawEvents draws events of few clients and keys within some minutes.
func drawEvents(t *rapid.T) []string {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
		return fmt.Sprintf("%d\t%s\tGET\t%s", 1_000_000_000+
			rapid.IntRange(0, 30).Draw(t, "second")*rapid.SampledFrom([]int{1, 1, 9}).Draw(t, "times"),
			rapid.SampledFrom([]string{"192.0.2.1", "192.0.2.2", "2001:db8::1", "c", "-"}).Draw(t, "client"),
			rapid.SampledFrom([]string{"/topic?id=1", "/topic?id=2", "/topic", "/b?y=2&x=1", "/b?x=1&y=2", "/form"}).
				Draw(t, "target"))
	}), 1, 80).Draw(t, "events")
}

func TestRun_StopsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	calls := 0
	cfg := replay.Config{Progress: func(int64) {
		if calls++; calls == 2 {
			cancel()
		}
	}}
	rep, err := replay.Run(ctx, cfg, text("log", events(1e9, 100_000)))
	if !errors.Is(err, context.Canceled) || rep == nil || rep.Requests >= 100_000 {
		t.Errorf("%v, %+v", err, rep)
	}
}

// Speed changes when the report comes, and nothing else.
func TestRun_SpeedChangesOnlyTheTime(t *testing.T) {
	t.Parallel()
	log := events(1e9, 1000) // seconds 0 to 99
	want := rendered(t, replay.Config{}, text("log", log))
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var last int64
		cfg := replay.Config{Speed: 10, Progress: func(bytes int64) { last = bytes }}
		if got := rendered(t, cfg, text("log", log)); got != want {
			t.Error(cmp.Diff(want, got))
		}
		if took := time.Since(began); took != 9900*time.Millisecond {
			t.Errorf("took %s", took)
		}
		if last != int64(len(log)) {
			t.Errorf("progress %d", last)
		}
	})
}

func TestRun_RejectsInvalidConfig(t *testing.T) {
	t.Parallel()
	for _, cfg := range []replay.Config{{Format: "syslog"}, {Lateness: -1}, {MaxKeys: -1}, {MaxBuffer: -1},
		{Speed: -1}} {
		if rep, err := replay.Run(context.Background(), cfg); err == nil || rep != nil ||
			!strings.HasPrefix(err.Error(), "replay: ") {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	if rep, err := replay.Run(context.Background(), replay.Config{}); err != nil || rep.Requests != 0 {
		t.Errorf("no sources: %v, %+v", err, rep)
	}
}
