package graphite_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/transport/graphite"
)

const ruleText = `
rules:
  - {name: topic, params: [id], hot: {rate: 200, window: 5s}}
  - {name: "*", params: ["*"], hot: {rate: 500, window: 3s, release_ratio: 0.5}}
`

// fake is a graphite-web with data in memory. It knows no functions: every
// request is answered with all series.
type fake struct {
	t      testing.TB
	url    string
	mu     sync.Mutex
	now    time.Time // of the poller
	off    time.Duration
	step   int64
	noDate bool
	slow   time.Duration // how long an answer takes
	data   map[string]map[int64]string
	last   *http.Request
	handle http.HandlerFunc // instead of data

	counts []hottype.Count
}

func newFake(t testing.TB) *fake {
	f := &fake{t: t, now: time.Unix(1_800_000_000, 3e8), step: 1, data: map[string]map[int64]string{}}
	srv := httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(srv.Close)
	f.url = srv.URL
	return f
}

func (f *fake) poller(change func(*graphite.Config)) *graphite.Poller {
	f.t.Helper()
	cfg := graphite.Config{
		URL: f.url, Names: canon.Names{Prefix: "news"}, Rules: parse(f.t, ruleText), Log: slog.New(slog.DiscardHandler),
		Now: f.clock,
		Handle: func(counts []hottype.Count) {
			f.counts = append(f.counts, counts...)
		},
	}
	if change != nil {
		change(&cfg)
	}
	p, err := graphite.New(cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(p.Close)
	return p
}

func parse(t testing.TB, text string) *rules.Set {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// server returns the current second of Graphite's clock.
func (f *fake) server() int64 { return f.now.Add(f.off).Unix() }

// put stores a value, back seconds before now.
func (f *fake) put(series string, back int64, value any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.data[series] == nil {
		f.data[series] = map[int64]string{}
	}
	at := f.server() - back
	f.data[series][at-at%f.step] = fmt.Sprint(value)
}

func (f *fake) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// by sets the function that responds, or nil to respond with the data again.
func (f *fake) by(handle http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handle = handle
}

// asked returns the last request.
func (f *fake) asked() *http.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// clear loses all data.
func (f *fake) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.data)
}

// pass advances the time.
func (f *fake) pass(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = r
	if f.noDate {
		w.Header()["Date"] = nil
	} else {
		w.Header().Set("Date", time.Unix(f.server(), 0).UTC().Format(http.TimeFormat))
	}
	if f.handle != nil {
		handle := f.handle
		f.mu.Unlock()
		defer f.mu.Lock()
		handle(w, r)
		return
	}
	var lookback int64
	if _, err := fmt.Sscanf(r.FormValue("from"), "-%ds", &lookback); err != nil || r.FormValue("until") != "now" {
		f.t.Errorf("from %q until %q", r.FormValue("from"), r.FormValue("until"))
	}
	w.Header().Set("Content-Type", "application/json")
	text := f.answer(f.server()-lookback, f.server())
	f.now = f.now.Add(f.slow)
	fmt.Fprint(w, text)
}

func (f *fake) answer(from, until int64) string {
	var all []string
	for name, points := range f.data {
		var list []string
		for at := from - from%f.step + f.step; at <= until; at += f.step {
			value, ok := points[at]
			if !ok {
				value = "null"
			}
			list = append(list, fmt.Sprintf("[%s,%d]", value, at))
		}
		quoted, _ := json.Marshal(name)
		all = append(all, fmt.Sprintf(`{"target":%s,"tags":{},"datapoints":[%s]}`, quoted, strings.Join(list, ",")))
	}
	return "[" + strings.Join(all, ",") + "]\n"
}

// poll polls once, after which nothing may have failed.
func (f *fake) poll(p *graphite.Poller) {
	f.t.Helper()
	if err := p.Poll(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// total returns the sum of the counts that were handed over for a key, and the counts by second.
func (f *fake) total(key hottype.Key) (sum int64, seconds map[int64]int64) {
	seconds = map[int64]int64{}
	for _, c := range f.counts {
		if c.Key == key {
			sum += c.N
			seconds[c.Second] += c.N
		}
	}
	return sum, seconds
}

// window returns the sum that a detector would have in the window that ends now.
func (f *fake) window(key hottype.Key, length int64) (sum int64) {
	_, seconds := f.total(key)
	now := f.clock().Unix()
	for s, n := range seconds {
		if s <= now && s > now-length {
			sum += n
		}
	}
	return sum
}

func canonKey(s string) hottype.Key { return hottype.Key(s) }

func drop([]hottype.Count) {}
