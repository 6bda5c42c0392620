// Package historystore keeps the history of a program (package history) in a SQLite file: minutes,
// spans and events, for some days, within a bound of bytes.
//
// It is never in the way: what cannot be written is dropped and counted, and a file that cannot be
// opened is tried again. A damaged file is set aside under another name and a new one begun.
package historystore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/internal/detection/history"
	"github.com/hotparam/pipeline/internal/dirlock"
)

type Config struct {
	// Dir is where the file lies; it is made if need be.
	Dir string
	// Keep is for how long; 0 means seven days.
	Keep time.Duration
	// MaxBytes bounds the file; 0 means 1 GiB. When it is full, the oldest part goes.
	MaxBytes int64
	// Keys are how many keys of a minute are kept, the heaviest; 0 means 100.
	Keys int
	// Log; nil discards.
	Log *slog.Logger
	// Now; nil means time.Now.
	Now func() time.Time
}

const (
	// queued is how much waits for the disk. A minute is one, and so is an event.
	queued = 1024
	// reopenEvery is how often a file is tried that could not be opened.
	reopenEvery = 30 * time.Second
)

// Store keeps a history. [Store.Run] opens the file and writes; until then and while the file cannot
// be used, what comes is kept as far as there is room in memory. It may be used by many goroutines.
type Store struct {
	cfg      Config
	queue    chan any    // history.Minute or history.Event
	calls    chan func() // for Run to call
	recorder *history.Recorder
	mu       sync.Mutex // guards recorder

	lock    *os.File               // of Run; nil: not held
	db      atomic.Pointer[sql.DB] // nil: not open
	tried   chan struct{}          // closed when opening was tried once
	failing atomic.Pointer[string] // why, or why the last write failed; nil: nothing is wrong

	written, dropped, failures, setAside atomic.Uint64
	bytes                                atomic.Int64
}

// Stats are counters since the start, and Bytes as it is now.
type Stats struct {
	Written  uint64 `metric:"hotparam_history_written_total" help:"Minutes and events written to the history."`
	Dropped  uint64 `metric:"hotparam_history_dropped_total" help:"Minutes and events that could not be written, or came faster than the disk."`
	Failures uint64 `metric:"hotparam_history_failures_total" help:"Writes and openings of the history that failed."`
	SetAside uint64 `metric:"hotparam_history_set_aside_total" help:"Damaged files of the history that were set aside."`
	Bytes    int64  `metric:"hotparam_history_bytes" help:"Bytes of the history's file that are in use."`
	Failing  bool   `metric:"hotparam_history_failing" help:"1 while the history is not written."`
}

// New builds a Store. It opens nothing.
func New(cfg Config) *Store {
	cfg.Keep, cfg.MaxBytes = cmp.Or(cfg.Keep, 7*24*time.Hour), cmp.Or(cfg.MaxBytes, 1<<30)
	cfg.Keys, cfg.Log = cmp.Or(cfg.Keys, 100), cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Store{cfg: cfg, queue: make(chan any, queued), calls: make(chan func()), tried: make(chan struct{}),
		recorder: history.NewRecorder(cfg.Keys)}
}

// Second takes what was seen in a second. It does not block.
func (s *Store) Second(second *history.Second) {
	s.mu.Lock()
	ended := s.recorder.Add(second)
	s.mu.Unlock()
	if ended != nil {
		s.enqueue(*ended)
	}
}

// Event takes something that happened. It does not block.
func (s *Store) Event(e history.Event) { s.enqueue(e) }

func (s *Store) enqueue(one any) {
	select {
	case s.queue <- one:
	default:
		s.dropped.Add(1)
	}
}

// Run opens the file and writes until ctx ends, then what is left, and closes the file. It returns
// nil: what fails is counted, logged once, shown by [Store.Failing] and tried again.
func (s *Store) Run(ctx context.Context) error {
	retry := time.NewTicker(reopenEvery)
	defer retry.Stop()
	s.reopen(ctx)
	close(s.tried)
	for ctx.Err() == nil {
		work := s.queue
		if s.db.Load() == nil {
			work = nil // it waits in the queue
		}
		select {
		case <-ctx.Done():
		case <-retry.C:
			if s.db.Load() == nil {
				s.reopen(ctx)
			}
		case call := <-s.calls:
			call()
		case one := <-work:
			s.write(context.WithoutCancel(ctx), s.batch(one))
		}
	}
	return s.end(context.WithoutCancel(ctx))
}

