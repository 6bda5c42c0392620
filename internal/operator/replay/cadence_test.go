package replay_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/clientsketch"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/operator/replay"
	"github.com/hotparam/pipeline/internal/rules"
)

// A key that is hot only by its share or its surge does not cross a threshold by its own count: others move its
// threshold, and only a Tick notices it.
func TestRun_FindsKeysHotByShareAndSurge(t *testing.T) {
	t.Parallel()
	var share, surge strings.Builder
	for s := range 80 { // half of the traffic from the fortieth second on
		for i := range 110 {
			if s < 40 || i < 10 {
				id := fmt.Sprint("x", s*110+i)
				if i < 10 {
					id = "42"
				}
				fmt.Fprintf(&share, "%d\t192.0.2.%d\tGET\t/topic?id=%s\n", 1_000_000_000+s, i%100, id)
			}
		}
	}
	for s := range 360 { // twenty times its past in the last minute
		for i := range 3 + 57*(s/300) {
			fmt.Fprintf(&surge, "%d\t192.0.2.%d\tGET\t/topic?id=42\n", 1_000_000_000+s, i)
		}
	}
	for name, test := range map[string]struct {
		criteria, log string
		from          int64
	}{
		"share": {"share: 0.5, min_rate: 2", share.String(), 1_000_000_040},
		"surge": {"surge: 5, min_rate: 2", surge.String(), 1_000_000_300},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := parse(t, "rules: [{name: topic, match: {path: /topic}, params: [id], hot: {window: 5s, "+
				test.criteria+"}, limit: {rate: 1, burst: 1}}]")
			rep, err := replay.Run(context.Background(), replay.Config{Rules: set}, text("log", test.log))
			if err != nil {
				t.Fatal(err)
			}
			if len(rep.Hot) != 1 || rep.Hot[0].Key != "topic?id=42" || rep.Hot[0].From < test.from ||
				rep.Hot[0].From > test.from+6 ||
				rep.Denied[hottype.ReasonHot] == 0 {
				t.Errorf("hot %+v, denied %+v", rep.Hot, rep.Denied)
			}
		})
	}
}

// A key that reaches its share after the last tick of a second is hot: where in a second its requests are does not
// matter.
func TestRun_JudgesShareAtTheEndOfASecond(t *testing.T) {
	t.Parallel()
	set := parse(t, "rules: [{name: topic, match: {path: /topic}, params: [id], hot: {share: 0.5, min_rate: 2, "+
		"window: 1s, cooldown: 5s}, limit: {rate: 1, burst: 1}}]")
	for _, begin := range []int{100, 500, 800, 930} { // milliseconds
		log := "1700000000.050\t192.0.2.1\tGET\t/topic?id=z\n"
		for i := range 4 {
			log += fmt.Sprintf("1700000002.%03d\t192.0.2.1\tGET\t/topic?id=x%d\n", 10*i+10, i)
		}
		for i := range 6 {
			log += fmt.Sprintf("1700000002.%03d\t192.0.2.%d\tGET\t/topic?id=a\n", begin+10*i, i)
		}
		rep, err := replay.Run(context.Background(), replay.Config{Rules: set},
			text("log", log+"1700000020.000\t192.0.2.1\tGET\t/topic?id=z\n"))
		if err != nil {
			t.Fatal(err)
		}
		if len(rep.Hot) != 1 || rep.Hot[0].Key != "topic?id=a" {
			t.Errorf("from %d ms on: %+v", begin, rep.Hot)
		}
	}
}

// ticked returns the spans of a detector that is ticked every 100 ms, from the first event until until. It skips no
// tick.
func ticked(set *rules.Set, events []timed, until time.Time) (hot, loops []replay.Span) {
	d := detect.New(set, detect.Options{})
	hot, loops = []replay.Span{}, []replay.Span{}
	type begunSpan struct {
		replay.Span
		who hottype.ClientSketch // clients since it began
	}
	begun := map[detect.Kind]map[hottype.Key]*begunSpan{detect.Cooled: {}, detect.LoopEnded: {}} // by how they end
	end := func(c detect.Change) replay.Span {
		ended := begun[c.Kind][c.Hot.Key]
		delete(begun[c.Kind], c.Hot.Key)
		ended.Until, ended.PeakRate = c.At.Unix(), c.Hot.PeakRate
		if n := clientsketch.Clients(&ended.who); n > ended.Clients {
			heaviest, share := clientsketch.Heaviest(&ended.who)
			ended.Clients, ended.Client, ended.ClientShare = n, heaviest.String(), share
		}
		return ended.Span
	}
	tick := func(now time.Time) {
		_, changes := d.Tick(now)
		for _, c := range changes {
			h := &c.Hot
			begins := &begunSpan{Span: replay.Span{
				Key: h.Key, Rule: h.Rule, From: c.At.Unix(), Clients: h.Clients, Client: h.HeaviestClient,
				ClientShare: h.ClientShare,
			}}
			switch c.Kind {
			case detect.BecameHot:
				begun[detect.Cooled][h.Key] = begins
			case detect.LoopBegan:
				begun[detect.LoopEnded][h.Key] = begins
			case detect.Cooled:
				hot = append(hot, end(c))
			case detect.LoopEnded:
				loops = append(loops, end(c))
			}
		}
	}
	next := events[0].at.Truncate(time.Second)
	for _, e := range events {
		for ; !next.After(e.at); next = next.Add(100 * time.Millisecond) {
			tick(next)
		}
		var who hottype.ClientSketch
		clientsketch.Add(&who, hottype.ParseClient(e.client), 1)
		for _, spans := range begun {
			if span := spans[e.key]; span != nil {
				clientsketch.Merge(&span.who, &who)
			}
		}
		d.Add(e.at, hottype.Count{Key: e.key, N: 1, Second: e.at.Unix(), Clients: &who})
	}
	for ; next.Before(until); next = next.Add(100 * time.Millisecond) {
		tick(next)
	}
	order := func(a, b replay.Span) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Key, b.Key)) }
	slices.SortStableFunc(hot, order)
	slices.SortStableFunc(loops, order)
	return hot, loops
}

