package fleet

import (
	"context"
	"fmt"
	"hash"
	"hash/fnv"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// logs is the slog.Handler of a process.
type logs struct {
	seen  *seen
	who   string
	quiet *atomic.Bool
}

func (l logs) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo && !l.quiet.Load()
}

func (l logs) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	l.seen.logged(l.who, r.Level, text)
	return nil
}

func (l logs) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l logs) WithGroup(string) slog.Handler      { return l }

// seen holds the observations of an observer that sees everything.
type seen struct {
	w *World

	mu       sync.Mutex // guards the rest
	trace    hash.Hash64
	out      io.Writer // nil: none
	requests int
	verdicts []verdict
	warnings []warning
	lines    map[string]int // of logs, by process
}

// verdict is the verdict of one request.
type verdict struct {
	at, took time.Duration
	limiter  string
	id       string
	client   uint32
	allowed  bool
	hot      bool
	reason   hottype.Reason
}

type warning struct {
	at        time.Duration
	who, text string
}

func newSeen(w *World, out io.Writer) *seen {
	return &seen{w: w, trace: fnv.New64a(), out: out, lines: map[string]int{}}
}

// note writes a line into the trace.
func (s *seen) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(format, args...)
}

func (s *seen) write(format string, args ...any) {
	line := fmt.Appendf(nil, "%012d "+format+"\n", append([]any{s.w.at().Microseconds()}, args...)...)
	_, _ = s.trace.Write(line)
	if s.out != nil {
		_, _ = s.out.Write(line)
	}
}

func (s *seen) verdict(l *Limiter, id string, client uint32, v hottype.Verdict, began time.Time) {
	if l.quiet.Load() {
		return // the caller of a killed process gets no answer
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	is := verdict{at: began.Sub(s.w.start), took: time.Since(began), limiter: l.name, id: id, client: client,
		allowed: v.Allowed, hot: v.Hot, reason: v.Reason}
	s.write("%s %s %d %v %v %v %v", l.name, id, client, is.allowed, is.hot, is.reason, is.took)
	s.verdicts = append(s.verdicts, is)
}

func (s *seen) logged(who string, level slog.Level, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines[who]++
	s.write("log %s %v %s", who, level, text)
	if level >= slog.LevelWarn {
		s.warnings = append(s.warnings, warning{s.w.at(), who, text})
	}
}

// since returns the verdicts of requests since time t, and removes the earlier ones.
func (s *seen) since(t time.Duration) []verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verdicts = slices.DeleteFunc(s.verdicts, func(v verdict) bool { return v.at < t })
	return slices.Clone(s.verdicts)
}
