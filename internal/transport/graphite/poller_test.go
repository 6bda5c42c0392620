package graphite_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/transport/graphite"
)

const topic42 = "stats_counts.news.topic.hot_param.id=42"

func TestPoller_RequestsTargetsOfRules(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		change func(*graphite.Config)
		want   []string
	}{
		{nil, []string{
			"maximumAbove(stats_counts.news.topic.hot_param.*,139.86)",
			"maximumAbove(stats_counts.news.*.hot_param.*,249.75)",
		}},
		{func(c *graphite.Config) { c.Prefix, c.Suffix, c.Flush = "stats.counters", "count", 10*time.Second }, []string{
			"maximumAbove(stats.counters.news.topic.hot_param.*.count,1398.6)",
			"maximumAbove(stats.counters.news.*.hot_param.*.count,2497.5)",
		}},
		{func(c *graphite.Config) { c.Prefix, c.Suffix, c.Flush = "stats.counters.", ".rate", 10*time.Second },
			[]string{
				"maximumAbove(stats.counters.news.topic.hot_param.*.rate,139.86)",
				"maximumAbove(stats.counters.news.*.hot_param.*.rate,249.75)",
			}},
		{func(c *graphite.Config) {
			c.Targets = map[string][]string{"topic": {
				"maximumAbove(sumSeriesWithWildcards(stats_counts.*.news.topic.hot_param.*,1),{threshold})", "a.b"}}
		}, []string{
			"maximumAbove(sumSeriesWithWildcards(stats_counts.*.news.topic.hot_param.*,1),139.86)", "a.b",
			"maximumAbove(stats_counts.news.*.hot_param.*,249.75)",
		}},
	} {
		f := newFake(t)
		p := f.poller(tt.change)
		f.poll(p)
		q := f.asked().URL.Query()
		want := append(tt.want, "stats.sets.news.alive.count", "stats.gauges.news.alive")
		if got := q["target"]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("targets %q, want %q", got, want)
		}
		if f.asked().URL.Path != "/render" || q.Get("noCache") != "true" || q.Get("format") != "json" {
			t.Errorf("asked %s", f.asked().URL)
		}
	}
}

// Many rules make several requests, none longer than a server takes.
func TestPoller_SplitsManyRulesIntoSeveralRequests(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range 100 {
		fmt.Fprintf(&b, "  - {name: rule_%03d, match: {path: /r%d}, params: [id], hot: {rate: 10}}\n", i, i)
	}
	f := newFake(t)
	seen := map[string]int{}
	f.by(func(w http.ResponseWriter, r *http.Request) {
		if n := len(r.URL.RequestURI()); n > 2500 {
			t.Errorf("a request of %d bytes", n)
		}
		for _, target := range r.URL.Query()["target"] {
			seen[target]++
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, "[]")
	})
	f.poll(f.poller(func(c *graphite.Config) { c.Rules = parse(t, b.String()) }))
	if len(seen) != 102 || seen["maximumAbove(stats_counts.news.rule__007.hot_param.*,6.993)"] != 1 {
		t.Errorf("%d targets: %v", len(seen), seen)
	}
}

func TestPoller_CountsEveryBucketOnce(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	p := f.poller(nil)
	const other = "stats_counts.news.topic.hot_param.id=7"
	f.put(topic42, 0, 300)
	f.put(topic42, 2, 100) // between them one is missing
	f.poll(p)
	f.poll(p) // the same again
	f.pass(time.Second)
	f.put(topic42, 2, 200) // it was late
	f.put(topic42, 0, "400.0")
	f.put(topic42, 1, 999) // another value for one that was taken
	f.put(other, 0, 50)
	f.poll(p)
	f.pass(time.Second)
	f.poll(p)
	if got, _ := f.total("topic?id=42"); got != 1000 {
		t.Errorf("topic 42 was counted %d times, want 1000", got)
	}
	if got, _ := f.total("topic?id=7"); got != 50 {
		t.Errorf("topic 7 was counted %d times, want 50", got)
	}
}

// A series that passes the threshold late brings its past.
func TestPoller_ReadsTheWholeWindowOfASlowRise(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	p := f.poller(nil)
	f.put("stats_counts.news.topic.hot_param.id=1", 0, 1)
	f.poll(p)
	for range 4 {
		f.pass(time.Second)
		f.put("stats_counts.news.topic.hot_param.id=1", 0, 1)
		f.poll(p)
	}
	for back := range int64(5) {
		f.put(topic42, back, 200)
	}
	f.pass(0)
	f.poll(p)
	if got := f.window("topic?id=42", 5); got < 800 {
		t.Errorf("%d in the window of 5 s, want 1000 less one second at most", got)
	}
}

