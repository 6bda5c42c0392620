// Package historystore keeps the history of a program (package history) in files: minutes, spans and events, for some
// days, within a bound of bytes.
//
//	DIR/history/2026-03-14T12.minutes   the minutes of an hour, in UTC, as they end
//	DIR/history/2026-03-14T12.hours     their sums by key, once the hour is over; made from the minutes
//	DIR/history/2026-03-14T12.events    events, and the beginnings and ends of spans
//	DIR/history.lock                    held while a process has the history open
//
// The store never delays its callers: it drops and counts records that cannot be written, and tries a directory that
// cannot be used again later. It sets a damaged file aside under another name, and keeps the blocks before the damage.
package historystore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hotparam/pipeline/internal/detection/history"
	"github.com/hotparam/pipeline/internal/dirlock"
)

type Config struct {
	// Dir is the state directory, which is made if it does not exist.
	Dir string
	// Keep is how long records are kept; 0 means seven days.
	Keep time.Duration
	// MaxBytes bounds the files together; 0 means 1 GiB. When they are full, the oldest are removed.
	MaxBytes int64
	// Keys is the number of keys of a minute that are kept, the heaviest; 0 means 100.
	Keys int
	// Log receives messages; nil discards them.
	Log *slog.Logger
	// Now returns the time; nil means time.Now.
	Now func() time.Time
}

const (
	// queued is the number of minutes and events that may wait for the disk.
	queued = 1024
	// reopenEvery is the interval at which a directory that could not be used is tried again.
	reopenEvery = 30 * time.Second
)

// Store keeps a history. [Store.Run] opens the files and writes. Until then, and while the files cannot be used,
// records wait as far as there is room in memory. Many goroutines may use a Store.
type Store struct {
	cfg      Config
	queue    chan any      // history.Minute or history.Event
	calls    chan func()   // for Run to call
	damaged  chan struct{} // a reader found a damaged file
	recorder *history.Recorder
	mu       sync.Mutex // guards recorder

	lock    *dirlock.Lock           // of Run, or nil if it is not held
	archive atomic.Pointer[archive] // nil if not open
	lasting map[spanID]lastingSpan  // of the archive that was open before, or nil; for Run
	tried   chan struct{}           // closed after the first try to open
	failing atomic.Pointer[string]  // error of the last opening or write, or nil

	written, dropped, failures, setAside atomic.Uint64
	bytes                                atomic.Int64
}

// Stats holds counters since the start, and the present Bytes and Failing.
type Stats struct {
	Written  uint64 `metric:"hotparam_history_written_total" help:"Minutes and events written to the history."`
	Dropped  uint64 `metric:"hotparam_history_dropped_total" help:"Minutes and events lost because writing failed or the disk was too slow."`
	Failures uint64 `metric:"hotparam_history_failures_total" help:"Failed attempts to open or write the history."`
	SetAside uint64 `metric:"hotparam_history_set_aside_total" help:"Damaged files of the history that were set aside."`
	Bytes    int64  `metric:"hotparam_history_bytes" help:"Bytes of the history's files."`
	Failing  bool   `metric:"hotparam_history_failing" help:"1 while the history is not written."`
}

// New builds a Store. It opens nothing.
func New(cfg Config) *Store {
	cfg.Keep, cfg.MaxBytes = cmp.Or(cfg.Keep, 7*24*time.Hour), cmp.Or(cfg.MaxBytes, 1<<30)
	cfg.Keys, cfg.Log = cmp.Or(cfg.Keys, 100), cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Store{cfg: cfg, queue: make(chan any, queued), calls: make(chan func()), damaged: make(chan struct{}, 1),
		tried: make(chan struct{}), recorder: history.NewRecorder(cfg.Keys)}
}

// Second records the requests of a second. It does not block.
func (s *Store) Second(second *history.Second) {
	s.mu.Lock()
	ended := s.recorder.Add(second)
	s.mu.Unlock()
	if ended != nil {
		s.enqueue(*ended)
	}
}

// Event records an event. It does not block.
func (s *Store) Event(e history.Event) { s.enqueue(e) }

func (s *Store) enqueue(one any) {
	select {
	case s.queue <- one:
	default:
		s.dropped.Add(1)
	}
}

