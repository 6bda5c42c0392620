package admin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/operator/admin/live"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// hostile is a path as an attacker could type it: markup, a character that reverses the direction of text, a newline, a
// byte that is not text.
const hostile = "/<script>alert(1)</script>/\u202egnp.exe\n\xff"

// t0 is the time at which the clock of a world begins.
var t0 = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

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
ip:
  fixed: {limit: 50, window: 1s}
overrides:
  - {key: "topic?id=7", action: exempt, reason: "front page"}
`

func parseRules(t testing.TB) *rules.Set {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte(rulesFile))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// memory is an override store that can be made to fail.
type memory struct {
	now func() time.Time

	mu    sync.Mutex
	list  []rules.Override
	audit []rules.Change // newest first
	fails error
}

func (m *memory) Live(context.Context) (rules.LiveOverrides, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return rules.LiveOf(m.list), m.fails
}

func (m *memory) Put(ctx context.Context, o rules.Override) (rules.Override, error) {
	c, err := m.PutIf(ctx, o, rules.AnyVersion)
	return *c.After, err
}

func (m *memory) Delete(ctx context.Context, id, author string) error {
	_, err := m.DeleteIf(ctx, id, author, rules.AnyVersion)
	return err
}

func (m *memory) PutIf(_ context.Context, o rules.Override, version int64) (rules.Change, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o.Created = m.now()
	c := rules.Change{Revision: o.Created.UnixMicro(), At: o.Created, Author: o.Author, Action: rules.ChangePut,
		ID: o.ID, After: &o}
	if m.find(o.ID, &c); rules.CheckVersion(c.Before, version) != nil {
		return rules.Change{}, rules.ErrOverrideChanged
	}
	m.list = append(m.without(o.ID), o)
	m.audit = slices.Insert(m.audit, 0, c)
	return c, m.fails
}

func (m *memory) DeleteIf(_ context.Context, id, author string, version int64) (rules.Change, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	c := rules.Change{Revision: now.UnixMicro(), At: now, Author: author, Action: rules.ChangeDelete, ID: id}
	if m.find(id, &c); c.Before == nil {
		return rules.Change{}, rule.ErrNoOverride
	}
	if rules.CheckVersion(c.Before, version) != nil {
		return rules.Change{}, rules.ErrOverrideChanged
	}
	m.list = m.without(id)
	m.audit = slices.Insert(m.audit, 0, c)
	return c, m.fails
}

func (m *memory) Record(_ context.Context, c rules.Change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	c.At = m.now()
	c.Revision = c.At.UnixMicro()
	m.audit = slices.Insert(m.audit, 0, c)
	return m.fails
}

func (m *memory) find(id string, c *rules.Change) {
	if i := slices.IndexFunc(m.list, func(o rules.Override) bool { return o.ID == id }); i >= 0 {
		c.Before = new(m.list[i])
	}
}

func (m *memory) without(id string) []rules.Override {
	return slices.DeleteFunc(slices.Clone(m.list), func(o rules.Override) bool { return o.ID == id })
}

func (m *memory) Audit(_ context.Context, limit int) ([]rules.Change, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.audit[:min(limit, len(m.audit))]), m.fails
}

func (m *memory) FindChanges(_ context.Context, q rules.AuditQuery) ([]rules.Change, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return q.Select(m.audit), m.fails
}

func (m *memory) Revision(context.Context) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.audit) == 0 {
		return 0, m.fails
	}
	return m.audit[0].Revision, m.fails
}

func (m *memory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fails = err
}

// world is a server with everything behind it in the test's hand.
type world struct {
	*Server
	store *memory

	mu      sync.Mutex
	now     time.Time
	hot     []hottype.HotKey
	reports []report.Limiter
	broken  error // the error of Reports
}

func newWorld(t testing.TB, change func(*Config)) *world {
	t.Helper()
	w := &world{now: t0}
	set := parseRules(t)
	w.store = &memory{now: w.tick}
	cfg := Config{Config: live.Config{
		Namespace: "news", Version: "1.2.3",
		Hot:       func() []hottype.HotKey { w.mu.Lock(); defer w.mu.Unlock(); return w.hot },
		Rules:     func() *rules.Set { return set },
		Overrides: w.store,
		Reports: func(context.Context) ([]report.Limiter, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.reports, w.broken
		},
		Now: w.clock,
	}, Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	})}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.Server = s
	return w
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// tick returns a later time at each call, as the clocks of stores do.
func (w *world) tick() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(time.Microsecond)
	return w.now
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// second advances the time by one second, with the reports of limiters at its end.
func (w *world) second(reports ...report.Limiter) {
	w.set(func() { w.now = w.now.Add(time.Second); w.reports = reports })
	w.Sample(context.Background(), w.clock())
}

// ask sends one request to the handler. Header lines are "Name: value".
func (w *world) ask(method, target, body string, headers ...string) *httptest.ResponseRecorder {
	return serve(w.Handler(), method, target, body, headers...)
}

func serve(h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost"+target, strings.NewReader(body))
	if body == "" {
		r.Body = io.NopCloser(strings.NewReader(""))
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "Host":
			r.Host = value
			continue
		case "From": // the address of the client
			r.RemoteAddr = value
			continue
		}
		r.Header.Set(name, value)
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec
}

func hotKey(key, rule string, rate float64, since time.Time) hottype.HotKey {
	return hottype.HotKey{Key: hottype.Key(key), Rule: rule, Rate: rate, PeakRate: rate, Since: since,
		Until: since.Add(time.Hour)}
}

var errBroken = errors.New("redis: connection refused")

// at is a report of limiter "a" some time after t0.
func at(after time.Duration, allowed, hot, key uint64) report.Limiter {
	return report.Limiter{Instance: "a", At: t0.Add(after), Allowed: allowed,
		Denied: report.Denials{hottype.ReasonHot: hot},
		Keys:   []report.KeyDecisions{{Key: "topic?id=42", Allowed: 2 * key, Cached: key}}}
}
