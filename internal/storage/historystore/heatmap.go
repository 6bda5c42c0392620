package historystore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/history"
)

// heatmapEvents bounds the events of a heatmap.
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

// readHeatmap finds the heaviest keys by the hours where the time has many, and their cells.
func readHeatmap(ctx context.Context, db *sql.DB, q *history.HeatmapQuery, m *history.Heatmap) error {
	cells, cellTime := "minute", "minute"
	if q.Step%time.Hour == 0 {
		cells, cellTime = "hour", "hour"
	}
	top, topTime := cells, cellTime
	if q.To.Sub(q.From) > 6*time.Hour {
		top, topTime = "hour", "hour"
	}
	first, last := q.From.Unix(), q.To.Unix()
	rows, err := db.QueryContext(ctx, `WITH top AS (
			SELECT key, max(peak) AS heaviest FROM `+top+` WHERE `+topTime+` >= ?1 / 3600 * 3600 AND `+topTime+` < ?2
			GROUP BY key ORDER BY heaviest DESC, key LIMIT ?4)
		SELECT c.key, max(c.rule), (c.`+cellTime+` - ?1) / ?3 AS cell,
			CASE WHEN max(c.state = 'hot') THEN 'hot' WHEN max(c.state = 'loop') THEN 'loop' ELSE 'cold' END,
			max(c.peak), sum(c.allowed), sum(c.denied)
		FROM top JOIN `+cells+` AS c ON c.key = top.key AND c.`+cellTime+` >= ?1 AND c.`+cellTime+` < ?2
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