// With a steady 200 requests a second, a window holds its full sum right after a poll, however late Graphite is.
func TestPoller_FillsTheWindowBeforeItIsJudged(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		flush, late time.Duration // late: until a flush can be read
		every       time.Duration // poll
		off         time.Duration // clock
		noDate      bool
	}{
		{time.Second, 0, time.Second, 0, false},
		{time.Second, 300 * time.Millisecond, time.Second, 0, false},
		{time.Second, 2700 * time.Millisecond, time.Second, 0, false},
		{time.Second, 0, time.Second, 5 * time.Minute, false},
		{time.Second, 0, time.Second, -5 * time.Minute, false},
		{time.Second, 0, time.Second, -5 * time.Minute, true},
		{time.Second, 0, time.Second, 3 * time.Hour, true},
		{time.Second, 0, 3 * time.Second, 0, false},
		{10 * time.Second, 400 * time.Millisecond, time.Second, 0, false},
		{10 * time.Second, 400 * time.Millisecond, 2 * time.Second, 90 * time.Second, false},
	} {
		f := newFake(t)
		f.off, f.noDate, f.step = tt.off, tt.noDate, int64(tt.flush/time.Second)
		p := f.poller(func(c *graphite.Config) { c.Flush = tt.flush })
		low, high, polls := int64(1<<60), int64(0), 0
		flushed, fresh := f.clock().Add(f.off-tt.late).Unix()/f.step, true
		for passed := time.Duration(0); passed < 100*time.Second; passed += tt.every {
			f.pass(tt.every)
			// The flushes since the last poll: each flush is named by its time.
			for ready := f.clock().Add(f.off-tt.late).Unix() / f.step; flushed < ready; {
				flushed++
				f.put(topic42, f.clock().Add(f.off).Unix()-flushed*f.step, 200*f.step)
				fresh = true
			}
			before := len(f.counts)
			f.poll(p)
			if passed > 30*time.Second && fresh && len(f.counts) > before {
				got := f.window("topic?id=42", 5)
				low, high, polls = min(low, got), max(high, got), polls+1
			}
			fresh = false
		}
		if polls == 0 || low != 1000 || high != 1000 {
			t.Errorf("%+v: %d to %d in the window at %d polls, want 1000; %+v", tt, low, high, polls, p.Stats())
		}
		if st := p.Stats(); (st.ClockDifference - tt.off).Abs() > 1500*time.Millisecond {
			t.Errorf("%+v: clock difference %v", tt, st.ClockDifference)
		}
	}
}

// How long Graphite takes is not a difference of the clocks.
func TestPoller_SlowResponseDoesNotMoveTheClock(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.noDate, f.off = true, time.Minute
	p := f.poller(nil)
	for i := range 20 {
		f.pass(time.Second)
		f.slow = time.Duration(i%3) * 2 * time.Second
		f.put(topic42, 0, 10)
		f.poll(p)
		if d := p.Stats().ClockDifference - time.Minute; d.Abs() > time.Second {
			t.Fatalf("poll %d, which took %v: clock difference off by %v", i, f.slow, d)
		}
	}
}

// After a restart, buckets that are older than the longest window are left out, and a backlog does not count as the
// present.
func TestPoller_BacklogMakesNothingHot(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	p := f.poller(nil)
	for back := int64(8); back < 30; back++ {
		f.put(topic42, back, 1000)
	}
	f.poll(p)
	if n := len(f.counts); n != 0 {
		t.Errorf("%d counts of old buckets: %v", n, f.counts)
	}
	// carbon stood for a minute and now has everything
	for range 60 {
		f.pass(time.Second)
		f.poll(p)
	}
	for back := int64(36); back < 60; back++ {
		f.put(topic42, back, 1000)
	}
	f.poll(p)
	if got := f.window("topic?id=42", 5); got != 0 {
		t.Errorf("%d in the window out of a backlog", got)
	}
}

