package historystore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/detection/history"
)

// Read answers a query. At first it waits until the history is open or cannot be opened. While it is not open, Read
// returns an error with the reason.
func (s *Store) Read(ctx context.Context, q history.Query) (*history.Answer, error) {
	a, err := s.waitForArchive(ctx)
	if err != nil {
		return nil, err
	}
	answer := &history.Answer{From: q.From, To: q.To, Totals: []history.Total{}, Keys: []history.KeyMinute{},
		Spans: []history.Span{}, Events: []history.Event{}}
	a.mu.RLock()
	defer a.mu.RUnlock()
	err = a.readMinutes(ctx, &q, answer)
	if err == nil {
		err = a.readSpans(ctx, &q, answer)
	}
	if err == nil {
		answer.Events, err = a.readEvents(ctx, &q, answer)
	}
	return answer, s.wrapReadError(err)
}

// wrapReadError returns the error of a query. It has a damaged file mended before the next query.
func (s *Store) wrapReadError(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, errDamaged) || errors.Is(err, errTorn) {
		select {
		case s.damaged <- struct{}{}:
		default: // it is known
		}
		return fmt.Errorf("historystore: %w; the undamaged part will be kept: ask again", err)
	}
	return fmt.Errorf("historystore: %w", err)
}

// waitForArchive returns the open history. It waits until opening was tried once.
func (s *Store) waitForArchive(ctx context.Context) (*archive, error) {
	select {
	case <-s.tried:
	case <-ctx.Done():
		return nil, errNotOpen
	}
	if a := s.archive.Load(); a != nil {
		return a, nil
	}
	if err := s.Failing(); err != nil {
		return nil, err
	}
	return nil, errNotOpen
}

var errNotOpen = errors.New("historystore: the files are being opened")

// boundList bounds a list of an answer, and records if it leaves entries out.
func boundList[T any](a *history.Answer, list []T, most int) []T {
	if len(list) <= most {
		return list
	}
	a.Truncated = true
	return list[:most]
}

func (a *archive) readMinutes(ctx context.Context, q *history.Query, answer *history.Answer) error {
	from, to := q.From.Unix(), endOfMinutes(q)
	for _, hour := range a.hoursBetween(minutesKind, from, to) {
		if len(answer.Keys) > q.Limit && (q.Key != "" || len(answer.Totals) > q.Limit) {
			break
		}
		blocks, err := a.readBlocks(minutesKind, hour)
		if err != nil {
			return cmp.Or(ctx.Err(), err)
		}
		for len(blocks) > 0 {
			n := 1
			for n < len(blocks) && blocks[n].at == blocks[0].at { // parts of a minute
				n++
			}
			if at := blocks[0].at; at >= from && at < to {
				if err := readMinute(blocks[:n], q, answer); err != nil {
					return err
				}
			}
			blocks = blocks[n:]
		}
	}
	answer.Totals, answer.Keys = boundList(answer, answer.Totals, q.Limit), boundList(answer, answer.Keys, q.Limit)
	return ctx.Err()
}

// endOfMinutes returns the first second whose minute is not in the answer. The minute under way at the end of the span
// is in it.
func endOfMinutes(q *history.Query) int64 { return q.To.Add(time.Second - 1).Unix() }

// readMinute adds the parts of a minute to an answer. A minute has several parts if the program started again within
// it.
func readMinute(parts []block, q *history.Query, answer *history.Answer) error {
	var total history.Total
	first := len(answer.Keys)
	for i, part := range parts {
		if q.Key != "" && !part.mayContain(q.Key) {
			continue
		}
		t, err := part.read(func(r *row) {
			if q.Key == "" && len(answer.Keys) > q.Limit || q.Key != "" && string(r.key) != string(q.Key) {
				return
			}
			k := r.keyMinute(part.at)
			if i > 0 {
				for j := first; j < len(answer.Keys); j++ {
					if there := &answer.Keys[j]; byKey(*there, k) == 0 {
						addPart(there, &k)
						return
					}
				}
			}
			answer.Keys = append(answer.Keys, k)
		})
		if err != nil {
			return err
		}
		if i == 0 || q.Key != "" { // a query for a key has no totals
			total = t
			continue
		}
		total.Allowed, total.Denied = total.Allowed.Plus(t.Allowed), total.Denied.Plus(t.Denied)
		total.WouldDeny += t.WouldDeny
		for what, n := range t.By {
			total.By[what] += n
		}
	}
	if len(parts) > 1 {
		slices.SortFunc(answer.Keys[first:], byKey)
	}
	if q.Key == "" {
		answer.Totals = append(answer.Totals, total)
	}
	return nil
}

