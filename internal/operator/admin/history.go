package admin

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/history"
)

const (
	// heaviestEvery is how many samples apart the keys that are not hot are looked at.
	heaviestEvery = 10
	// Bounds of one question.
	maxHistory      = 100_000 // elements of a list
	usualHistory    = 1000
	historyWithin   = 10 * time.Second
	historyByItself = time.Hour // how far back one looks who does not say
)

// heaviest are the keys with the greatest rates, hot or not, in some samples. Only one sample is taken
// at a time.
func (s *Server) heaviest() []hottype.Hot {
	if s.samples++; s.cfg.Heaviest == nil || s.samples%heaviestEvery != 1 {
		return nil
	}
	return s.cfg.Heaviest(s.cfg.HistoryKeys)
}

// remember hands a second to the history. The caller holds mu.
func (s *Server) remember(now time.Time, hot, loops, heaviest []hottype.Hot) {
	if s.cfg.History == nil {
		return
	}
	sp := s.rates.now(now)
	second := &history.Second{At: now, Allowed: sp.Allowed, DeniedBy: map[string]float64{}}
	for r := range (hottype.Denials{}).All() {
		second.DeniedBy[r.String()] = sp.Denied[r]
		second.Denied += sp.Denied[r]
	}
	known := map[hottype.Key]bool{}
	add := func(list []hottype.Hot, state string) {
		for _, h := range list[:min(len(list), s.cfg.HistoryKeys)] {
			if known[h.Key] {
				continue
			}
			known[h.Key] = true
			k := sp.Keys[h.Key]
			second.Keys = append(second.Keys, history.Seen{
				Key: h.Key, Rule: h.Rule, State: state, Rate: h.Rate, Allowed: k.Allowed, Denied: k.Denied,
				Clients: h.Clients,
			})
		}
	}
	add(hot, history.Hot)
	add(loops, history.Loop)
	add(heaviest, history.Cold)
	s.cfg.History.Second(second)
}

// rememberChange hands a change to the history.
func (s *Server) rememberChange(c *Change) {
	if s.cfg.History == nil {
		return
	}
	told := *c
	told.Seq = 0 // it numbers the changes of one process
	detail, err := json.Marshal(told)
	if err != nil {
		s.cfg.Log.Error("admin: a change cannot be written", "kind", c.Kind, "err", err)
		return
	}
	s.cfg.History.Event(history.Event{At: c.At, Kind: c.Kind, Key: c.Key, Detail: detail, Span: spanOf(c)})
}

// spanOf is the span that a change begins or ends, nil for others.
func spanOf(c *Change) *history.Span {
	span := &history.Span{Key: hottype.Key(c.Key), Rule: c.Rule, State: history.Hot, Peak: c.Rate}
	switch c.Kind {
	case becameLoop, ceasedLoop:
		span.State = history.Loop
	case becameHot, cooled:
	default:
		return nil
	}
	if c.Kind == becameHot || c.Kind == becameLoop {
		span.From = c.At
	} else {
		span.Until = c.At
	}
	return span
}

// getHistory answers what was: GET /v1/history?from&to&key&limit&format.
func (s *Server) getHistory(w http.ResponseWriter, r *http.Request) error {
	q, err := historyQuery(r, s.cfg.Now())
	if err != nil {
		return err
	}
	key, err := s.redacted(string(q.Key))
	if err != nil {
		return err
	}
	q.Key = hottype.Key(key)
	format := r.URL.Query().Get("format")
	if format != "" && format != "json" && format != "csv" {
		return badField("format", "format "+strconv.Quote(format)+" is not known", "give json or csv")
	}
	ctx, cancel := context.WithTimeout(r.Context(), historyWithin)
	defer cancel()
	a, err := s.cfg.History.Read(ctx, q)
	if err != nil {
		return unreadHistory(err)
	}
	if format == "csv" {
		writeHistoryCSV(w, a)
		return nil
	}
	return writeJSON(w, http.StatusOK, a)
}

func (s *Server) keeps() error {
	if s.cfg.History == nil {
		return newProblem(http.StatusNotFound, "no history is kept by this program",
			"ask an aggregator or hotparam serve whose history.keep is not 0")
	}
	return nil
}

func unreadHistory(err error) error {
	return newProblem(http.StatusServiceUnavailable, "the history cannot be read: "+err.Error(),
		"detection and limits go on; look at the state directory")
}

func historyQuery(r *http.Request, now time.Time) (q history.Query, err error) {
	values := r.URL.Query()
	if q.To, err = timeOf("to", values.Get("to"), now); err != nil {
		return q, err
	}
	if q.From, err = timeOf("from", values.Get("from"), q.To.Add(-historyByItself)); err != nil {
		return q, err
	}
	if !q.From.Before(q.To) {
		return q, badField("from", "from is not before to", "give an earlier from")
	}
	if key := values.Get("key"); key != "" {
		canonical, err := canonicalKey(key)
		if err != nil {
			return q, err
		}
		q.Key = hottype.Key(canonical)
	}
	q.Limit, err = queryInt(r, "limit", usualHistory, maxHistory)
	return q, err
}

// timeOf reads a time of a query: RFC 3339 or unix seconds.
func timeOf(name, text string, otherwise time.Time) (time.Time, error) {
	if text == "" {
		return otherwise, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 && n < 1<<40 {
		return time.Unix(n, 0).UTC(), nil
	}
	return time.Time{}, badField(name, name+" "+strconv.Quote(text)+" is no time",
		"give it as 2026-03-14T12:00:00Z, or in seconds since 1970")
}

// writeHistoryCSV writes the keys by the minute as a table for spreadsheets.
func writeHistoryCSV(w http.ResponseWriter, a *history.Answer) {
	h := w.Header()
	h.Set("Content-Type", "text/csv; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="hotparam-history.csv"`)
	h.Set("Cache-Control", "no-store")
	out := csv.NewWriter(w)
	defer out.Flush() // a client that left needs no answer
	_ = out.Write([]string{"minute", "key", "rule", "state", "rate", "peak", "allowed", "denied", "clients"})
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', 3, 64) }
	for i := range a.Keys {
		k := &a.Keys[i]
		_ = out.Write([]string{
			k.Minute.Format(time.RFC3339), cell(string(k.Key)), cell(k.Rule), k.State, number(k.Rate), number(k.Peak),
			number(k.Allowed), number(k.Denied), strconv.FormatInt(k.Clients, 10),
		})
	}
}

// cell keeps a spreadsheet from taking a text for a formula.
func cell(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}