func TestPoller_DecodesNames(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	p := f.poller(func(c *graphite.Config) { c.Names.Style = canon.StyleHP1 })
	hashed := strings.Repeat("v", 400)
	var names []string
	for _, key := range []string{"topic?id=a%20b", "/path/x?q=%E4%B8%AD", "topic?!malformed", "topic",
		"topic?id=" + hashed} {
		names = append(names, "stats_counts."+string(canon.Names{Prefix: "news"}.Append(nil, canonKey(key))))
	}
	names = append(names,
		"host1.stats.news.topic.hot_param.id=host;tag=x", // a person's own target
		"news.news.topic.hot_param.id=twice",             // the prefix is a host's name too
	)
	for _, n := range names {
		f.put(n, 1, 10)
	}
	for _, foreign := range []string{"", "x", "stats_counts.other.topic.hot_param.id=1", "stats_counts.news.cpu",
		"entity.load;host=a", "sumSeries(stats_counts.*)"} {
		f.put(foreign, 1, 10)
	}
	for _, broken := range []string{"stats_counts.news.topic.hot_param.", "stats_counts.news.topic.hot_param.Zx",
		"stats_counts.news.Topic.hot_param.id=1", "stats_counts.news.topic.hot_param.\x00\xff\n"} {
		f.put(broken, 1, 10)
	}
	f.poll(p)
	for _, key := range []string{"topic?id=a%20b", "/path/x?q=%E4%B8%AD", "topic?!malformed", "topic", "topic?id=host",
		"topic?id=twice"} {
		if n, _ := f.total(canonKey(key)); n != 10 {
			t.Errorf("%s: %d", key, n)
		}
	}
	alias, _ := canon.Alias([]byte("topic?id="+hashed), nil)
	if n, _ := f.total(canonKey(string(alias))); n != 10 {
		t.Errorf("the hashed key: %d of %s", n, alias)
	}
	if st := p.Stats(); st.DroppedForeign != 6 || st.DroppedName != 4 || st.Requests != 70 {
		t.Errorf("%+v", st)
	}
}

func TestPoller_DropsImpossibleValues(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	p := f.poller(nil)
	f.by(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		at := f.clock().Unix()
		fmt.Fprintf(w,
			`[{"target":%q,"datapoints":[[1e9999,%d],[-5,%d],[1e300,%d],[7.6,%d],[3,-1],[3,1e3],[null,%d],[2],[],[4,%d,9]]}, {"target":"x"}, {}]`,
			topic42, at-4, at-3, at-2, at-1, at, at-1)
	})
	f.poll(p)
	if n, _ := f.total("topic?id=42"); n != 8 {
		t.Errorf("%d requests, want 8", n)
	}
	if st := p.Stats(); st.DroppedValue != 7 {
		t.Errorf("%d values dropped, want 7: %+v", st.DroppedValue, st)
	}
}

func TestPoller_ErrorsNameTheRemedy(t *testing.T) {
	t.Parallel()
	text := func(status int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Location", "https://login.example/")
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	for _, tt := range []struct {
		handle http.HandlerFunc
		want   []string
	}{
		{text(401, "text/html", "<h1>who?</h1>"), []string{"/render", "401", "who?", "--graphite.username"}},
		{text(403, "text/html", ""), []string{"403", "--graphite.header"}},
		{text(404, "text/plain", "no\nsuch\x00page"), []string{"404", `no such\x00page`, "--graphite.url"}},
		{text(302, "text/html", ""), []string{"302", "https://login.example/", "--graphite.url"}},
		{text(400, "text/plain", "Invalid target"), []string{"400", "Invalid target", "--graphite.targets"}},
		{text(500, "text/html", strings.Repeat("<p>", 10000)), []string{"500", "log of graphite-web"}},
		{text(414, "text/html", ""), []string{"414", "4 KiB"}},
		{text(200, "text/html", "<html>Log in"), []string{`"text/html" instead of JSON`, "Log in", "graphite-web"}},
		{text(200, "application/json", ""), []string{"ends too early"}},
		{text(200, "application/json", "{}"), []string{"not a list of series"}},
		{text(200, "application/json", `[{"target":5}]`), []string{"not JSON of the render API"}},
		{text(200, "application/json", `[{"target":"a","datapoints":[[NaN,1]]}]`),
			[]string{"not JSON of the render API"}},
		{text(200, "application/json", `[{"target":"a"}`), []string{"ends too early"}},
		{text(200, "application/json", "["+strings.Repeat(`{"target":"a"},`, 10000)),
			[]string{"more than 65536 bytes", "hot.rate"}},
		{func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			[]string{"--graphite.timeout", "3s"}},
		{func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "[")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, []string{"--graphite.timeout"}},
		{func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, []string{"EOF"}},
	} {
		f := newFake(t)
		var log bytes.Buffer
		p := f.poller(func(c *graphite.Config) {
			c.MaxBody, c.Timeout = 65536, 10*time.Second
			if tt.want[0] == "--graphite.timeout" {
				c.Timeout = 3 * time.Second // which a good answer has too, on a busy machine
			}
			c.Log = slog.New(slog.NewTextHandler(&log, nil))
		})
		f.by(tt.handle)
		err := p.Poll(t.Context())
		if err == nil {
			t.Errorf("no error, want %q", tt.want)
			continue
		}
		for _, w := range append(tt.want, f.url, "graphite: GET ") {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("error %v\nwant … %s", err, w)
			}
		}
		if len(err.Error()) > 700 || strings.Contains(err.Error(), "maximumAbove") {
			t.Errorf("a long error: %v", err)
		}
		_ = p.Poll(t.Context())
		f.by(nil)
		f.put(topic42, 1, 5)
		f.poll(p)
		if n, _ := f.total("topic?id=42"); n != 5 {
			t.Errorf("after %v: %d counted, want 5", err, n)
		}
		if st := p.Stats(); st.Polls != 3 || st.Failed != 2 || st.Err != "" || st.LastSuccess.IsZero() {
			t.Errorf("after %v: %+v", err, st)
		}
		if n := strings.Count(log.String(), "\n"); n != 2 {
			t.Errorf("%d log lines for one outage, want 2:\n%s", n, &log)
		}
	}
}