// addPart adds the later part of a minute to the earlier part.
func addPart(k, later *history.KeyMinute) {
	k.State, k.Rate, k.Peak = later.State, later.Rate, max(k.Peak, later.Peak)
	k.Allowed, k.Denied = k.Allowed.Plus(later.Allowed), k.Denied.Plus(later.Denied)
	k.WouldDeny += later.WouldDeny
	k.Clients = max(k.Clients, later.Clients)
}

// readSpans finds the spans of a query: ended spans in the files from its beginning on, and lasting spans. Of two ends
// of a span the later one holds, because the first was written when the program started again.
func (a *archive) readSpans(ctx context.Context, q *history.Query, answer *history.Answer) error {
	var found []history.Span
	keep := func() {
		slices.SortStableFunc(found, func(a, b history.Span) int {
			return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Key, b.Key), cmp.Compare(a.State, b.State))
		})
		slices.Reverse(found)
		found = slices.CompactFunc(found, func(a, b history.Span) bool {
			return idOf(&a) == idOf(&b) && a.From.Equal(b.From)
		})
		slices.Reverse(found)
		found = found[:min(len(found), q.Limit+1)]
	}
	add := func(s history.Span) {
		if (q.Key == "" || q.Key == s.Key) && s.From.Before(q.To) && (s.Until.IsZero() || !s.Until.Before(q.From)) {
			if found = append(found, s); len(found) > 4*q.Limit+1000 {
				keep()
			}
		}
	}
	for _, hour := range a.hoursBetween(eventsKind, q.From.Unix(), farFuture) {
		records, err := a.readRecords(hour)
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		for i := range records {
			if r := &records[i]; r.step == endsSpan {
				add(*r.Span)
			}
		}
	}
	for _, s := range a.lasting {
		add(s.Span)
	}
	keep()
	answer.Spans = boundList(answer, append(answer.Spans, found...), q.Limit)
	return nil
}

// readEvents finds the events of a query, the oldest if they are too many.
func (a *archive) readEvents(ctx context.Context, q *history.Query, answer *history.Answer) ([]history.Event, error) {
	found := []history.Event{}
	for _, hour := range a.hoursBetween(eventsKind, q.From.Unix(), q.To.Unix()+1) {
		if len(found) > q.Limit {
			break
		}
		events, err := a.eventsOf(ctx, hour, q, "")
		if err != nil {
			return nil, err
		}
		found = append(found, events...)
	}
	return boundList(answer, found, q.Limit), nil
}

// readNewestEvents finds the events of a query whose kind has a prefix, the newest if they are too many, and reports
// whether there are older ones.
func (a *archive) readNewestEvents(ctx context.Context, q *history.Query, prefix string) (list []history.Event,
	older bool, err error) {
	found := []history.Event{}
	for _, hour := range slices.Backward(a.hoursBetween(eventsKind, q.From.Unix(), q.To.Unix()+1)) {
		if len(found) > q.Limit {
			break
		}
		events, err := a.eventsOf(ctx, hour, q, prefix)
		if err != nil {
			return nil, false, err
		}
		found = append(events, found...)
	}
	more := max(0, len(found)-q.Limit)
	return found[more:], more > 0, nil
}

// eventsOf returns the events of an hour that a query selects and whose kind has a prefix, oldest first.
func (a *archive) eventsOf(ctx context.Context, hour int64, q *history.Query, prefix string) ([]history.Event, error) {
	records, err := a.readRecords(hour)
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return nil, err
	}
	slices.SortStableFunc(records, func(a, b record) int { return a.At.Compare(b.At) })
	found, from, to := []history.Event{}, q.From.UnixMilli(), q.To.UnixMilli()
	for _, r := range records {
		at := r.At.UnixMilli()
		if r.Kind == "" || at < from || at >= to || q.Key != "" && r.Key != string(q.Key) ||
			!strings.HasPrefix(r.Kind, prefix) {
			continue
		}
		r.Span = nil
		found = append(found, r.Event)
	}
	return found, nil
}

// eachRow calls each for the rows of an hour at or after second from and before second to, in the order of their times.
func (a *archive) eachRow(kind string, hour, from, to int64, each func(at int64, r *row)) error {
	blocks, err := a.readBlocks(kind, hour)
	if err != nil {
		return err
	}
	for _, b := range blocks {
		if b.at < from || b.at >= to {
			continue
		}
		if _, err := b.read(func(r *row) { each(b.at, r) }); err != nil {
			return err
		}
	}
	return nil
}
