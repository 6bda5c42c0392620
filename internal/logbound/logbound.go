// Package logbound bounds how often a program logs the same line. It is the only bound: packages log each event, and a
// flood of malformed input or a server that comes and goes cannot fill a disk.
//
//   - WARN and above: the first line at once, then one line after 1 s, 10 s, 1 min and every 10 min, with the number of
//     lines before it that were not written (suppressed). A minute without the line ends the repetition: a last line
//     says when it ended, and the next one is a first line again.
//   - INFO: lines are events of their own, such as a key that became hot. The first 10 of a message in a minute are
//     written, of the others one, with their number.
//   - DEBUG is not bounded: it is switched on to see everything.
//
// A repetition is a line with the level and the message of an earlier line. Only those attributes count that identify
// the subject of the line or its problem (distinct), because a client chooses the others. Some of these are an error's
// text, which a client may choose too or which has a new port each time, so a message has no more than 8 repetitions,
// and lines that differ from them share one more. All of them together write no more than 10 lines in any minute; a
// line for which there is no room is written as soon as there is room. Only the end of the program writes more: the
// lines that are suppressed then.
package logbound

import (
	"context"
	"hash/maphash"
	"log"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hotparam/pipeline/internal/wait"
)

type Stats struct {
	Suppressed uint64 `metric:"hotparam_log_suppressed_total" help:"Log lines that were held back because they repeat another line."`
}

// seed hashes attributes, which may be long: two with the same hash count as equal.
var seed = maphash.MakeSeed()

// distinct lists the attributes that distinguish repetitions of a message.
var distinct = []string{"calls", "dialect", "err", "file", "listener", "path", "reason", "server", "store", "upstream",
	"webhook", "what"}

// Handler bounds the records that reach another handler. It is safe for concurrent use, and so are the handlers made by
// WithAttrs and WithGroup, which share its bounds.
type Handler struct {
	next     slog.Handler
	distinct string // of the attributes of WithAttrs
	grouped  bool   // the attributes of a record are in a group
	all      *bounds
}

// New returns a Handler that bounds the records that reach next.
func New(next slog.Handler) *Handler {
	return &Handler{next: next, all: &bounds{messages: map[kind]*message{}}}
}

// Logger returns a logger that bounds the lines of another logger, or that logger if it is bounded already.
func Logger(to *slog.Logger) *slog.Logger {
	if Of(to) != nil {
		return to
	}
	return slog.New(New(to.Handler()))
}

// Of returns the Handler of a logger, or nil if the logger is not bounded. Its Stats are zero then.
func Of(of *slog.Logger) *Handler {
	h, _ := of.Handler().(*Handler)
	return h
}

// Std returns a logger for packages that do not use slog: each line is a record with this message, and the text as its
// err. The text names addresses and ports, so as a message each line would be a first line.
func Std(to *slog.Logger, level slog.Level, message string) *log.Logger {
	return log.New(std{to, level, message}, "", 0)
}

type std struct {
	to      *slog.Logger
	level   slog.Level
	message string
}

func (s std) Write(text []byte) (int, error) {
	s.to.Log(context.Background(), s.level, s.message, "err", strings.TrimSpace(string(text)))
	return len(text), nil
}

func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// WithAttrs returns a Handler with the same bounds.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.next = h.next.WithAttrs(attrs)
	for _, a := range attrs {
		with.addDistinct(a)
	}
	return &with
}

func (h *Handler) WithGroup(name string) slog.Handler {
	with := *h
	with.next, with.grouped = h.next.WithGroup(name), h.grouped || name != ""
	return &with
}

// addDistinct adds an attribute to the attributes that distinguish the line.
func (h *Handler) addDistinct(a slog.Attr) {
	if h.grouped || !slices.Contains(distinct, a.Key) {
		return
	}
	h.distinct += a.Key + strconv.FormatUint(maphash.String(seed, a.Value.Resolve().String()), 16)
}

// Handle writes a record, or counts it for a later record.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelInfo {
		return h.next.Handle(ctx, r)
	}
	id := Handler{distinct: h.distinct, grouped: h.grouped}
	if r.Level >= slog.LevelWarn {
		r.Attrs(func(a slog.Attr) bool { id.addDistinct(a); return true })
	}
	suppressed, written := h.all.admitRecord(h.next, r, id.distinct)
	if !written {
		return nil
	}
	if suppressed > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("suppressed", suppressed))
	}
	return h.next.Handle(ctx, r)
}

// Start writes the lines that are due while no further line arrives, until stop. It does nothing for a logger that is
// not bounded. The caller calls stop after everything else has ended; it writes the number of lines suppressed at that
// time.
func Start(of *slog.Logger) (stop func()) {
	h := Of(of)
	if h == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { wait.Every(ctx, time.Second, func() { h.writeDue(time.Now(), false) }) })
	return func() {
		cancel()
		running.Wait()
		h.writeDue(time.Now(), true)
	}
}

func (h *Handler) Stats() Stats {
	if h == nil {
		return Stats{}
	}
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	return Stats{h.all.suppressed}
}

// writeDue writes the lines that are due at now, or all lines. A failure to write a line cannot be logged anywhere.
func (h *Handler) writeDue(now time.Time, all bool) {
	for _, l := range h.all.takeDue(now, all) {
		_ = l.to.Handle(context.Background(), l.record)
	}
}
