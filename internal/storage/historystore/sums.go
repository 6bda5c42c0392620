package historystore

import (
	"errors"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/history"
)

// keysPerHour is the number of keys of an hour for each key of a minute. It is more than 1 because the heaviest keys of
// the hour's minutes differ, and bounded because all of them might differ.
const keysPerHour = 4

// sumsOf returns the block that sums up an hour, so that a week can be read at once: the peaks and sums of the heaviest
// keys of its minutes. It returns nil if there are no minutes.
func (a *archive) sumsOf(hour int64) ([]byte, error) {
	type id struct{ key, cost string }
	keys := map[id]*history.HeatmapKey{}
	if err := a.eachRow(minutesKind, hour, hour, farFuture, func(at int64, r *row) {
		k := keys[id{string(r.key), string(r.cost)}]
		if k == nil {
			k = &history.HeatmapKey{Key: hottype.Key(r.key), Cost: hottype.Cost(r.cost)}
			keys[id{string(r.key), string(r.cost)}] = k
		}
		minute := r.keyMinute(at)
		k.Add(0, &minute)
	}); err != nil || len(keys) == 0 {
		return nil, err
	}
	m := history.Minute{Total: history.Total{Minute: time.Unix(hour, 0)}}
	for _, k := range keys {
		c := k.Cells[0]
		m.Keys = append(m.Keys, history.KeyMinute{Key: k.Key, Rule: k.Rule, Cost: k.Cost, State: c.State, Peak: c.Peak,
			Allowed: c.Allowed, Denied: c.Denied, WouldDeny: c.WouldDeny})
	}
	m.Keys = history.Heaviest(m.Keys, a.hourKeys)
	return encodeMinute(&m), nil
}

// sumHours writes the sums of hours that are over and have no sums yet.
func (a *archive) sumHours() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	hours, contents := a.hoursWith(minutesKind), map[fileID][]byte{}
	for _, hour := range hours[:max(0, len(hours)-1)] {
		id := fileID{hour, hoursKind}
		if a.sizes[id] > 0 {
			continue
		}
		sums, err := a.sumsOf(hour)
		if err != nil {
			return err
		}
		if sums != nil {
			contents[id] = appendBlock(fileHeader(hoursKind), sums)
		}
	}
	return a.replace(contents)
}

// trim removes the hours that end before a time.
func (a *archive) trim(before time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, hour := range a.allHours() {
		if hour+3600 > before.Unix() {
			break
		}
		if err := a.removeHour(hour); err != nil {
			return err
		}
	}
	return nil
}

var (
	damagedKinds = []string{minutesKind + damagedEnd, hoursKind + damagedEnd, eventsKind + damagedEnd}
	allKinds     = append([]string{minutesKind, hoursKind, eventsKind}, damagedKinds...)
)

func (a *archive) allHours() []int64 { return a.hoursWith(allKinds...) }

// newestHour returns the last hour that has files, or 0 if there is none.
func (a *archive) newestHour() int64 { return slices.Max(append(a.allHours(), 0)) }

// removeHour removes all files of an hour. It writes the beginnings of spans that began in the hour and last again.
func (a *archive) removeHour(hour int64) error {
	for _, kind := range allKinds {
		if err := a.remove(fileID{hour, kind}); err != nil {
			return err
		}
	}
	return a.rewriteLasting(hour)
}

// rewriteLasting writes the beginnings of lasting spans again whose file of events was removed.
func (a *archive) rewriteLasting(hour int64) error {
	out := pending{}
	to := fileID{max(hour, a.newestHour()), eventsKind}
	for id, s := range a.lasting {
		if s.hour == hour {
			out.add(to, encodeRecord(&record{Event: history.Event{At: s.From, Span: &s.Span}, step: beginsSpan}))
			a.lasting[id] = lastingSpan{s.Span, to.hour}
		}
	}
	return a.appendAll(out)
}

var errTooLarge = errors.New("a minute does not fit into history.max_bytes")

// makeSpace removes the oldest hours until there is room for need bytes, and at last the older half of the newest hour.
func (a *archive) makeSpace(need int64) error {
	limit := a.maxBytes / 10 * 9 // the rest is for sums, and for files that are being replaced
	if need > limit/2 {
		return errTooLarge
	}
	for halved := 0; a.totalBytes()+need > limit; {
		hours := a.allHours()
		if len(hours) > 1 {
			if err := a.removeHour(hours[0]); err != nil {
				return err
			}
			continue
		}
		if halved++; halved > 20 {
			return errTooLarge
		}
		if err := a.halveHour(hours[0]); err != nil {
			return err
		}
	}
	return nil
}

// halveHour removes the older half of an hour.
func (a *archive) halveHour(hour int64) error {
	contents := map[fileID][]byte{}
	for _, kind := range []string{minutesKind, eventsKind} {
		id := fileID{hour, kind}
		payloads, err := a.read(id)
		if err != nil {
			return err
		}
		if len(payloads) == 0 {
			continue
		}
		data := fileHeader(kind)
		for _, p := range payloads[(len(payloads)+1)/2:] {
			data = appendBlock(data, p)
		}
		contents[id] = data
	}
	if err := a.replace(contents); err != nil {
		return err
	}
	for _, kind := range append([]string{hoursKind}, damagedKinds...) {
		if err := a.remove(fileID{hour, kind}); err != nil {
			return err
		}
	}
	return a.rewriteLasting(hour)
}
