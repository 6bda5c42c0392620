package historystore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/history"
)

// Read answers a query. At first it waits until the file is open or cannot be opened. While it is not open,
// Read fails, and the error says why.
func (s *Store) Read(ctx context.Context, q history.Query) (*history.Answer, error) {
	db, err := s.opened(ctx)
	if err != nil {
		return nil, err
	}
	a := &history.Answer{
		From: q.From, To: q.To, Totals: []history.Total{}, Keys: []history.KeyMinute{}, Spans: []history.Span{},
		Events: []history.Event{},
	}
	for _, read := range []func(context.Context, *sql.DB, *history.Query, *history.Answer) error{
		readTotals, readKeys, readSpans, readEvents,
	} {
		if err := read(ctx, db, &q, a); err != nil {
			return nil, fmt.Errorf("historystore: %w", err)
		}
	}
	return a, nil
}

// opened is the open file. It waits until opening was tried once.
func (s *Store) opened(ctx context.Context) (*sql.DB, error) {
	select {
	case <-s.tried:
	case <-ctx.Done():
		return nil, errNotOpen
	}
	if db := s.db.Load(); db != nil {
		return db, nil
	}
	if err := s.Failing(); err != nil {
		return nil, err
	}
	return nil, errNotOpen
}

var errNotOpen = errors.New("historystore: the file is being opened")