// end writes the minute under way and what waits.
func (s *Store) end(ctx context.Context) error {
	s.mu.Lock()
	last := s.recorder.End()
	s.mu.Unlock()
	if last != nil {
		s.enqueue(*last)
	}
	db := s.db.Load()
	if s.lock != nil {
		defer s.lock.Close() // the last of what can fail: nothing is left to say
	}
	if db == nil {
		return nil
	}
	if rest := s.batch(nil); len(rest) > 0 {
		s.write(ctx, rest)
	}
	s.db.Store(nil)
	_ = db.Close() // what is committed is on the disk
	return nil
}

// batch is what waits, behind a first one.
func (s *Store) batch(first any) (all []any) {
	if first != nil {
		all = append(all, first)
	}
	for {
		select {
		case one := <-s.queue:
			all = append(all, one)
		default:
			return all
		}
	}
}

// reopen takes the directory, which no other process may use, and opens the file.
func (s *Store) reopen(ctx context.Context) {
	if err := s.lockDir(); s.fail(err) {
		return
	}
	db, aside, err := open(ctx, s.cfg.Dir, s.cfg.MaxBytes)
	if aside != "" {
		s.setAside.Add(1)
		s.cfg.Log.Warn("historystore: the history is damaged or of another version; a new one begins", "set_aside", aside)
	}
	if err == nil {
		if err = s.closeSpans(ctx, db); err != nil {
			err = errors.Join(err, db.Close())
		}
	}
	if s.fail(err) {
		return
	}
	s.db.Store(db)
	s.measure(ctx, db)
}

func (s *Store) lockDir() (err error) {
	if s.lock != nil {
		return nil
	}
	if err := os.MkdirAll(s.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("historystore: %w", err)
	}
	s.lock, err = dirlock.Take(s.cfg.Dir, "history.lock")
	return err
}

// fail notes an error, or that there is none any more, and reports which.
func (s *Store) fail(err error) bool {
	if err == nil {
		if s.failing.Swap(nil) != nil {
			s.cfg.Log.Info("historystore: the history is written again")
		}
		return false
	}
	s.failures.Add(1)
	text := err.Error()
	if do := remedy(err, s.cfg.Dir); do != "" {
		text += ": " + do
	}
	if s.failing.Swap(&text) == nil {
		s.cfg.Log.Warn("historystore: the history is not written; everything else goes on", "dir", s.cfg.Dir, "err", text)
	}
	return true
}

// Failing says why the history is not written at the moment, and what to do about it; nil where it is.
func (s *Store) Failing() error {
	if text := s.failing.Load(); text != nil {
		return errors.New(*text)
	}
	return nil
}

// write writes a batch in one transaction. A full file loses its oldest part first; a damaged one is
// set aside, and what could not be written is lost.
func (s *Store) write(ctx context.Context, batch []any) {
	db := s.db.Load()
	err := s.makeSpace(ctx, db)
	if err == nil {
		err = inTransaction(ctx, db, func(tx *sql.Tx) error {
			for _, one := range batch {
				if err := s.insert(ctx, tx, one); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if !s.fail(err) {
		s.written.Add(uint64(len(batch)))
		s.measure(ctx, db)
		return
	}
	s.dropped.Add(uint64(len(batch)))
	if damaged(err) {
		s.db.Store(nil)
		_ = db.Close() // it is of no use any more
		s.reopen(ctx)
	}
}

func inTransaction(ctx context.Context, db *sql.DB, do func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return wrapped(err)
	}
	if err := do(tx); err != nil {
		return wrapped(errors.Join(err, tx.Rollback()))
	}
	return wrapped(tx.Commit())
}

// wrapped names the package in an error; nil stays nil.
func wrapped(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("historystore: %w", err)
}

func (s *Store) Stats() Stats {
	return Stats{
		Written: s.written.Load(), Dropped: s.dropped.Load(), Failures: s.failures.Load(), SetAside: s.setAside.Load(),
		Bytes: s.bytes.Load(), Failing: s.failing.Load() != nil,
	}
}
