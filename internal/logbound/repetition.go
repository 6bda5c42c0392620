package logbound

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	endAfter    = time.Minute // without a line, after which the repetition has ended
	maxVariants = 8           // repetitions of a message that attributes distinguish
	maxMessages = 300         // further messages share one bound for each level
	perMinute   = 10          // lines of a message in any minute, of all its repetitions
)

// bound is the number of lines that are written in a window, and the lengths of the windows; the last length repeats.
type bound struct {
	lines   int
	windows []time.Duration
}

var (
	events   = bound{perMinute, []time.Duration{time.Minute}}
	problems = bound{1, []time.Duration{time.Second, 10 * time.Second, time.Minute, 10 * time.Minute}}
)

// bounds holds the state that a Handler and the handlers made of it share.
type bounds struct {
	mu         sync.Mutex // guards the rest, and all repetitions
	messages   map[kind]*message
	suppressed uint64
}

type kind struct {
	level slog.Level
	text  string
}

type message struct {
	repetitions map[string]*repetition // by the attributes that distinguish them
	recent      [perMinute]time.Time   // times at which the last lines were written: a ring
	oldest      int                    // in recent
}

// mayWrite reports whether a line at now is within the bound of the message, and counts it if so.
func (m *message) mayWrite(now time.Time) bool {
	if now.Before(m.recent[m.oldest].Add(time.Minute)) {
		return false
	}
	m.recent[m.oldest] = now
	m.oldest = (m.oldest + 1) % perMinute
	return true
}

// repetition is a line that was written and may be repeated.
type repetition struct {
	bound
	window     int       // number of windows so far
	until      time.Time // end of the window
	left       int       // lines that may be written before
	last       time.Time // time of the last line
	suppressed int       // lines since the last line that was written
	sample     *line     // first of them, or of earlier lines; nil if no line was suppressed
}

type line struct {
	to     slog.Handler
	record slog.Record
}

// admitRecord reports whether a record is written now, and returns the number of records before it that were not.
func (b *bounds) admitRecord(to slog.Handler, r slog.Record, distinct string) (suppressed int, written bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m, e := b.findRepetition(r, distinct)
	if !r.Time.Before(e.last.Add(endAfter)) {
		e.window, e.until, e.sample = 0, time.Time{}, nil
	}
	e.last = r.Time
	if !r.Time.Before(e.until) {
		e.nextWindow(r.Time)
	}
	if e.left > 0 && m.mayWrite(r.Time) {
		e.left--
		suppressed, e.suppressed = e.suppressed, 0
		return suppressed, true
	}
	if e.suppressed == 0 || e.sample == nil {
		e.sample = &line{to, resolveAttrs(r)}
	}
	e.suppressed++
	b.suppressed++
	return 0, false
}

// findRepetition finds the repetition of a record, or begins a new repetition.
func (b *bounds) findRepetition(r slog.Record, distinct string) (*message, *repetition) {
	id := kind{r.Level, r.Message}
	if b.messages[id] == nil {
		if len(b.messages) >= maxMessages {
			id.text, distinct = "", ""
		}
		if b.messages[id] == nil {
			b.messages[id] = &message{repetitions: map[string]*repetition{}}
		}
	}
	m := b.messages[id]
	if m.repetitions[distinct] == nil && len(m.repetitions) >= maxVariants {
		distinct = ""
	}
	e := m.repetitions[distinct]
	if e == nil {
		e = &repetition{bound: events}
		if r.Level >= slog.LevelWarn {
			e.bound = problems
		}
		m.repetitions[distinct] = e
	}
	return m, e
}

func (e *repetition) nextWindow(now time.Time) {
	e.until = now.Add(e.windows[min(e.window, len(e.windows)-1)])
	e.left = e.lines
	e.window++
}

// resolveAttrs returns a record to keep: values that would be computed when the record is written are computed now.
func resolveAttrs(r slog.Record) slog.Record {
	kept := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		a.Value = a.Value.Resolve()
		kept.AddAttrs(a)
		return true
	})
	return kept
}

// takeDue removes and returns the lines that are due, and forgets repetitions that have ended.
func (b *bounds) takeDue(now time.Time, all bool) (lines []line) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, m := range b.messages {
		for distinct, e := range m.repetitions {
			ended := !now.Before(e.last.Add(endAfter))
			if e.isDue(now, all, ended) {
				if !m.mayWrite(now) && !all {
					continue // it is due until there is room
				}
				lines = append(lines, e.summaryLine(now, ended))
			}
			if ended {
				delete(m.repetitions, distinct)
			}
		}
		if newest := m.recent[(m.oldest+perMinute-1)%perMinute]; len(m.repetitions) == 0 &&
			!now.Before(newest.Add(time.Minute)) {
			delete(b.messages, id)
		}
	}
	slices.SortFunc(lines, func(a, b line) int { return strings.Compare(a.record.Message, b.record.Message) })
	return lines
}

// isDue reports whether to write a line about the repetition. If no line was suppressed since the last line, the end of
// the repetition is news about a problem, but not about events.
func (e *repetition) isDue(now time.Time, all, ended bool) bool {
	if e.suppressed == 0 {
		return ended && e.sample != nil && e.sample.record.Level >= slog.LevelWarn
	}
	return all || ended || !now.Before(e.until)
}

// summaryLine returns a line that was suppressed, with the number of the others.
func (e *repetition) summaryLine(now time.Time, ended bool) line {
	l := line{e.sample.to, e.sample.record.Clone()}
	l.record.Time = now
	l.record.AddAttrs(slog.Int("suppressed", max(0, e.suppressed-1)))
	if ended {
		l.record.AddAttrs(slog.Time("ended", e.last))
	}
	e.suppressed = 0
	e.nextWindow(now)
	e.left--
	return l
}
