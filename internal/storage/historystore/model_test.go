package historystore

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/history"
)

// memory is the history as lists in memory, which tests compare a Store with.
type memory struct {
	recorder *history.Recorder
	minutes  []history.Minute // oldest first
	spans    []history.Span   // in the order of their beginnings
	events   []history.Event  // oldest first
}

// newMemory returns an empty memory, which keeps at most that many keys of a minute, the heaviest.
func newMemory(keys int) *memory { return &memory{recorder: history.NewRecorder(keys)} }

// Second records one second. When the second begins a new minute, the minute before can be read.
func (m *memory) Second(s *history.Second) {
	ended := m.recorder.Add(s)
	if ended == nil {
		return
	}
	m.minutes = append(m.minutes, *ended)
	for _, k := range ended.Keys {
		for i := range m.spans {
			if s := &m.spans[i]; s.Key == k.Key && s.State == k.State && s.Cost == k.Cost && s.Until.IsZero() {
				s.Peak = max(s.Peak, k.Peak)
			}
		}
	}
}

// Event records an event, and what began or ended with it.
func (m *memory) Event(e history.Event) {
	span := e.Span
	e.Span = nil // the spans have their own list
	m.events = append(m.events, e)
	if span == nil {
		return
	}
	if span.Until.IsZero() {
		m.spans = append(m.spans, *span)
		return
	}
	for i := range m.spans {
		if s := &m.spans[i]; s.Key == span.Key && s.State == span.State && s.Until.IsZero() {
			s.Until, s.Peak = span.Until, max(s.Peak, span.Peak)
		}
	}
}

// Read returns the minutes, spans and events of a query. The minute under way is not among them.
func (m *memory) Read(q history.Query) *history.Answer {
	a := &history.Answer{From: q.From, To: q.To, Totals: []history.Total{}, Keys: []history.KeyMinute{},
		Spans: []history.Span{}, Events: []history.Event{}}
	ofQuery := func(key hottype.Key) bool { return q.Key == "" || q.Key == key }
	for _, one := range m.minutesBetween(q.From, q.To) {
		if q.Key == "" {
			a.Totals = append(a.Totals, one.Total)
		}
		first := len(a.Keys)
		for _, k := range one.Keys {
			if ofQuery(k.Key) {
				a.Keys = append(a.Keys, k)
			}
		}
		slices.SortFunc(a.Keys[first:], func(x, y history.KeyMinute) int { return cmp.Compare(x.Key, y.Key) })
	}
	for _, s := range m.spans {
		if ofQuery(s.Key) && s.From.Before(q.To) && (s.Until.IsZero() || !s.Until.Before(q.From)) {
			a.Spans = append(a.Spans, s)
		}
	}
	for _, e := range m.events {
		if ofQuery(hottype.Key(e.Key)) && !e.At.Before(q.From) && e.At.Before(q.To) {
			a.Events = append(a.Events, e)
		}
	}
	a.Totals, a.Keys = boundList(a, a.Totals, q.Limit), boundList(a, a.Keys, q.Limit)
	a.Spans, a.Events = boundList(a, a.Spans, q.Limit), boundList(a, a.Events, q.Limit)
	return a
}

// minutesBetween returns the minutes that begin in a time, also if only the last second of the time is theirs.
func (m *memory) minutesBetween(from, to time.Time) (list []history.Minute) {
	end := to.Add(time.Second - 1).Truncate(time.Second)
	for _, one := range m.minutes {
		if at := one.Total.Minute; !at.Before(from.Truncate(time.Second)) && at.Before(end) {
			list = append(list, one)
		}
	}
	return list
}

// Heatmap returns the cells of the heaviest keys of a time, by their peaks, and the newest events.
func (m *memory) Heatmap(q history.HeatmapQuery) *history.Heatmap {
	byKey, peaks := map[history.ID]*history.HeatmapKey{}, map[history.ID]float64{}
	minutes := slices.Clone(m.minutes)
	if present := m.recorder.Present(); len(present) > 0 {
		minutes = append(minutes, history.Minute{Total: history.Total{Minute: present[0].Minute}, Keys: present})
	}
	for _, one := range minutes {
		at := one.Total.Minute
		if at.Before(q.From.Truncate(time.Hour)) || !at.Before(q.To) {
			continue
		}
		for _, k := range one.Keys {
			id := history.ID{Key: k.Key, Cost: k.Cost}
			peaks[id] = max(peaks[id], k.Peak)
			if at.Before(q.From) {
				continue
			}
			if byKey[id] == nil {
				byKey[id] = &history.HeatmapKey{Key: k.Key, Cost: k.Cost}
			}
			byKey[id].Add(int64(at.Sub(q.From)/q.Step), &k)
		}
	}
	h := &history.Heatmap{From: q.From, To: q.To, Step: int64(q.Step / time.Second), Keys: []history.HeatmapKey{},
		Events: []history.Event{}}
	for _, id := range history.HeaviestIDs(peaks, q.Keys) {
		if k := byKey[id]; k != nil {
			h.Keys = append(h.Keys, *k)
		}
	}
	for _, e := range m.events {
		byPeople := strings.HasPrefix(e.Kind, "override") // cells show the rest in long times
		if e.At.Before(q.From) || !e.At.Before(q.To) || q.Step >= 10*time.Minute && !byPeople {
			continue
		}
		h.Events = append(h.Events, e)
	}
	if more := len(h.Events) - heatmapEvents; more > 0 {
		h.Events, h.Truncated = h.Events[more:], true
	}
	return h
}

// Purge removes a key, also from the minute under way, and returns the number of minutes, spans and events that it had.
func (m *memory) Purge(key hottype.Key) (rows int64) {
	m.recorder.Forget(key)
	count := func(before, after int) { rows += int64(before - after) }
	for i := range m.minutes {
		one := &m.minutes[i]
		n := len(one.Keys)
		one.Keys = slices.DeleteFunc(one.Keys, func(k history.KeyMinute) bool { return k.Key == key })
		count(n, len(one.Keys))
	}
	n := len(m.spans)
	m.spans = slices.DeleteFunc(m.spans, func(s history.Span) bool { return s.Key == key })
	count(n, len(m.spans))
	n = len(m.events)
	m.events = slices.DeleteFunc(m.events, func(e history.Event) bool { return hottype.Key(e.Key) == key })
	count(n, len(m.events))
	return rows
}
