package historystore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// purge asks Run to remove a key.
type purge struct {
	key  hottype.Key
	done chan<- purged // has room for the answer
}

type purged struct {
	rows int64
	err  error
}

// Purge removes what is kept of a key, also what waits to be written, and gives how many rows there were. Their place
// in the file is overwritten. While the file is not open Purge fails, and the error says why.
func (s *Store) Purge(ctx context.Context, key hottype.Key) (rows int64, err error) {
	if _, err := s.opened(ctx); err != nil {
		return 0, err
	}
	s.mu.Lock()
	s.recorder.Forget(key)
	s.mu.Unlock()
	done := make(chan purged, 1)
	select {
	case s.purges <- purge{key, done}:
	case <-ctx.Done():
		return 0, fmt.Errorf("historystore: nothing was purged: %w", ctx.Err())
	}
	select {
	case p := <-done:
		return p.rows, p.err
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
		err = errors.New(
			"the rows are removed, but their place in the file is not overwritten yet, because it is being read; purge again")
	}
	if err != nil {
		return fmt.Errorf("historystore: %w", err)
	}
	return nil
}