// Buckets that came before a response broke are counted, and not again when the response comes whole.
func TestPoller_CountsBucketsOfAPartialResponseOnce(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	p := f.poller(nil)
	f.put(topic42, 1, 5)
	second := f.clock().Unix()
	whole := f.answer(second-10, second)
	f.by(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, strings.TrimSuffix(whole, "]\n")+`,{"target":"stats_cou`)
	})
	if err := p.Poll(t.Context()); err == nil {
		t.Error("no error")
	}
	f.by(nil)
	f.put("stats_counts.news.topic.hot_param.id=7", 1, 6)
	f.poll(p)
	a, _ := f.total("topic?id=42")
	b, _ := f.total("topic?id=7")
	if a != 5 || b != 6 {
		t.Errorf("%d and %d, want 5 and 6", a, b)
	}
}

func TestPoller_BoundsSeries(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	p := f.poller(func(c *graphite.Config) { c.MaxSeries = 10 })
	for i := range 20 {
		f.put(fmt.Sprintf("stats_counts.news.topic.hot_param.id=%d", i), 1, 1)
	}
	f.poll(p)
	if st := p.Stats(); st.Tracked != 10 || st.DroppedFull != 10 || st.Series != 20 {
		t.Errorf("%+v", st)
	}
	f.clear()
	f.pass(10 * time.Minute)
	f.put(topic42, 1, 7)
	f.poll(p) // makes room
	f.pass(time.Second)
	f.poll(p)
	if n, _ := f.total("topic?id=42"); n != 7 {
		t.Errorf("%d counted after the others were gone, want 7", n)
	}
}

