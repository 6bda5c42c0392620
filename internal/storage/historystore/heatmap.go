package historystore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/history"
)

const heatmapEvents = 1000

// Heatmap returns when the heaviest keys of a time were requested, up to the minute under way. For times longer than a
// few hours it reads the sums of hours as far as possible. Of too many events it returns the newest.
func (s *Store) Heatmap(ctx context.Context, q history.HeatmapQuery) (*history.Heatmap, error) {
	a, err := s.waitForArchive(ctx)
	if err != nil {
		return nil, err
	}
	m := &history.Heatmap{From: q.From, To: q.To, Step: int64(q.Step / time.Second), Keys: []history.HeatmapKey{},
		Events: []history.Event{}}
	s.mu.Lock()
	present := s.recorder.Present()
	s.mu.Unlock()
	a.mu.RLock()
	defer a.mu.RUnlock()
	if err := a.readHeatmap(ctx, &q, present, m); err != nil {
		return nil, s.wrapReadError(err)
	}
	prefix := ""
	if q.Step >= 10*time.Minute {
		prefix = "override" // the cells show which keys became hot
	}
	all := history.Query{From: q.From, To: q.To, Limit: heatmapEvents}
	if m.Events, m.Truncated, err = a.readNewestEvents(ctx, &all, prefix); err != nil {
		return nil, s.wrapReadError(err)
	}
	return m, nil
}

// readHeatmap reads the cells of the heaviest keys. present is the minute under way, which no file has.
func (a *archive) readHeatmap(ctx context.Context, q *history.HeatmapQuery, present []history.KeyMinute,
	m *history.Heatmap) error {
	top, cells := minutesKind, minutesKind
	if q.To.Sub(q.From) > 6*time.Hour {
		top = hoursKind
	}
	if q.Step%time.Hour == 0 {
		top, cells = hoursKind, hoursKind
	}
	from, to, step := q.From.Unix(), q.To.Unix(), int64(q.Step/time.Second)
	each := func(kind string, from int64, do func(at int64, r *row)) error {
		for _, hour := range a.hoursBetween(minutesKind, from, to) {
			if err := cmp.Or(a.eachRow(kind, hour, from, to, do), ctx.Err()); err != nil {
				return err
			}
		}
		return nil
	}
	peaks := map[history.ID]float64{}
	if err := each(top, q.From.Truncate(time.Hour).Unix(), func(_ int64, r *row) {
		id := history.ID{Key: hottype.Key(r.key), Cost: hottype.Cost(r.cost)}
		if peak, ok := peaks[id]; !ok || r.peak > peak {
			peaks[id] = r.peak
		}
	}); err != nil {
		return err
	}
	present = slices.DeleteFunc(present, func(k history.KeyMinute) bool {
		return k.Minute.Before(q.From.Truncate(time.Hour)) || !k.Minute.Before(q.To)
	})
	for i := range present {
		id := history.ID{Key: present[i].Key, Cost: present[i].Cost}
		peaks[id] = max(peaks[id], present[i].Peak)
	}
	heaviest := history.HeaviestIDs(peaks, q.Keys)
	found := map[history.ID]*history.HeatmapKey{}
	for _, id := range heaviest {
		found[id] = &history.HeatmapKey{Key: id.Key, Cost: id.Cost}
	}
	if err := each(cells, from, func(at int64, r *row) {
		if k := found[history.ID{Key: hottype.Key(r.key), Cost: hottype.Cost(r.cost)}]; k != nil {
			minute := r.keyMinute(at)
			k.Add((at-from)/step, &minute)
		}
	}); err != nil {
		return err
	}
	for i := range present {
		one := &present[i]
		if k := found[history.ID{Key: one.Key, Cost: one.Cost}]; k != nil && !one.Minute.Before(q.From) {
			k.Add((one.Minute.Unix()-from)/step, one)
		}
	}
	for _, id := range heaviest {
		if k := found[id]; len(k.Cells) > 0 {
			m.Keys = append(m.Keys, *k)
		}
	}
	return nil
}
