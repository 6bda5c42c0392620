package historystore

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/history"
)

// archive is an open history. One goroutine writes; readers hold mu for reading.
type archive struct {
	mu sync.RWMutex
	*folder
	maxBytes int64
	hourKeys int // number of keys of an hour that are kept, the heaviest
	lasting  map[spanID]lastingSpan
	ended    map[spanID]history.Span // spans that lasted when the program ended and may go on
	// newestEvent is the time of the newest event at the opening, in unix milliseconds. Events up to that time may be
	// recorded again.
	newestEvent int64
}

// spanID identifies a span that lasts, because a key is in a state once at a time.
type spanID struct {
	key   hottype.Key
	state string
}

func idOf(s *history.Span) spanID { return spanID{s.Key, s.State} }

type lastingSpan struct {
	history.Span
	hour int64 // hour of the file that has its beginning
}

// openArchive opens the history of a state directory, which this process has locked. setAside is the number of damaged
// files that it renamed. lasting has the spans of an archive that this process had open before, or is nil.
func openArchive(cfg *Config, lasting map[spanID]lastingSpan) (a *archive, setAside uint64, err error) {
	a = &archive{maxBytes: cfg.MaxBytes, hourKeys: keysPerHour * cfg.Keys, lasting: map[spanID]lastingSpan{},
		ended: map[spanID]history.Span{}}
	if a.folder, err = openFolder(filepath.Join(cfg.Dir, folderName)); err != nil {
		return nil, 0, err
	}
	if setAside, err = a.mendFiles(cfg.Log); err != nil {
		return nil, setAside, err
	}
	if err := a.findLasting(); err != nil {
		return nil, setAside, err
	}
	if lasting == nil {
		return a, setAside, a.closeSpans(cfg.Now())
	}
	hour := hourOf(cfg.Now())
	for id, s := range lasting { // their beginnings may have been in a damaged file
		a.lasting[id] = lastingSpan{s.Span, hour}
	}
	return a, setAside, a.rewriteLasting(hour)
}

