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

func (s *Store) insert(ctx context.Context, tx *sql.Tx, one any) error {
	switch v := one.(type) {
	case history.Minute:
		if err := insertMinute(ctx, tx, &v); err != nil {
			return err
		}
		return insertHour(ctx, tx, &v, hourKeys*s.cfg.Keys)
	case history.Event:
		return insertEvent(ctx, tx, &v)
	}
	panic(fmt.Sprintf("historystore: a %T was queued", one))
}

// insertMinute adds to what is there of the minute: a program that was started again within it
// tells its second part.
func insertMinute(ctx context.Context, tx *sql.Tx, m *history.Minute) error {
	minute := m.Total.Minute.Unix()
	by, err := deniedBy(ctx, tx, minute, m.Total.By)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO total VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET
		allowed = allowed + excluded.allowed, denied = denied + excluded.denied, denied_by = excluded.denied_by`,
		minute, m.Total.Allowed, m.Total.Denied, by)
	if err != nil {
		return err
	}
	stmt, err := tx.PrepareContext(ctx, `INSERT INTO minute VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
		state = excluded.state, rate = excluded.rate, peak = max(peak, excluded.peak),
		allowed = allowed + excluded.allowed, denied = denied + excluded.denied, clients = max(clients, excluded.clients)`)
	if err != nil {
		return err
	}
	defer stmt.Close()
	for i := range m.Keys {
		k := &m.Keys[i]
		if _, err := stmt.ExecContext(ctx, minute, string(k.Key), k.Rule, k.State, k.Rate, k.Peak, k.Allowed, k.Denied,
			k.Clients); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx,
			`UPDATE span SET peak = max(peak, ?) WHERE key = ? AND state = ? AND until = 0`,
			k.Peak, string(k.Key), k.State); err != nil {
			return err
		}
	}
	return nil
}

// hourKeys is how many times the keys of a minute an hour has: more than one, because the heaviest keys of
// its minutes differ, and bounded, because they might all do.
const hourKeys = 4

// insertHour adds a minute to its hour, and removes the lightest keys of the hour beyond most.
func insertHour(ctx context.Context, tx *sql.Tx, m *history.Minute, most int) error {
	hour := m.Total.Minute.Unix() / 3600 * 3600
	stmt, err := tx.PrepareContext(ctx, `INSERT INTO hour VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
		state = CASE WHEN 'hot' IN (state, excluded.state) THEN 'hot' WHEN 'loop' IN (state, excluded.state) THEN 'loop'
			ELSE excluded.state END,
		peak = max(peak, excluded.peak), allowed = allowed + excluded.allowed, denied = denied + excluded.denied`)
	if err != nil {
		return err
	}
	defer stmt.Close()
	for i := range m.Keys {
		k := &m.Keys[i]
		if _, err := stmt.ExecContext(ctx, hour, string(k.Key), k.Rule, k.State, k.Peak, k.Allowed,
			k.Denied); err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM hour WHERE hour = ?1 AND key IN (
		SELECT key FROM hour WHERE hour = ?1 ORDER BY peak DESC, key LIMIT -1 OFFSET ?2)`, hour, most)
	return err
}

// deniedBy adds what denied in a part of a minute to what is there of it.
func deniedBy(ctx context.Context, tx *sql.Tx, minute int64, by map[string]float64) (string, error) {
	sum := map[string]float64{}
	var there string
	switch err := tx.QueryRowContext(ctx, `SELECT denied_by FROM total WHERE minute = ?`, minute).Scan(&there); {
	case errors.Is(err, sql.ErrNoRows):
	case err != nil:
		return "", err
	default:
		if err := json.Unmarshal([]byte(there), &sum); err != nil {
			return "", err
		}
	}
	for what, n := range by {
		sum[what] += n
	}
	text, err := json.Marshal(sum)
	return string(text), err
}

func insertEvent(ctx context.Context, tx *sql.Tx, e *history.Event) error {
	// A program that begins anew tells the last changes of overrides again.
	_, err := tx.ExecContext(ctx, `INSERT INTO event (at, kind, key, detail) SELECT ?1, ?2, ?3, ?4
		WHERE NOT EXISTS (SELECT 1 FROM event WHERE at = ?1 AND kind = ?2 AND key = ?3 AND detail = ?4)`,
		e.At.UnixMilli(), e.Kind, e.Key, string(e.Detail))
	if err != nil || e.Span == nil {
		return err
	}
	s := e.Span
	if s.Until.IsZero() { // one that lasted over a restart is there already
		_, err = tx.ExecContext(ctx, `INSERT INTO span VALUES (?, ?, ?, 0, ?, ?) ON CONFLICT DO UPDATE SET until = 0`,
			string(s.Key), s.State, s.From.UnixMilli(), s.Rule, s.Peak)
		return err
	}
	_, err = tx.ExecContext(ctx,
		`UPDATE span SET until = ?, peak = max(peak, ?) WHERE key = ? AND state = ? AND until = 0`,
		s.Until.UnixMilli(), s.Peak, string(s.Key), s.State)
	return err
}