// Run opens the files and writes until ctx ends, and then writes the waiting records. It returns nil, because failures
// are counted, logged once, shown by [Store.Failing] and tried again.
func (s *Store) Run(ctx context.Context) error {
	retry := time.NewTicker(reopenEvery)
	defer retry.Stop()
	s.reopenArchive()
	close(s.tried)
	for ctx.Err() == nil {
		work := s.queue
		if s.archive.Load() == nil {
			work = nil // the records wait in the queue
		}
		select {
		case <-ctx.Done():
		case <-retry.C:
			if s.archive.Load() == nil {
				s.reopenArchive()
			}
		case <-s.damaged:
			s.reopenArchive()
		case call := <-s.calls:
			call()
		case one := <-work:
			s.write(s.takeBatch(one))
		}
	}
	s.writeRest()
	return nil
}

// writeRest writes the minute under way and the waiting records.
func (s *Store) writeRest() {
	s.mu.Lock()
	last := s.recorder.End()
	s.mu.Unlock()
	if last != nil {
		s.enqueue(*last)
	}
	if s.lock != nil {
		defer s.lock.Close() // its error needs no report, because Run ends
	}
	if s.archive.Load() == nil {
		return
	}
	if rest := s.takeBatch(nil); len(rest) > 0 {
		s.write(rest)
	}
	s.archive.Store(nil)
}

// takeBatch returns first, if it is not nil, and the waiting records.
func (s *Store) takeBatch(first any) (all []any) {
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

// reopenArchive locks the directory, which no other process may use, and opens the files.
func (s *Store) reopenArchive() {
	if a := s.archive.Swap(nil); a != nil {
		s.lasting = a.lasting
		a.mu.Lock() // its readers have ended
		defer a.mu.Unlock()
	}
	if err := s.lockDir(); s.recordFailure(err) {
		return
	}
	a, aside, err := openArchive(&s.cfg, s.lasting)
	s.setAside.Add(aside)
	if s.recordFailure(wrapError(err)) {
		return
	}
	s.archive.Store(a)
	s.recordSize(a)
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

// recordFailure records an error, or its end if err is nil, and reports whether there is an error.
func (s *Store) recordFailure(err error) bool {
	if err == nil {
		if s.failing.Swap(nil) != nil {
			s.cfg.Log.Info("historystore: the history is written again")
		}
		return false
	}
	s.failures.Add(1)
	text := err.Error()
	if do := remedyOf(err, s.cfg.Dir); do != "" {
		text += ": " + do
	}
	if s.failing.Swap(&text) == nil {
		s.cfg.Log.Warn("historystore: the history is not written; everything else goes on", "dir", s.cfg.Dir, "err", text)
	}
	return true
}

// Failing returns why the history is not written at the moment, and how to mend it, or nil if it is written.
func (s *Store) Failing() error {
	if text := s.failing.Load(); text != nil {
		return errors.New(*text)
	}
	return nil
}

// write writes a batch. Full files lose their oldest part first. A batch that cannot be written is dropped and counted.
func (s *Store) write(batch []any) {
	a := s.archive.Load()
	if err := a.write(batch); s.recordFailure(wrapError(err)) {
		s.dropped.Add(uint64(len(batch)))
		if errors.Is(err, errDamaged) || errors.Is(err, errTorn) || errors.Is(err, errUnknownEnd) ||
			errors.Is(err, fs.ErrNotExist) {
			s.reopenArchive()
		}
		return
	}
	s.written.Add(uint64(len(batch)))
	s.recordFailure(wrapError(a.sumHours()))
	s.recordSize(a)
}

func (s *Store) recordSize(a *archive) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	s.bytes.Store(a.totalBytes())
}

// wrapError adds the package's name to an error, and returns nil for nil.
func wrapError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("historystore: %w", err)
}

// remedyOf returns how a person can mend an error, or "" if the error itself states it.
func remedyOf(err error, dir string) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "make room on the disk of " + dir
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return "let this program write in " + dir + ", or give it another state.dir"
	case errors.Is(err, syscall.EIO):
		return "see whether the disk of " + dir + " is full or broken"
	case errors.Is(err, errTooLarge):
		return "raise history.max_bytes, or lower history.keys"
	}
	return ""
}

func (s *Store) Stats() Stats {
	return Stats{
		Written: s.written.Load(), Dropped: s.dropped.Load(), Failures: s.failures.Load(), SetAside: s.setAside.Load(),
		Bytes: s.bytes.Load(), Failing: s.failing.Load() != nil,
	}
}