// timed is one request of a log with times finer than a second.
type timed struct {
	at     time.Time
	client string
	key    hottype.Key
}

// drawHeat draws criteria of every kind.
func drawHeat(t *rapid.T) string {
	ways := rapid.SampledFrom([]string{
		"rate: 1", "rate: 0.7", "share: 0.5, min_rate: 0.5", "surge: 3, min_rate: 0.5",
		"rate: 2, share: 0.4, min_rate: 1",
		"rate: 3, surge: 2, min_rate: 0.2", "share: 0.3, surge: 4, min_rate: 1",
		"rate: 1.5, share: 0.6, surge: 5, min_rate: 0.4",
	}).Draw(t, "ways")
	return fmt.Sprintf("{%s, window: %ds, cooldown: %dms, release_ratio: %g, min_clients: %d, max_hot: %d}", ways,
		rapid.SampledFrom([]int{1, 2, 5, 11}).Draw(t, "window"),
		rapid.SampledFrom([]int{0, 300, 1000, 2550, 7000}).Draw(t, "cool"),
		rapid.SampledFrom([]float64{0.5, 0.7, 1}).Draw(t, "ratio"),
		rapid.SampledFrom([]int{0, 0, 2, 3}).Draw(t, "min clients"),
		rapid.SampledFrom([]int{0, 1, 2}).Draw(t, "max hot"))
}

// drawTraffic draws bursts of requests, each of few keys and clients, with silences of many lengths between them.
func drawTraffic(t *rapid.T) (all []timed) {
	at := time.Unix(1_000_000_000, 0).UTC()
	for range rapid.IntRange(1, 12).Draw(t, "bursts") {
		at = at.Add(rapid.SampledFrom([]time.Duration{0, 30 * time.Millisecond, time.Second, 4 * time.Second,
			70 * time.Second, 25 * time.Minute}).Draw(t, "silence"))
		gap := rapid.SampledFrom([]int{3, 40, 170, 900, 2000}).Draw(t, "gap")
		keys, clients := rapid.IntRange(1, 4).Draw(t, "keys"), rapid.IntRange(1, 5).Draw(t, "clients")
		resource := rapid.SampledFrom([]string{"topic", "topic", "/b"}).Draw(t, "resource")
		for range rapid.IntRange(1, 100).Draw(t, "requests") {
			at = at.Add(time.Duration(rapid.IntRange(1, gap).Draw(t, "ms")) * time.Millisecond)
			all = append(all, timed{
				at: at, client: fmt.Sprint("192.0.2.", rapid.IntRange(1, clients).Draw(t, "client")),
				key: hottype.NewKey(resource, fmt.Sprint("id=", rapid.IntRange(1, keys).Draw(t, "key"))),
			})
		}
	}
	return all
}

// Replay skips the ticks at which nothing can change. Keys are hot, and loops, at the same times as if it skipped no
// tick.
func TestRun_EqualsDetectorTickedEvery100ms(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		heat := [2]string{drawHeat(rt), drawHeat(rt)}
		if diff := replayAndTick(t, heat, drawTraffic(rt)); diff != "" {
			rt.Fatalf("-ticked every 100 ms +replayed\n%s", diff)
		}
	})
}

// Replay agrees with a detector also if there are more hot keys than places, which few drawn traffics have for long.
func TestRun_EqualsTickedDetectorWithFewPlaces(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		random, at := rand.New(rand.NewPCG(seed, 0)), time.Unix(1_000_000_000, 0).UTC()
		var traffic []timed
		for range 200 {
			at = at.Add(time.Duration(1+random.IntN(900)) * time.Millisecond)
			traffic = append(traffic, timed{at: at, client: fmt.Sprint("192.0.2.", 1+random.IntN(2)),
				key: hottype.NewKey("topic", fmt.Sprint("id=", 1+random.IntN(4)))})
		}
		heat := "{share: 0.3, min_rate: 0.5, window: 2s, cooldown: 7s, release_ratio: 0.5, max_hot: 2}"
		if diff := replayAndTick(t, [2]string{heat, heat}, traffic); diff != "" {
			t.Fatalf("seed %d: -ticked every 100 ms +replayed\n%s", seed, diff)
		}
	}
}

// replayAndTick compares the spans of a replay of traffic with the spans of a detector that is ticked every 100 ms,
// under a rule and a catch-all with these criteria.
func replayAndTick(t *testing.T, heat [2]string, traffic []timed) (diff string) {
	t.Helper()
	set := parse(t, fmt.Sprintf(`
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: %s}
  - {name: "*", params: ["*"], hot: %s}`, heat[0], heat[1]))
	var log strings.Builder
	for _, e := range traffic {
		path := "/" + strings.TrimPrefix(string(e.key), "/")
		fmt.Fprintf(&log, "%d.%03d\t%s\tGET\t%s\n", e.at.Unix(), e.at.Nanosecond()/1e6, e.client, path)
	}
	rep, err := replay.Run(context.Background(), replay.Config{Rules: set}, text("log", log.String()))
	if err != nil {
		t.Fatal(err)
	}
	hot, loops := ticked(set, traffic, traffic[len(traffic)-1].at.Add(time.Minute))
	return gocmp.Diff(hot, rep.Hot) + gocmp.Diff(loops, rep.Loops)
}
