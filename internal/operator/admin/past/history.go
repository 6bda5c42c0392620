// Package past answers questions about the past: keys by the minute, the heat map, and the effect that other rules or
// another limit would have had on the same requests.
//
//	live ──seconds, changes──> [Store] ──query──> JSON, CSV
//	                             └──> [Service.DryRun], [Simulate]: the algorithm of limiters on recorded requests
//
// It never changes the work of limiters. It removes nothing but the history of a key, and records that.
package past

import (
	"context"
	"encoding/csv"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/history"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/auth"
)

const (
	// Bounds of one query.
	maxHistory          = 100_000 // elements of a list
	defaultHistory      = 1000
	historyTimeout      = 10 * time.Second
	defaultHistoryRange = time.Hour
)

// Store keeps the history for longer than the process lives. Package historystore implements it. Second and Event do
// not block. All methods are safe for concurrent use.
type Store interface {
	Second(*history.Second)
	Event(history.Event)
	// Read answers a query about the past.
	Read(ctx context.Context, q history.Query) (*history.Answer, error)
	// Heatmap returns the times at which the heaviest keys had requests.
	Heatmap(ctx context.Context, q history.HeatmapQuery) (*history.Heatmap, error)
	// Purge removes the history of a key, and returns the number of its rows.
	Purge(ctx context.Context, key hottype.Key) (rows int64, err error)
	// Failing returns the reason why nothing is kept at present, or nil if all is kept.
	Failing() error
}

// Config holds the source of the history. History is nil in programs that keep no history. The other fields are needed.
type Config struct {
	History Store
	Rules   func() *rules.Set
	// Traffic returns a sample of the last minute's requests.
	Traffic func(now time.Time) Traffic
	// Purged removes a key from memory, and records the purge without the key.
	Purged func(ctx context.Context, key hottype.Key, author string)
	Log    *slog.Logger
	Now    func() time.Time
}

// Service answers the routes. It is safe for concurrent use.
type Service struct{ cfg Config }

func New(cfg Config) *Service { return &Service{cfg} }

func (s *Service) Routes() []web.Route {
	return []web.Route{
		{Path: "/v1/history", Methods: map[string]web.Handler{http.MethodGet: web.If(s.requireHistory, s.getHistory),
			http.MethodDelete: web.If(s.requireHistory, s.purgeHistory)}, Role: auth.Admin},
		web.Get("/v1/history/heatmap", web.If(s.requireHistory, s.getHeatmap)),
	}
}

// getHistory answers queries about the past: GET /v1/history?from&to&key&limit&format.
func (s *Service) getHistory(w http.ResponseWriter, r *http.Request) error {
	q, err := historyQuery(r, s.cfg.Now())
	if err != nil {
		return err
	}
	key, err := web.Redacted(s.cfg.Rules(), string(q.Key))
	if err != nil {
		return err
	}
	q.Key = hottype.Key(key)
	format := r.URL.Query().Get("format")
	if format != "" && format != "json" && format != "csv" {
		return web.BadField("format", "format "+strconv.Quote(format)+" is not known", "give json or csv")
	}
	ctx, cancel := context.WithTimeout(r.Context(), historyTimeout)
	defer cancel()
	a, err := s.cfg.History.Read(ctx, q)
	if err != nil {
		return unreadHistory(err)
	}
	if format == "csv" {
		writeHistoryCSV(w, a)
		return nil
	}
	return web.WriteJSON(w, http.StatusOK, a)
}

func (s *Service) requireHistory() error {
	if s.cfg.History == nil {
		return web.NewProblem(http.StatusNotFound, "no history is kept by this program",
			"ask an aggregator or hotparam serve whose history.keep is not 0")
	}
	return nil
}

func unreadHistory(err error) error {
	return web.NewProblem(http.StatusServiceUnavailable, "the history cannot be read: "+err.Error(),
		"detection and limits go on; look at the state directory")
}

func historyQuery(r *http.Request, now time.Time) (q history.Query, err error) {
	if q.To, err = web.QueryTime(r, "to", now); err != nil {
		return q, err
	}
	if q.From, err = web.QueryTime(r, "from", q.To.Add(-defaultHistoryRange)); err != nil {
		return q, err
	}
	if !q.From.Before(q.To) {
		return q, web.BadField("from", "from is not before to", "give an earlier from")
	}
	if key := r.URL.Query().Get("key"); key != "" {
		canonical, err := rules.CanonicalKey(key)
		if err != nil {
			return q, err
		}
		q.Key = hottype.Key(canonical)
	}
	q.Limit, err = web.QueryInt(r, "limit", defaultHistory, maxHistory)
	return q, err
}