// list reads the rows of a query into a list of at most limit.
func list[T any](ctx context.Context, db *sql.DB, a *history.Answer, limit int, scan func(*sql.Rows) (T, error),
	query string, args ...any,
) ([]T, error) {
	rows, err := db.QueryContext(ctx, query+" LIMIT ?", append(args, limit+1)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []T{}
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		if len(all) == limit {
			a.Truncated = true
			break
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

func readTotals(ctx context.Context, db *sql.DB, q *history.Query, a *history.Answer) (err error) {
	if q.Key != "" {
		return nil // they are of all keys
	}
	a.Totals, err = list(ctx, db, a, q.Limit, func(r *sql.Rows) (t history.Total, err error) {
		var minute int64
		var by string
		if err := r.Scan(&minute, &t.Allowed, &t.Denied, &by); err != nil {
			return t, err
		}
		t.Minute = time.Unix(minute, 0).UTC()
		return t, json.Unmarshal([]byte(by), &t.By)
	}, `SELECT minute, allowed, denied, denied_by FROM total WHERE minute >= ? AND minute < ? ORDER BY minute`,
		q.From.Unix(), endOfMinutes(q))
	return err
}

// endOfMinutes is the first second whose minute is not of the answer: the minute under way at the end of
// the span is.
func endOfMinutes(q *history.Query) int64 { return q.To.Add(time.Second - 1).Unix() }

// ofKey narrows a condition to the key of a query, if it names one.
func ofKey(q *history.Query, where string, args ...any) (string, []any) {
	if q.Key == "" {
		return where, args
	}
	return `key = ? AND ` + where, append([]any{string(q.Key)}, args...)
}

func readKeys(ctx context.Context, db *sql.DB, q *history.Query, a *history.Answer) (err error) {
	where, args := ofKey(q, `minute >= ? AND minute < ?`, q.From.Unix(), endOfMinutes(q))
	a.Keys, err = list(ctx, db, a, q.Limit, func(r *sql.Rows) (k history.KeyMinute, err error) {
		var minute int64
		err = r.Scan(&minute, (*string)(&k.Key), &k.Rule, &k.State, &k.Rate, &k.Peak, &k.Allowed, &k.Denied, &k.Clients)
		k.Minute = time.Unix(minute, 0).UTC()
		return k, err
	}, `SELECT minute, key, rule, state, rate, peak, allowed, denied, clients FROM minute WHERE `+where+
		` ORDER BY minute, key`, args...)
	return err
}

func readSpans(ctx context.Context, db *sql.DB, q *history.Query, a *history.Answer) (err error) {
	where, args := ofKey(q, `since < ? AND (until = 0 OR until >= ?)`, q.To.UnixMilli(), q.From.UnixMilli())
	a.Spans, err = list(ctx, db, a, q.Limit, func(r *sql.Rows) (s history.Span, err error) {
		var since, until int64
		err = r.Scan((*string)(&s.Key), &s.State, &since, &until, &s.Rule, &s.Peak)
		if s.From = time.UnixMilli(since).UTC(); until > 0 {
			s.Until = time.UnixMilli(until).UTC()
		}
		return s, err
	}, `SELECT key, state, since, until, rule, peak FROM span WHERE `+where+` ORDER BY since, key`, args...)
	return err
}

func readEvents(ctx context.Context, db *sql.DB, q *history.Query, a *history.Answer) error {
	return readEventsWhere(ctx, db, q, a, "")
}

// readEventsWhere reads those events of which a further condition holds, in SQL.
func readEventsWhere(ctx context.Context, db *sql.DB, q *history.Query, a *history.Answer, further string) (err error) {
	where, args := ofKey(q, `at >= ? AND at < ?`+further, q.From.UnixMilli(), q.To.UnixMilli())
	a.Events, err = list(ctx, db, a, q.Limit, func(r *sql.Rows) (e history.Event, err error) {
		var at int64
		var detail string
		err = r.Scan(&at, &e.Kind, &e.Key, &detail)
		e.At, e.Detail = time.UnixMilli(at).UTC(), json.RawMessage(detail)
		return e, err
	}, `SELECT at, kind, key, detail FROM event WHERE `+where+` ORDER BY at, id`, args...)
	return err
}

const heatmapEvents = 1000

// Heatmap answers when the heaviest keys of a time were asked for. Times longer than a few hours are
// answered from hours as far as possible: a week of a million minutes takes a fraction of a second.
func (s *Store) Heatmap(ctx context.Context, q history.HeatmapQuery) (*history.Heatmap, error) {
	db, err := s.opened(ctx)
	if err != nil {
		return nil, err
	}
	m := &history.Heatmap{From: q.From, To: q.To, Step: int64(q.Step / time.Second), Keys: []history.HeatmapKey{},
		Events: []history.Event{}}
	if err := readHeatmap(ctx, db, &q, m); err != nil {
		return nil, fmt.Errorf("historystore: %w", err)
	}
	a := &history.Answer{}
	all := history.Query{From: q.From, To: q.To, Limit: heatmapEvents}
	where := ""
	if q.Step >= 10*time.Minute {
		where = " AND kind LIKE 'override%'" // what became hot is seen in the cells
	}
	if err := readEventsWhere(ctx, db, &all, a, where); err != nil {
		return nil, fmt.Errorf("historystore: %w", err)
	}
	m.Events, m.Truncated = a.Events, a.Truncated
	return m, nil
}

func readHeatmap(ctx context.Context, db *sql.DB, q *history.HeatmapQuery, m *history.Heatmap) error {
	cells := "minute" // the table, and its column of times
	if q.Step%time.Hour == 0 {
		cells = "hour"
	}
	top := cells
	if q.To.Sub(q.From) > 6*time.Hour {
		top = "hour"
	}
	first, last := q.From.Unix(), q.To.Unix()
	rows, err := db.QueryContext(ctx, `WITH top AS (
			SELECT key, max(peak) AS heaviest FROM `+top+` WHERE `+top+` >= ?1 / 3600 * 3600 AND `+top+` < ?2
			GROUP BY key ORDER BY heaviest DESC, key LIMIT ?4)
		SELECT c.key, max(c.rule), (c.`+cells+` - ?1) / ?3 AS cell,
			CASE WHEN max(c.state = 'hot') THEN 'hot' WHEN max(c.state = 'loop') THEN 'loop' ELSE 'cold' END,
			max(c.peak), sum(c.allowed), sum(c.denied)
		FROM top JOIN `+cells+` AS c ON c.key = top.key AND c.`+cells+` >= ?1 AND c.`+cells+` < ?2
		GROUP BY c.key, cell ORDER BY top.heaviest DESC, c.key, cell`, first, last, int64(q.Step/time.Second), q.Keys)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var key, rule string
		var c history.Cell
		if err := rows.Scan(&key, &rule, &c.At, &c.State, &c.Peak, &c.Allowed, &c.Denied); err != nil {
			return err
		}
		if n := len(m.Keys); n == 0 || m.Keys[n-1].Key != hottype.Key(key) {
			m.Keys = append(m.Keys, history.HeatmapKey{Key: hottype.Key(key), Rule: rule})
		}
		last := &m.Keys[len(m.Keys)-1]
		last.Cells = append(last.Cells, c)
	}
	return rows.Err()
}
