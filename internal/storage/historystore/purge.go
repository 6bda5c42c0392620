package historystore

import (
	"context"
	"fmt"
	"maps"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/history"
)

// Purge removes all records of a key, also the records that wait to be written, and returns the number of its minutes,
// spans and events. It overwrites their place on the disk. While the history is not open, Purge returns an error with
// the reason.
func (s *Store) Purge(ctx context.Context, key hottype.Key) (rows int64, err error) {
	if _, err = s.waitForArchive(ctx); err != nil {
		return 0, err
	}
	s.mu.Lock()
	s.recorder.Forget(key)
	s.mu.Unlock()
	done := make(chan struct{})
	var removed int64 // written, like failed, by Run's goroutine until done is closed
	var failed error
	select {
	case s.calls <- func() {
		removed, failed = s.removeKey(key)
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

// removeKey writes the waiting records, and then removes a key. Only Run's goroutine calls it.
func (s *Store) removeKey(key hottype.Key) (rows int64, err error) {
	if rest := s.takeBatch(nil); s.archive.Load() != nil && len(rest) > 0 {
		s.write(rest)
	}
	a := s.archive.Load()
	if a == nil {
		return 0, errNotOpen
	}
	rows, err = a.purgeKey(key)
	s.recordSize(a)
	return rows, s.wrapReadError(err)
}

func (a *archive) purgeKey(key hottype.Key) (rows int64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	changed := a.newReplacement()
	defer changed.removeTemps()
	for _, hour := range a.allHours() {
		for _, kind := range damagedKinds { // they may contain the key
			if err := a.remove(fileID{hour, kind}); err != nil {
				return 0, err
			}
		}
		n, err := purgeRows(changed, fileID{hour, minutesKind}, key)
		if err != nil {
			return 0, err
		}
		rows += n
		if _, err := purgeRows(changed, fileID{hour, hoursKind}, key); err != nil {
			return 0, err
		}
	}
	spans := map[spanStart]bool{}
	for _, hour := range a.hoursWith(eventsKind) {
		n, err := purgeRecords(changed, hour, key, spans)
		if err != nil {
			return 0, err
		}
		rows += n
	}
	if err := changed.commit(); err != nil {
		return 0, err
	}
	maps.DeleteFunc(a.lasting, func(id spanID, _ lastingSpan) bool { return id.key == key })
	maps.DeleteFunc(a.ended, func(id spanID, _ history.Span) bool { return id.key == key })
	return rows + int64(len(spans)), nil
}

// purgeRows removes a key from the minutes or the sums of a file, and returns the number of its rows.
func purgeRows(changed *replacement, id fileID, key hottype.Key) (rows int64, err error) {
	payloads, err := changed.read(id)
	if err != nil {
		return 0, err
	}
	data := fileHeader(id.kind)
	for _, payload := range payloads {
		b, m, n := openBlock(payload), history.Minute{}, 0
		if !b.mayContain(key) {
			data = appendBlock(data, payload)
			continue
		}
		if m.Total, err = b.read(func(r *row) {
			if string(r.key) == string(key) {
				n++
				return
			}
			m.Keys = append(m.Keys, r.keyMinute(b.at))
		}); err != nil {
			return 0, err
		}
		if n > 0 {
			payload = encodeMinute(&m)
		}
		data, rows = appendBlock(data, payload), rows+int64(n)
	}
	if rows == 0 {
		return 0, nil
	}
	return rows, changed.add(id, data)
}

// spanStart identifies a span, whose steps may be in several records.
type spanStart struct {
	state string
	from  int64
}

// purgeRecords removes the events and spans of a key from an hour. It returns the number of the key's events, and adds
// its spans to spans.
func purgeRecords(changed *replacement, hour int64, key hottype.Key, spans map[spanStart]bool) (rows int64, err error) {
	id := fileID{hour, eventsKind}
	payloads, err := changed.read(id)
	if err != nil {
		return 0, err
	}
	data, found := fileHeader(eventsKind), false
	for _, payload := range payloads {
		r, err := decodeRecord(payload)
		if err != nil {
			return 0, err
		}
		ofKey := r.Key == string(key)
		if r.Span != nil && r.Span.Key == key {
			ofKey = true
			spans[spanStart{r.Span.State, r.Span.From.UnixMilli()}] = true
		}
		if !ofKey {
			data = appendBlock(data, payload)
			continue
		}
		found = true
		if r.Kind != "" {
			rows++
		}
	}
	if !found {
		return 0, nil
	}
	return rows, changed.add(id, data)
}

// Trim removes the whole hours that are older than Keep.
func (s *Store) Trim(context.Context) error {
	a := s.archive.Load()
	if a == nil {
		return nil // Failing returns the reason
	}
	err := a.trim(s.cfg.Now().Add(-s.cfg.Keep))
	s.recordSize(a)
	return s.wrapReadError(err)
}
