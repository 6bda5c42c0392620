package admin_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/history"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/operator/admin/changes"
	"github.com/hotparam/pipeline/internal/operator/admin/live"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/filestore"
)

// hostile is a path as an attacker could type it: markup, a character that turns the direction of text, a newline, and
// a byte that is not text.
const hostile = "/<script>alert(1)</script>/\u202egnp.exe\n\xff"

// mostOfTest is a generous end of a test with a browser, for a machine that others use as well.
const mostOfTest = 20 * time.Minute

// browser starts chromium with a profile of its own, or skips.
func browser(t *testing.T) context.Context {
	t.Helper()
	return browserFor(t, mostOfTest)
}

// browserFor starts a browser for a test that takes up to most.
func browserFor(t *testing.T, most time.Duration) context.Context {
	t.Helper()
	path := chromium()
	if path == "" {
		if os.Getenv("HOTPARAM_REQUIRE_SERVERS") == "1" {
			t.Fatal("no chromium in PATH, and HOTPARAM_REQUIRE_SERVERS is 1")
		}
		t.Skip("no chromium in PATH: the page is not tested in a browser")
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()),
		chromedp.NoSandbox,
		chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(cancel)
	ctx, stop := chromedp.NewContext(ctx)
	t.Cleanup(stop)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithTimeout(ctx, most)
	t.Cleanup(end)
	return ctx
}

func chromium() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			return p
		}
	}
	return ""
}

// witness records the faults that a page must not have: errors in its console, violations of its policy, and requests
// to other hosts.
type witness struct {
	mu    sync.Mutex
	notes []string
}

func (w *witness) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}