func writeHistoryCSV(w http.ResponseWriter, a *history.Answer) {
	h := w.Header()
	h.Set("Content-Type", "text/csv; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="hotparam-history.csv"`)
	h.Set("Cache-Control", "no-store")
	out := csv.NewWriter(w)
	defer out.Flush() // a client that left needs no answer
	_ = out.Write([]string{"minute", "key", "rule", "state", "rate", "peak", "allowed", "denied", "clients", "cost",
		"would_deny"})
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', 3, 64) }
	rate := func(f float64, cost hottype.Cost) string { // in units of the cost, which may be far below 0.001
		if cost.IsRequests() {
			return number(f)
		}
		return strconv.FormatFloat(f, 'g', 6, 64)
	}
	requests := func(n history.Requests) string {
		if !n.IsKnown() {
			return ""
		}
		return number(float64(n))
	}
	for i := range a.Keys {
		k, would := &a.Keys[i], ""
		if k.Allowed.IsKnown() {
			would = number(k.WouldDeny)
		}
		_ = out.Write([]string{
			k.Minute.Format(time.RFC3339), escapeCell(string(k.Key)), escapeCell(k.Rule), k.State,
			rate(k.Rate, k.Cost), rate(k.Peak, k.Cost), requests(k.Allowed), requests(k.Denied),
			formatClients(k.Clients), escapeCell(string(k.Cost)), would,
		})
	}
}

// formatClients formats a number of clients. It returns "" if the number is not known.
func formatClients(clients int64) string {
	if clients == 0 {
		return ""
	}
	return strconv.FormatInt(clients, 10)
}

// escapeCell prevents a spreadsheet from reading a text as a formula.
func escapeCell(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}

const (
	defaultHeatmap = 40  // keys
	maxHeatmap     = 200 // keys
	maxCells       = 400 // of a key
)

// steps are the possible lengths of a cell. The history keeps sums of hours, so the longest steps are quick.
var steps = []time.Duration{
	time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour,
}

// getHeatmap returns the times at which the heaviest keys had requests: GET /v1/history/heatmap?from&to&keys.
func (s *Service) getHeatmap(w http.ResponseWriter, r *http.Request) error {
	q, err := historyQuery(r, s.cfg.Now())
	if err != nil {
		return err
	}
	keys, err := web.QueryInt(r, "keys", defaultHeatmap, maxHeatmap)
	if err != nil {
		return err
	}
	m := history.HeatmapQuery{From: q.From, To: q.To, Keys: keys}
	for _, m.Step = range steps {
		if q.To.Sub(q.From) <= maxCells*m.Step {
			break
		}
	}
	m.From = m.From.Truncate(min(m.Step, time.Hour)) // cells begin with minutes and hours
	if q.To.Sub(m.From) > (maxCells+1)*m.Step {
		return web.BadField("from", "from and to are more than 33 years apart", "give a later from")
	}
	ctx, cancel := context.WithTimeout(r.Context(), historyTimeout)
	defer cancel()
	a, err := s.cfg.History.Heatmap(ctx, m)
	if err != nil {
		return unreadHistory(err)
	}
	for i := range a.Keys {
		a.Keys[i].Href = web.KeyHref(a.Keys[i].Key)
	}
	return web.WriteJSON(w, http.StatusOK, a)
}

// purgeHistory removes the history of a key: DELETE /v1/history?key=. The caller is recorded. The key is not, because
// the key may itself be data that must be removed.
func (s *Service) purgeHistory(w http.ResponseWriter, r *http.Request) error {
	const remedy = "give the whole key, such as ?key=topic%3Fid=42"
	text := r.URL.Query().Get("key")
	if text == "" {
		return web.BadField("key", "there is no key", remedy)
	}
	canonical, err := rules.CanonicalKey(text)
	if err != nil {
		return web.BadField("key", err.Error(), remedy)
	}
	if canonical, err = web.Redacted(s.cfg.Rules(), canonical); err != nil {
		return err
	}
	key := hottype.Key(canonical)
	ctx, cancel := context.WithTimeout(r.Context(), historyTimeout)
	defer cancel()
	rows, err := s.cfg.History.Purge(ctx, key)
	if err != nil {
		return web.NewProblem(http.StatusServiceUnavailable, "the history was not purged: "+err.Error(),
			"try again; look at the state directory")
	}
	who := web.Author(r)
	s.cfg.Purged(r.Context(), key, who)
	s.cfg.Log.Info("admin: the history of a key was purged", "rows", rows, "author", who)
	return web.WriteJSON(w, http.StatusOK, map[string]int64{"rows": rows})
}