func TestPoller_WarnsOfLongSteps(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.step = 60
	var log bytes.Buffer
	p := f.poller(func(c *graphite.Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	f.put(topic42, 0, 5)
	for range 3 {
		f.poll(p)
		f.pass(40 * time.Second)
		f.put(topic42, 0, 5)
	}
	if n := strings.Count(log.String(), "storage-schemas.conf"); n != 1 || p.Stats().Step != time.Minute {
		t.Errorf("told %d times, step %v\n%s", n, p.Stats().Step, &log)
	}
}

func TestPoller_SendsCredentialsAndHeaders(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	p := f.poller(func(c *graphite.Config) {
		c.URL = strings.Replace(f.url, "http://", "http://reader:secret@", 1) + "/graphite/render/"
		c.Header = http.Header{"x-org": {"news"}}
	})
	f.poll(p)
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte("reader:secret"))
	if got := f.asked().Header.Get("Authorization"); got != want || f.asked().Header.Get("X-Org") != "news" ||
		f.asked().URL.Path != "/graphite/render" {
		t.Errorf("asked %s with %v", f.asked().URL, f.asked().Header)
	}
	f.by(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	if err := p.Poll(t.Context()); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v", err)
	}
}

func TestPoller_CanceledPollIsNoOutage(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	p := f.poller(func(c *graphite.Config) { c.Settle = 900 * time.Millisecond })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Poll(ctx); err == nil || p.Stats().Failed != 0 || f.asked() != nil {
		t.Errorf("error %v, %+v", err, p.Stats())
	}
}

func TestConfig_RefusesBadSettings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		change func(*graphite.Config)
		want   string
	}{
		{func(c *graphite.Config) { c.URL = "graphite:8080" }, "graphite:8080"},
		{func(c *graphite.Config) { c.URL = "http://u:secret@h/?x=1" }, "is not like http://"},
		{func(c *graphite.Config) { c.URL = "http://%zz" }, "url"},
		{func(c *graphite.Config) { c.Flush = 1500 * time.Millisecond }, "1.5s"},
		{func(c *graphite.Config) { c.Flush = time.Hour }, "1h0m0s"},
		{func(c *graphite.Config) { c.Settle = time.Second }, "settle"},
		{func(c *graphite.Config) { c.Prefix = "a.*" }, `prefix "a.*"`},
		{func(c *graphite.Config) { c.Names.Prefix = "A" }, "prefix"},
		{func(c *graphite.Config) { c.Rules = nil }, "rules"},
		{func(c *graphite.Config) { c.Handle = nil }, "Handle"},
		{func(c *graphite.Config) { c.Targets = map[string][]string{"x": {"a"}} }, `rule "x"`},
		{func(c *graphite.Config) { c.Targets = map[string][]string{"topic": {" "}} }, "is empty"},
		{func(c *graphite.Config) { c.Targets = map[string][]string{"topic": {"a(b"}} }, "brackets"},
		{func(c *graphite.Config) { c.Targets = map[string][]string{"topic": {"a\nb"}} }, "control"},
		{func(c *graphite.Config) { c.Targets = map[string][]string{"topic": {strings.Repeat("x", 2001)}} },
			"2000 bytes"},
	} {
		cfg := graphite.Config{URL: "http://g", Names: canon.Names{Prefix: "news"}, Rules: parse(t, ruleText),
			Handle: drop}
		tt.change(&cfg)
		if _, err := graphite.New(cfg); err == nil || !strings.Contains(err.Error(), tt.want) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("error %v, want … %s", err, tt.want)
		}
	}
}

// A share is a share of all requests, so no request may be left out.
func TestPoller_RequestsAllSeriesForSharesAndSurges(t *testing.T) {
	t.Parallel()
	for _, hot := range []string{"share: 0.2, min_rate: 10", "surge: 5, min_rate: 10",
		"rate: 100, share: 0.2, min_rate: 10"} {
		f := newFake(t)
		p := f.poller(func(c *graphite.Config) {
			c.Rules = parse(t, "rules:\n  - {name: page, params: [id], hot: {"+hot+"}}\n")
		})
		f.poll(p)
		if got := f.asked().URL.Query().Get("target"); got != "maximumAbove(stats_counts.news.page.hot_param.*,0)" {
			t.Errorf("%s: asked %s", hot, got)
		}
	}
}

func TestPoller_RequestsNewRulesNext(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	p := f.poller(nil)
	p.SetRules(parse(t, "rules:\n  - {name: page, params: [], hot: {rate: 10}}\n"))
	f.poll(p)
	if got, _ := url.QueryUnescape(f.asked().URL.RawQuery); !strings.HasPrefix(got,
		"target=maximumAbove(stats_counts.news.page.hot_param.*,6.993)&target=stats.sets.news.alive.count&") {
		t.Errorf("asked %s", got)
	}
}

// A Graphite that answers without data is not a quiet site, if heartbeats of senders came before.
func TestPoller_LastHeardReportsEndedHeartbeats(t *testing.T) {
	t.Parallel()
	for _, series := range []string{"stats.sets.news.alive.count", "stats.gauges.news.alive"} {
		f := newFake(t)
		p := f.poller(nil)
		check := func(what string, want bool, at time.Time) {
			t.Helper()
			last, promised, err := p.LastHeard()
			if promised != want || !last.Equal(at) || err != "" {
				t.Errorf("%s, %s: %v, %t, %q, want %v, %t", series, what, last, promised, err, at, want)
			}
		}
		f.poll(p)
		check("no heartbeat has ever come", false, f.now)
		f.put(series, 1, 2)
		f.poll(p)
		beat := f.now
		check("heartbeats come", false, beat)
		for range 8 {
			f.now = f.now.Add(time.Second)
			f.put(series, 1, 0) // the server is there, the senders are not
			f.poll(p)
		}
		check("for 8 s none", false, f.now)
		f.now = f.now.Add(time.Second)
		f.poll(p)
		check("for 9 s none", true, beat)
		f.put(series, 1, 1)
		f.poll(p)
		check("again", false, f.now)
	}
}