// findLasting finds the spans that have no end, and the newest event.
func (a *archive) findLasting() error {
	clear(a.lasting)
	for _, hour := range a.hoursWith(eventsKind) {
		records, err := a.readRecords(hour)
		if err != nil {
			return err
		}
		for _, r := range records {
			if r.Kind != "" {
				a.newestEvent = max(a.newestEvent, r.At.UnixMilli())
			}
			switch r.step {
			case beginsSpan:
				a.lasting[idOf(r.Span)] = lastingSpan{*r.Span, hour}
			case endsSpan:
				delete(a.lasting, idOf(r.Span))
			}
		}
	}
	if len(a.lasting) == 0 {
		return nil
	}
	first := slices.MinFunc(slices.Collect(maps.Values(a.lasting)), func(a, b lastingSpan) int {
		return a.From.Compare(b.From)
	}).From.Truncate(time.Hour).Unix()
	for _, hour := range a.hoursBetween(minutesKind, first, farFuture) {
		if err := a.eachRow(minutesKind, hour, hour, farFuture, func(at int64, r *row) {
			id := spanID{hottype.Key(r.key), r.state}
			if s, ok := a.lasting[id]; ok && s.From.Before(time.Unix(at+60, 0)) && s.Cost == hottype.Cost(r.cost) {
				s.Peak = max(s.Peak, r.peak)
				a.lasting[id] = s
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

// farFuture is a second after all times.
const farFuture = 1 << 60

// closeSpans ends the spans that a program left open when it ended, at the last minute that it wrote.
func (a *archive) closeSpans(now time.Time) error {
	if len(a.lasting) == 0 {
		return nil
	}
	var last time.Time
	for _, hour := range a.hoursWith(minutesKind) {
		blocks, err := a.readBlocks(minutesKind, hour)
		if err != nil {
			return err
		}
		if len(blocks) > 0 {
			last = time.Unix(blocks[len(blocks)-1].at+60, 0)
		}
	}
	if last.After(now) {
		last = now
	}
	out := pending{}
	for id, s := range a.lasting {
		a.ended[id] = s.Span
		end := s.Span
		end.Until = last.UTC()
		if last.Before(s.From) {
			end.Until = s.From
		}
		out.add(fileID{hourOf(end.Until), eventsKind},
			encodeRecord(&record{Event: history.Event{At: end.Until, Span: &end}, step: endsSpan}))
	}
	clear(a.lasting)
	return a.appendAll(out)
}

func hourOf(t time.Time) int64 { return t.Truncate(time.Hour).Unix() }

// pending holds the blocks that wait to be written, by file.
type pending map[fileID][]byte

func (p pending) add(id fileID, payload []byte) { p[id] = appendBlock(p[id], payload) }

func (a *archive) appendAll(out pending) error {
	for id, blocks := range out {
		if err := a.append(id, blocks); err != nil {
			return err
		}
	}
	return nil
}

// write adds minutes and events.
func (a *archive) write(batch []any) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	out, known := pending{}, map[int64]map[string]bool{}
	for _, one := range batch {
		switch v := one.(type) {
		case history.Minute:
			a.addMinute(out, &v)
		case history.Event:
			if err := a.addEvent(out, &v, known); err != nil {
				return err
			}
		default:
			panic(fmt.Sprintf("historystore: a %T was queued", one))
		}
	}
	need := int64(0)
	for _, blocks := range out {
		need += int64(len(blocks))
	}
	if err := a.makeSpace(need); err != nil {
		return err
	}
	for id := range out {
		// The sums of an hour that is over are computed again, because minutes were added to it.
		if sums := (fileID{id.hour, hoursKind}); id.kind == minutesKind && a.sizes[sums] > 0 {
			if err := a.remove(sums); err != nil {
				return err
			}
		}
	}
	return a.appendAll(out)
}

func (a *archive) addMinute(out pending, m *history.Minute) {
	for i := range m.Keys {
		k := &m.Keys[i]
		id := spanID{k.Key, k.State}
		if s, ok := a.lasting[id]; ok && s.Cost == k.Cost && k.Peak > s.Peak {
			s.Peak = k.Peak
			a.lasting[id] = s
		}
	}
	out.add(fileID{hourOf(m.Total.Minute), minutesKind}, encodeMinute(m))
}

// addEvent adds an event, unless it is known: a program that starts again records the last changes of overrides again.
func (a *archive) addEvent(out pending, e *history.Event, known map[int64]map[string]bool) error {
	r := record{Event: *e}
	hour := hourOf(e.At)
	if e.At.UnixMilli() <= a.newestEvent {
		if known[hour] == nil {
			known[hour] = map[string]bool{}
			records, err := a.readRecords(hour)
			if err != nil {
				return err
			}
			for i := range records {
				known[hour][eventText(&records[i].Event)] = true
			}
		}
		if text := eventText(e); known[hour][text] {
			r.Kind, r.Key, r.Detail = "", "", nil
			hour = max(hour, a.newestHour()) // after the end of its span
		} else {
			known[hour][text] = true
		}
	}
	if e.Span != nil {
		a.updateSpan(out, &r, hour)
	}
	if r.Kind != "" || r.step != noStep {
		out.add(fileID{hour, eventsKind}, encodeRecord(&r))
	}
	return nil
}

func eventText(e *history.Event) string {
	return string(encodeRecord(&record{Event: history.Event{At: e.At, Kind: e.Kind, Key: e.Key, Detail: e.Detail}}))
}

// updateSpan begins or ends the span of an event.
func (a *archive) updateSpan(out pending, r *record, hour int64) {
	id := idOf(r.Span)
	s, lasts := a.lasting[id]
	if r.Span.Until.IsZero() {
		if lasts && s.From.UnixMilli() == r.Span.From.UnixMilli() {
			return // recorded again
		}
		if lasts { // its end was not recorded
			s.Until = r.Span.From
			out.add(fileID{hour, eventsKind},
				encodeRecord(&record{Event: history.Event{At: r.At, Span: &s.Span}, step: endsSpan}))
		}
		begun := *r.Span
		begun.From = time.UnixMilli(begun.From.UnixMilli()).UTC() // as it is in the file
		if before, ok := a.ended[id]; ok && before.From.Equal(begun.From) {
			begun.Peak = max(begun.Peak, before.Peak)
		}
		r.step, r.Span, a.lasting[id] = beginsSpan, &begun, lastingSpan{begun, hour}
		return
	}
	if !lasts {
		return
	}
	if s.Until = r.Span.Until; s.Cost == r.Span.Cost { // not if the cost of the rule was changed
		s.Peak = max(s.Peak, r.Span.Peak)
	}
	r.step, r.Span = endsSpan, &s.Span
	delete(a.lasting, id)
}

// readBlocks returns the minutes, or the sums, of an hour in the order of their times. It computes sums that have no
// file.
func (a *archive) readBlocks(kind string, hour int64) ([]block, error) {
	payloads, err := a.read(fileID{hour, kind})
	if err != nil {
		return nil, err
	}
	if kind == hoursKind && payloads == nil {
		sums, err := a.sumsOf(hour)
		if err != nil || sums == nil {
			return nil, err
		}
		payloads = [][]byte{sums}
	}
	list := make([]block, len(payloads))
	for i, p := range payloads {
		list[i] = openBlock(p)
	}
	slices.SortStableFunc(list, func(a, b block) int { return cmp.Compare(a.at, b.at) })
	return list, nil
}

func (a *archive) readRecords(hour int64) ([]record, error) {
	payloads, err := a.read(fileID{hour, eventsKind})
	list := make([]record, len(payloads))
	for i := 0; i < len(payloads) && err == nil; i++ {
		list[i], err = decodeRecord(payloads[i])
	}
	return list, err
}
