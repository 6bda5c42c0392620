package replay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/unpack"
	"github.com/hotparam/pipeline/internal/operator/replay"
)

// expected holds the results of an independent count of a real log.
type expected struct {
	Config struct {
		Rate float64 `json:"rate"`
	} `json:"config"`
	Requests      int64                   `json:"requests"`
	First         int64                   `json:"first"`
	Last          int64                   `json:"last"`
	DistinctKeys  int                     `json:"distinct_keys"`
	Keys          [][2]any                `json:"keys_top50"`
	Peak5s        [][3]any                `json:"peak_5s"`
	HotKeys       []string                `json:"hot_keys"`
	HotSeconds    map[int64][]hottype.Key `json:"hot_seconds"`
	ClientPeak1s  [][3]any                `json:"client_peak_1s"`
	ClientPeak60s [][3]any                `json:"client_peak_60s"`
}

// HOTPARAM_TRAFFIC names a directory of real logs, each with the results of an independent count in NAME.expected.json.
func TestRun_EqualsIndependentCountOfRealLogs(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("HOTPARAM_TRAFFIC")
	if dir == "" {
		t.Skip("HOTPARAM_TRAFFIC names no directory with real logs")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.expected.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no *.expected.json in %s: %v", dir, err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			t.Parallel()
			checkTraffic(t, f)
		})
	}
}

func checkTraffic(t *testing.T, file string) {
	var want expected
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	rep := replayBeside(t, file, fmt.Sprint(want.Config.Rate))
	if rep.Requests != want.Requests || rep.First != want.First || rep.Last != want.Last ||
		rep.DistinctKeys != want.DistinctKeys {
		t.Errorf("requests %d, first %d, last %d, keys %d; want %d, %d, %d, %d", rep.Requests, rep.First, rep.Last,
			rep.DistinctKeys,
			want.Requests, want.First, want.Last, want.DistinctKeys)
	}
	if rep.Malformed != 0 || rep.Late != 0 || rep.Dropped != (replay.Dropped{}) {
		t.Errorf("malformed %d, late %d, dropped %+v", rep.Malformed, rep.Late, rep.Dropped)
	}
	if diff := cmp.Diff(want.HotSeconds, rep.HotSeconds); diff != "" {
		t.Errorf("hot seconds: %s", diff)
	}
	compare(t, "keys", len(want.Keys), func(i int) (string, string) {
		return fmt.Sprintf("%s %.0f", want.Keys[i][0], want.Keys[i][1]),
			fmt.Sprintf("%s %d", rep.Keys[i].Key, rep.Keys[i].Requests)
	})
	peaks := map[string]string{}
	for _, k := range rep.Keys {
		peaks["5s "+string(k.Key)] = fmt.Sprint(k.Peak5s, k.Peak5sAt)
	}
	for _, c := range rep.Clients {
		peaks["client 1s "+c.Client] = fmt.Sprint(c.Peak1s, c.Peak1sAt)
		peaks["client 60s "+c.Client] = fmt.Sprint(c.Peak60s, c.Peak60sAt)
	}
	for kind, list := range map[string][][3]any{"5s": want.Peak5s, "client 1s": want.ClientPeak1s,
		"client 60s": want.ClientPeak60s} {
		compare(t, kind, len(list), func(i int) (string, string) {
			return fmt.Sprintf("%.0f %.0f", list[i][1], list[i][2]), peaks[fmt.Sprintf("%s %s", kind, list[i][0])]
		})
	}
}

func compare(t *testing.T, what string, n int, pair func(i int) (want, got string)) {
	t.Helper()
	for i := range n {
		if want, got := pair(i); want != got {
			t.Errorf("%s %d: %q, want %q", what, i, got, want)
		}
	}
}

// replayBeside replays the log that an expectation belongs to.
func replayBeside(t *testing.T, file, rate string) *replay.Report {
	t.Helper()
	logs, err := filepath.Glob(strings.TrimSuffix(file, "expected.json") + "*[gv]")
	if err != nil || len(logs) != 1 {
		t.Fatalf("logs beside %s: %q, %v", file, logs, err)
	}
	log, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	rep, err := replay.Run(context.Background(), replay.Config{Rules: parse(t, plain(rate))},
		replay.Source{Name: logs[0], Reader: bytes.NewReader(log), Unpack: unpack.Reader})
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// BenchmarkCombined is of a log as a busy site writes it: 5,000 lines a
// second, 500 clients, some topics hot, and per-IP windows.
func BenchmarkCombined(b *testing.B) {
	set := parse(b, small)
	var log bytes.Buffer
	lines := 0
	for s := range 20 {
		for i := range 5000 {
			lines++
			fmt.Fprintf(&log,
				`192.0.%d.%d - - [17/May/2015:10:05:%02d +0000] "GET /topic?id=%s&utm_source=x HTTP/1.1" 200 203023 "https://news.test/" "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_9_1) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/32.0.1700.77 Safari/537.36"`+"\n",
				i%2, i%250, s, strconv.Itoa(i*i%997))
		}
	}
	b.ReportAllocs()
	b.SetBytes(int64(log.Len()))
	for b.Loop() {
		rep, err := replay.Run(context.Background(), replay.Config{Rules: set},
			replay.Source{Reader: bytes.NewReader(log.Bytes())})
		if err != nil || rep.Requests != int64(lines) {
			b.Fatal(err, rep.Requests)
		}
	}
	b.ReportMetric(float64(lines)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}
