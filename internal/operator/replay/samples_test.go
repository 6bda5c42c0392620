package replay_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/counting/accesslog"
	"github.com/hotparam/pipeline/internal/operator/replay"
	"github.com/hotparam/pipeline/internal/rules"
)

// HOTPARAM_SAMPLES names a directory of small logs in many formats and wrappings, with what is right in expected.tsv:
// file, requests, lines without a request, keys, clients, one of the clients, and the trusted proxies or the format. A
// log that is "refused" may be read rightly as well.
func TestRun_ReadsSampleLogs(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("HOTPARAM_SAMPLES")
	if dir == "" {
		t.Skip("HOTPARAM_SAMPLES names no directory with samples of logs")
	}
	text, err := os.ReadFile(filepath.Join(dir, "expected.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")[1:]
	for _, row := range rows {
		want := append(strings.Split(row, "\t"), make([]string, 7)...)
		if got := summarizeSample(t, filepath.Join(dir, "data", want[0]), want[6]); !got.equals(want) {
			t.Errorf("%s (%s): %+v, want %q", want[0], want[6], got, want[1:6])
		}
	}
}

type sampleSummary struct {
	numbers string // requests, lines without a request, keys and clients, separated by tabs
	clients []string
}

// equals reports whether a log was read as a row of expected.tsv says.
func (s *sampleSummary) equals(want []string) bool {
	if want[1] == "refused" {
		return strings.HasPrefix(s.numbers, "0\t") || slices.Contains(s.clients, "203.0.113.0")
	}
	return s.numbers == strings.Join(want[1:5], "\t") && slices.Contains(s.clients, want[5])
}

func summarizeSample(t *testing.T, file, how string) *sampleSummary {
	cfg, ip := replay.Config{}, ""
	var err error
	if form, ok := strings.CutPrefix(how, "format "); ok {
		cfg.Format, err = accesslog.Custom(form)
	} else if how != "" {
		ip = "ip: {trusted_proxies: [" + how + "]}\n"
	}
	if err != nil {
		t.Fatal(err)
	}
	cfg.Rules, err = rules.Parse("samples", []byte(ip+"rules:\n  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 500}}\n"+
		"  - {name: \"*\", params: [\"*\"], hot: {rate: 500}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := replay.Run(context.Background(), cfg, replay.Source{Name: file, Reader: f})
	if err != nil {
		t.Fatal(err)
	}
	s := &sampleSummary{}
	var keys []string
	for _, k := range r.Keys {
		keys = append(keys, fmt.Sprintf("%s=%d", k.Key, k.Requests))
	}
	for _, c := range r.Clients {
		s.clients = append(s.clients, c.Client)
	}
	s.numbers = fmt.Sprintf("%d\t%d\t%s\t%d", r.Requests, r.Malformed, strings.Join(keys, " "), r.DistinctClients)
	return s
}

// X-Forwarded-For in a log is judged by the trusted proxies of the rules.
func TestRun_TrustsProxiesOfTheRules(t *testing.T) {
	t.Parallel()
	const log = "203.0.113.1, 198.51.100.9 - - [14/Nov/2023:22:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n"
	for ip, want := range map[string]string{"": "198.51.100.9", "ip: {trusted_proxies: [198.51.100.0/24]}\n": "203.0.113.1"} {
		set, err := rules.Parse("rules", []byte(ip+"rules: [{name: all, params: [\"*\"], hot: {rate: 500}}]"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := replay.Run(context.Background(), replay.Config{Rules: set}, text("", log))
		if err != nil || r.Clients[0].Client != want {
			t.Errorf("%q: %+v, want %s: %v", ip, r.Clients, want, err)
		}
	}
}

// A source is summarized by its times and by the most frequent reason for refused lines.
func TestRun_SummarizesSources(t *testing.T) {
	t.Parallel()
	const line = "203.0.113.1 - - [14/Nov/2023:22:00:%02d +0000] \"%s\" 200 1\n"
	log := fmt.Sprintf(line, 1, "quit") + fmt.Sprintf(line, 2, "GET / HTTP/1.1") + fmt.Sprintf(line, 3, "-") +
		fmt.Sprintf(line, 4, "") + fmt.Sprintf(line, 9, "GET / HTTP/1.1")
	r, err := replay.Run(context.Background(), replay.Config{}, text("a.log", log))
	const want = `a.log: combined, 2023-11-14 22:00:02 to 2023-11-14 22:00:09 UTC, 5 lines, 3 refused, of which 2 like ` +
		`line 3: line has no request, not "-"`
	if err != nil || r.Sources[0].Summary() != want {
		t.Errorf("%s, want %s: %v", r.Sources[0].Summary(), want, err)
	}
}