func watch(t *testing.T, ctx context.Context, origins ...string) *witness {
	t.Helper()
	w := &witness{}
	err := chromedp.Listen(ctx, func(ev any) {
		switch e := ev.(type) {
		case *runtime.EventExceptionThrown:
			w.note("exception: %s %v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
		case *runtime.EventConsoleAPICalled:
			w.note("console: %s %v", e.Type, e.Args)
		case *log.EventEntryAdded:
			// Violations of the policy and failed loads come here; 428 asks for the second word.
			if (e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning) &&
				!strings.Contains(e.Entry.Text, "status of 428") {
				w.note("log: %s %s", e.Entry.Text, e.Entry.URL)
			}
		case *network.EventRequestWillBeSent:
			if !slices.ContainsFunc(origins, func(o string) bool { return strings.HasPrefix(e.Request.URL, o+"/") }) {
				w.note("request to elsewhere: %s", e.Request.URL)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, ctx, call(log.Enable, cdp.Empty{}), call(network.Enable, network.EnableParams{}))
	return w
}

func (w *witness) check(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.notes {
		t.Error(n)
	}
}

// store is an override store in a directory of the test.
func store(t *testing.T) *filestore.Overrides {
	t.Helper()
	o, err := filestore.OpenOverrides(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

// kept is a history that stores nothing and returns the answer that a test sets.
type kept struct{ answer history.Answer }

func (*kept) Second(*history.Second) {}
func (*kept) Event(history.Event)    {}
func (*kept) Failing() error         { return nil }
func (*kept) Purge(context.Context, hottype.Key) (int64, error) {
	return 0, nil
}
func (k *kept) Read(_ context.Context, q history.Query) (*history.Answer, error) {
	if q.Key == "" {
		a := k.answer
		a.Keys = a.Keys[len(a.Keys)-1:]
		return &a, nil
	}
	return &k.answer, nil
}

// Heatmap folds nothing: it returns a day of one key, and some keys that were seen at times.
func (k *kept) Heatmap(_ context.Context, q history.HeatmapQuery) (*history.Heatmap, error) {
	m := &history.Heatmap{From: q.From, To: q.To, Step: int64(q.Step / time.Second), Events: []history.Event{
		{At: q.To.Add(-q.To.Sub(q.From) / 9), Kind: "override_put", Key: hostile,
			Detail: []byte(`{"author":"<b>ann</b>"}`)}}}
	for i, key := range []string{"topic?id=42", "topic?id=1337", hostile, "topic?id=7", "/search?q=a", "topic?id=8",
		"topic?id=9"} {
		one := history.HeatmapKey{Key: hottype.Key(key)}
		for at := range int64(q.To.Sub(q.From) / q.Step) {
			t := q.From.Add(time.Duration(at) * q.Step)
			c := history.Cell{At: at, State: history.Cold, Peak: wave(t, 150, 140, 9000+1000*float64(i)) / float64(i+1),
				Allowed: 10}
			if c.Peak > 200 {
				c.State, c.Denied, c.WouldDeny = history.Hot, 99, 3
			} else if i == 2 && at%30 < 4 {
				c.State = history.Loop
			}
			if int(at)%(i+3) != 1 || i == 0 {
				one.Cells = append(one.Cells, c)
			}
		}
		m.Keys = append(m.Keys, one)
	}
	return m, nil
}

// lastDay is a day of topic?id=42, in which it was hot for an hour.
func lastDay(now time.Time) *kept {
	k := &kept{answer: history.Answer{Totals: []history.Total{}, Keys: []history.KeyMinute{}, Spans: []history.Span{},
		Events: []history.Event{}}}
	for i := range 1440 {
		at := now.Add(time.Duration(i-1440) * time.Minute).Truncate(time.Minute)
		one := history.KeyMinute{Minute: at, Key: "topic?id=42", Rule: "topic", State: history.Cold,
			Rate: wave(at, 40, 25, 9000)}
		if i > 1300 && i < 1360 {
			one.State, one.Rate = history.Hot, wave(at, 380, 90, 1500)
		}
		one.Allowed = history.Requests(60 * min(one.Rate, 100))
		one.WouldDeny = 7
		one.Peak, one.Denied = one.Rate*1.2, history.Requests(60*one.Rate)-one.Allowed
		k.answer.Keys = append(k.answer.Keys, one)
	}
	return k
}

const rulesFile = `
namespace: news
rules:
  - name: topic
    match: {path: "/topic"}
    params: [id]
    hot: {rate: 200, window: 5s}
    limit: {algorithm: token_bucket, rate: 100, burst: 200}
  - name: "*"
    params: ["*"]
    hot: {rate: 500, window: 5s}
    limit: {algorithm: token_bucket, rate: 100, burst: 200}
overrides:
  - {key: "topic?id=7", action: exempt, reason: "front page"}
`

// config has live traffic.
func config(t *testing.T) admin.Config {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte(rulesFile))
	if err != nil {
		t.Fatal(err)
	}
	return admin.Config{Notify: hooks{"answered 503"}, Central: versions(t), Command: obeyed, Config: live.Config{
		Namespace: "news", Version: "1.2.3", Overrides: store(t), History: lastDay(time.Now()),
		Rules:   func() *rules.Set { return set },
		Hot:     func() []hottype.HotKey { return liveHot(time.Now()) },
		Loops:   func() []hottype.HotKey { return liveLoops(time.Now()) },
		Reports: func(context.Context) ([]report.Limiter, error) { return liveReports(time.Now()), nil },
		Status: func() []admin.Status {
			return []admin.Status{{Name: "mirror", Value: "0.4 s old", OK: true},
				{Name: "redis", Value: "breaker closed", OK: true}}
		},
	}}
}

// obeyed stands for limiters that do nothing with a command.
func obeyed(context.Context, report.Command) (int, error) { return 0, nil }

// central is a store of rules in memory.
type central struct {
	mu      sync.Mutex
	stored  *rules.Stored
	history []rules.Revision // newest first
}

// versions has two versions of the rules.
func versions(t *testing.T) *central {
	t.Helper()
	c := &central{}
	first := strings.Replace(rulesFile, "rate: 100", "rate: 50", 1)
	for i, text := range []string{first, rulesFile} {
		r := rules.Revision{Text: text, Author: []string{"<b>ann</b>", "bob"}[i],
			Reason: []string{"first", "the topic may have more"}[i],
			At:     time.Now().Add(time.Duration(i-2) * 26 * time.Hour)}
		if _, err := c.Change(t.Context(), rules.AnyVersion, r); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func (c *central) State() admin.RulesState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return admin.RulesState{Store: "redis:", Running: c.stored.Version}
}

func (c *central) Read(context.Context) (*rules.Stored, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stored, nil
}

func (*central) Check(_ context.Context, r rules.Revision) (*rules.Set, error) {
	set, err := rules.Parse("pushed.yaml", []byte(r.Text))
	if err != nil {
		err = errors.Join(changes.ErrRejected, err)
	}
	return set, err
}

func (c *central) Change(_ context.Context, before int64, r rules.Revision) (*rules.Stored, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stored != nil && before != rules.AnyVersion && before != c.stored.Version {
		return nil, rules.ErrConflict
	}
	next, err := c.stored.With(r, 0)
	if err != nil {
		return nil, err
	}
	c.stored, c.history = next, append([]rules.Revision{next.Revision}, c.history...)
	return next, nil
}

func (c *central) History(context.Context) ([]rules.Revision, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.history), nil
}

// serve runs an admin server until the test ends.
func serve(t *testing.T, cfg admin.Config) *httptest.Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveAt(t, cfg, listener)
}

func serveAt(t *testing.T, cfg admin.Config, listener net.Listener) *httptest.Server {
	t.Helper()
	s, err := admin.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(s.Handler())
	_ = srv.Listener.Close() // its own is not used
	srv.Listener = listener
	srv.Start()
	t.Cleanup(srv.Close) // after Run has ended the streams that it waits for
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return srv
}

func hotKey(key, rule string, rate float64, since time.Time) hottype.HotKey {
	return hottype.HotKey{Key: hottype.Key(key), Rule: rule, Rate: rate, PeakRate: rate, Since: since,
		Until: since.Add(time.Hour)}
}

// wave is a rate that moves.
func wave(at time.Time, base, swing, period float64) float64 {
	return base + swing*math.Sin(float64(at.UnixMilli())/1000*2*math.Pi/period)
}

func liveHot(now time.Time) []hottype.HotKey {
	day := now.Truncate(24 * time.Hour)
	keys := []hottype.HotKey{
		hotKey("topic?id=42", "topic", wave(now, 412, 60, 17), now.Add(-154*time.Second)),
		hotKey("topic?id=1337", "topic", wave(now, 268, 30, 11), now.Add(-38*time.Second)),
		hotKey("/search?lang=en&q=%E4%B8%AD%E6%96%87%20election%20results%202026", "*", wave(now, 231, 12, 29), day),
		hotKey(hostile, "*", wave(now, 204, 3, 7), now.Add(-9*time.Second)),
	}
	keys[0].Clients, keys[0].HeaviestClient, keys[0].ClientShare = 1210, "198.51.100.7", 0.02
	keys[0].Why, keys[0].Lower, keys[0].Upper = "rate", keys[0].Rate, keys[0].Rate
	keys[1].Clients, keys[1].HeaviestClient, keys[1].ClientShare = 31, "2001:db8:4711:1::", 0.315
	keys[1].Baseline = 21.5
	keys[1].Why, keys[1].Lower, keys[1].Upper = "rate+surge", keys[1].Rate, keys[1].Rate*1.1
	return keys
}

// liveLoops are a loop of one client, and one of a client with a strange name.
func liveLoops(now time.Time) []hottype.HotKey {
	loops := []hottype.HotKey{
		hotKey("topic?id=99", "topic", wave(now, 612, 5, 9), now.Add(-77*time.Second)),
		hotKey(hostile, "*", 230, now.Add(-5*time.Second)),
	}
	loops[0].Clients, loops[0].HeaviestClient, loops[0].ClientShare = 14, "192.0.2.77", 0.951
	loops[1].Clients, loops[1].HeaviestClient, loops[1].ClientShare = 1, "<b>\u202eeve</b>", 1
	return loops
}

// liveReports counts as a limiter would that runs since the day began.
func liveReports(now time.Time) []report.Limiter {
	s := now.Sub(now.Truncate(24 * time.Hour)).Seconds()
	n := func(perSecond float64) uint64 { return uint64(perSecond * s) }
	return []report.Limiter{{
		Instance: "sidecar-1", At: now, Allowed: n(930),
		Denied: report.Denials{hottype.ReasonHot: n(171), hottype.ReasonIPFixed: n(12)},
		Samples: []report.KeySample{{Key: "topic?id=42", Sampled: 800,
			Prefixes: []report.NameCount{{Name: "198.51.100.0/24", N: 310}, {Name: "2001:db8:4711::/48", N: 42}},
			Classes:  []report.NameCount{{Name: "crawler", N: 80}},
			Spellings: []report.NameCount{{Name: "/topic?id=42", N: 700}, {Name: "/topic?id=%34%32", N: 90},
				{Name: "/topic?id=42<b>", N: 10}}}},
		RulesVersion: 2, OverridesRevision: now.UnixMicro(),
		Traces: []report.ClientTrace{{Client: "192.0.2.77", Until: now.Add(time.Minute), N: 640, Rows: []report.TracedKey{
			{Key: "topic?id=99", Reason: hottype.ReasonIPFixed, N: 560, Last: now},
			{Key: "topic?id=99", Allowed: true, Reason: hottype.ReasonCold, N: 50, Last: now},
			{Allowed: true, Reason: hottype.ReasonCold, N: 30, Last: now}}}},
		Clients:       []report.SampledClient{{Client: "192.0.2.77", N: 60}, {Client: "198.51.100.1", N: 4}, {Client: "198.51.100.2", N: 4}},
		ClientDenials: n(12), DeniedSampled: 40, DeniedClients: []report.DeniedClient{{Client: "192.0.2.77", Network: "192.0.2.0/24", N: 38,
			Reasons: []report.NameCount{{Name: "ip_fixed", N: 38}}, Keys: []report.NameCount{{Name: "topic?id=99", N: 38}}}},
		OverrideHits: []report.OverrideHits{{ID: "topic-id-42-506a744f", N: n(412)}},
		Keys: []report.KeyDecisions{
			{Key: "topic?id=42", Allowed: n(100), Denied: n(312)},
			{Key: "topic?id=1337", Allowed: n(100), Denied: n(168), Cached: n(85)},
			{Key: hottype.Key(hostile), Allowed: n(204)},
			{Key: "/search?lang=en&q=%E4%B8%AD%E6%96%87%20election%20results%202026", Allowed: n(231)},
		},
	}}
}

// shot writes a picture of the whole page if a directory for them is set.
func shot(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	shotOf(t, ctx, name, chromedp.FullScreenshot(100))
}

// shotOf writes a picture that an action takes, in the same way.
func shotOf(t *testing.T, ctx context.Context, name string, take chromedp.Action[[]byte]) {
	t.Helper()
	dir := os.Getenv("HOTPARAM_SCREENSHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(ctx, take)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// shots takes a view in both themes, on a phone, and as at 200 % zoom, where a window of 1280 pixels has 640
// of the page's. Nowhere may it be wider than the window.
func shots(t *testing.T, ctx context.Context, view string) {
	t.Helper()
	run(t, ctx, until("document.querySelector('#toast').hidden = true")) // it is of the step before
	for _, c := range []struct {
		name, scheme string
		width        int64
	}{{"dark", "dark", 1280}, {"phone", "light", 380}, {"zoom", "dark", 640}, {"light", "light", 1280}} {
		run(t, ctx, chromedp.EmulateViewport(c.width, 900), scheme(c.scheme),
			until(fmt.Sprintf("innerWidth == %d", c.width)),
			until(fmt.Sprintf("document.documentElement.scrollWidth <= %d", c.width)))
		shot(t, ctx, view+"-"+c.name)
	}
}

func scheme(name string) chromedp.Action[chromedp.Void] {
	return call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
}

func call[P, R any](cmd cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, cmd, params)
		return err
	})
}

func run(t *testing.T, ctx context.Context, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

// until waits for a condition in the page. The loop runs there: chromedp's own
// polling makes code of strings, which the page's policy forbids.
func until(condition string) chromedp.Action[chromedp.Void] {
	script := fmt.Sprintf(`new Promise((done) => {
		const look = () => (%s) ? done(true) : setTimeout(look, 30);
		look();
	})`, condition)
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, err := chromedp.Evaluate[bool](script, chromedp.EvalAwaitPromise)(ctx, t)
		if err != nil {
			err = fmt.Errorf("waiting for %s: %w", condition, err)
		}
		return chromedp.Void{}, err
	}
}

// secondWord types the number that the page asks for if the last change affects many requests. The condition done holds
// in the page if it does not ask.
func secondWord(t *testing.T, ctx context.Context, done string) {
	t.Helper()
	run(t, ctx, until("document.querySelector('#second').open || "+done))
	number, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.querySelector('#second').open
		? document.querySelector('#second-label').textContent.match(/\d+/)[0] : ''`))
	if err != nil {
		t.Fatal(err)
	}
	if number != "" {
		run(t, ctx, until("document.activeElement.id == 'second-number'"), chromedp.KeyEvent("7777"+kb.Enter),
			says("#second-error", "That is not "+number), fill("#second-number", number), chromedp.KeyEvent(kb.Enter))
	}
}

// says waits until an element holds a text.
func says(selector, text string) chromedp.Action[chromedp.Void] {
	return until(fmt.Sprintf("document.querySelector(%q)?.textContent.includes(%q)", selector, text))
}

// clickOn waits for an element and clicks it.
func clickOn(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.Steps(until(fmt.Sprintf("document.querySelector(%q)?.checkVisibility()", selector)),
		whileDrawn(chromedp.Click(chromedp.CSS(selector))))
}

// whileDrawn repeats an action whose element the page drew again between finding and using it, and which did nothing.
func whileDrawn(action chromedp.Action[chromedp.Void]) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (v chromedp.Void, err error) {
		for {
			v, err = action(ctx, t)
			if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "Could not find node") {
				return v, err
			}
		}
	}
}

func fill(selector, text string) chromedp.Action[chromedp.Void] {
	empty := until(fmt.Sprintf("document.querySelector(%q).select() ?? true", selector))
	return chromedp.Steps(empty, whileDrawn(chromedp.SendKeys(chromedp.CSS(selector), text)))
}