// closeSpans ends the spans that a program left open when it ended, at the last minute that it wrote.
func (s *Store) closeSpans(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, `UPDATE span SET until =
		max(since, min(?, 1000 * (SELECT coalesce(max(minute) + 60, 0) FROM total))) WHERE until = 0`, s.cfg.Now().UnixMilli())
	return wrapped(err)
}

func (s *Store) Trim(ctx context.Context) error {
	db := s.db.Load()
	if db == nil {
		return nil // Failing says why
	}
	return s.deleteBefore(ctx, db, s.cfg.Now().Add(-s.cfg.Keep))
}

func (s *Store) makeSpace(ctx context.Context, db *sql.DB) error {
	for range 100 {
		n, err := used(ctx, db)
		if err != nil || n < s.cfg.MaxBytes/10*9 {
			return err
		}
		var first, last sql.NullInt64
		err = db.QueryRowContext(ctx, `SELECT min(at), max(at) FROM (
			SELECT minute AS at FROM total UNION ALL SELECT at / 1000 FROM event)`).Scan(&first, &last)
		if err != nil {
			return fmt.Errorf("historystore: %w", err)
		}
		if !first.Valid || first.Int64 == last.Int64 {
			return nil // nothing can go
		}
		if err := s.deleteBefore(ctx, db, time.Unix(first.Int64+max(1, (last.Int64-first.Int64)/10), 0)); err != nil {
			return err
		}
	}
	return nil
}

func used(ctx context.Context, db *sql.DB) (int64, error) {
	var pages int64
	err := db.QueryRowContext(ctx,
		"SELECT page_count - freelist_count FROM pragma_page_count, pragma_freelist_count").Scan(&pages)
	return pages * pageSize, wrapped(err)
}

func (s *Store) measure(ctx context.Context, db *sql.DB) {
	if n, err := used(ctx, db); err == nil {
		s.bytes.Store(n)
	}
}

func (s *Store) deleteBefore(ctx context.Context, db *sql.DB, t time.Time) error {
	err := inTransaction(ctx, db, func(tx *sql.Tx) error {
		for _, one := range []struct {
			sql string
			at  int64
		}{
			{"DELETE FROM total WHERE minute < ?", t.Unix()},
			{"DELETE FROM minute WHERE minute < ?", t.Unix()},
			{"DELETE FROM hour WHERE hour <= ?", t.Unix() - 3600},
			{"DELETE FROM event WHERE at < ?", t.UnixMilli()},
			{"DELETE FROM span WHERE until > 0 AND until < ?", t.UnixMilli()},
		} {
			if _, err := tx.ExecContext(ctx, one.sql, one.at); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		s.measure(ctx, db)
	}
	return err
}

// Purge removes what is kept of a key, also what waits to be written, and gives how many rows there were. Their place
// in the file is overwritten. While the file is not open Purge fails, and the error says why.
func (s *Store) Purge(ctx context.Context, key hottype.Key) (rows int64, err error) {
	if _, err = s.opened(ctx); err != nil {
		return 0, err
	}
	s.mu.Lock()
	s.recorder.Forget(key)
	s.mu.Unlock()
	done := make(chan struct{})
	var removed int64 // and failed: of Run's goroutine until done is closed
	var failed error
	select {
	case s.calls <- func() {
		removed, failed = s.remove(context.WithoutCancel(ctx), key)
		close(done)
	}:
	case <-ctx.Done():
		return 0, fmt.Errorf("historystore: nothing was purged: %w", ctx.Err())
	}
	select {
	case <-done:
		return removed, failed
	case <-ctx.Done():
		return 0, fmt.Errorf("historystore: the purge goes on: %w", ctx.Err())
	}
}

// remove writes what waits, and then removes a key. Run's goroutine only.
func (s *Store) remove(ctx context.Context, key hottype.Key) (rows int64, err error) {
	if rest := s.batch(nil); s.db.Load() != nil && len(rest) > 0 {
		s.write(ctx, rest)
	}
	db := s.db.Load()
	if db == nil {
		return 0, errNotOpen
	}
	err = inTransaction(ctx, db, func(tx *sql.Tx) error {
		for _, table := range []string{"minute", "hour", "span", "event"} {
			result, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE key = ?", string(key))
			if err != nil {
				return err
			}
			n, err := result.RowsAffected()
			if err != nil {
				return err
			}
			rows += n
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return rows, flushLog(ctx, db)
}

// flushLog empties the write-ahead log, which still has the pages from before.
func flushLog(ctx context.Context, db *sql.DB) error {
	var busy, pages, moved int
	err := db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &moved)
	if err == nil && busy != 0 {
		err = errors.New("the rows are removed, but their place in the file is not overwritten yet, because it is being " +
			"read; purge again")
	}
	return wrapped(err)
}
