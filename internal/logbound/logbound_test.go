package logbound

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
)

var start = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// recorder is a logger behind a Handler, whose clock the test sets.
type recorder struct {
	out bytes.Buffer
	*Handler
}

func newRecorder() *recorder {
	r := &recorder{}
	r.Handler = New(slog.NewTextHandler(&r.out, nil))
	return r
}

// log logs a line so long after start, by h or the Handler itself.
func (r *recorder) log(after time.Duration, level slog.Level, text string, attrs ...slog.Attr) {
	logAt(r.Handler, after, level, text, attrs...)
}

func logAt(h slog.Handler, after time.Duration, level slog.Level, text string, attrs ...slog.Attr) {
	record := slog.NewRecord(start.Add(after), level, text, 0)
	record.AddAttrs(attrs...)
	_ = h.Handle(context.Background(), record)
}

// lines are those written so far, without their times.
func (r *recorder) lines() (lines []string) {
	for line := range strings.Lines(r.out.String()) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), " ")
		lines = append(lines, line)
	}
	return lines
}

func (r *recorder) expect(t *testing.T, want ...string) {
	t.Helper()
	if got := r.lines(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestHandler_WritesAtGrowingIntervals logs a problem ten times a second for half an hour.
func TestHandler_WritesAtGrowingIntervals(t *testing.T) {
	t.Parallel()
	r := newRecorder()
	for i := range 30 * 60 * 10 {
		after := time.Duration(i) * time.Second / 10
		r.log(after, slog.LevelWarn, "lost")
		if i%10 == 0 {
			r.writeDue(start.Add(after), false)
		}
	}
	r.expect(t, "level=WARN msg=lost", "level=WARN msg=lost suppressed=9", "level=WARN msg=lost suppressed=99",
		"level=WARN msg=lost suppressed=599", "level=WARN msg=lost suppressed=5999",
		"level=WARN msg=lost suppressed=5999")
	r.writeDue(start.Add(31*time.Minute+time.Second), false)
	lines := r.lines()
	if last := lines[len(lines)-1]; len(lines) != 7 ||
		last != "level=WARN msg=lost suppressed=5288 ended=2026-01-02T03:29:59.900Z" {
		t.Errorf("%d lines, the last: %s", len(lines), last)
	}
	// 7 lines are written, one of them after it was suppressed.
	if n := r.Stats().Suppressed; n != 18000-6 {
		t.Errorf("%d suppressed", n)
	}
	r.log(32*time.Minute, slog.LevelWarn, "lost")
	if lines := r.lines(); len(lines) != 8 || lines[7] != "level=WARN msg=lost" {
		t.Errorf("after its end a repetition does not begin again: %q", lines)
	}
}

// TestHandler_CountsEachRecordOnce checks that each record is written or in the number of suppressed ones, once.
func TestHandler_CountsEachRecordOnce(t *testing.T) {
	t.Parallel()
	r := newRecorder()
	for i := range 5000 {
		r.log(time.Duration(i*i)*time.Microsecond, slog.LevelError, "a")
	}
	r.writeDue(start.Add(26*time.Second), true)
	sum := 0
	for _, line := range r.lines() {
		n := 0
		if _, rest, ok := strings.Cut(line, "suppressed="); ok {
			_, _ = fmt.Sscan(rest, &n)
		}
		sum += 1 + n
	}
	if sum != 5000 {
		t.Errorf("%d lines in all:\n%s", sum, r.out.String())
	}
}

func TestLineComesWithoutAFurtherOne(t *testing.T) {
	t.Parallel()
	r := newRecorder()
	r.log(0, slog.LevelWarn, "lost", slog.Int("n", 1))
	r.log(time.Millisecond, slog.LevelWarn, "lost", slog.Int("n", 2))
	r.writeDue(start.Add(999*time.Millisecond), false)
	r.expect(t, "level=WARN msg=lost n=1")
	r.writeDue(start.Add(time.Second), false)
	r.expect(t, "level=WARN msg=lost n=1", "level=WARN msg=lost n=2 suppressed=0")
	r.writeDue(start.Add(2*time.Minute), false)
	r.writeDue(start.Add(3*time.Minute), false)
	r.expect(t, "level=WARN msg=lost n=1", "level=WARN msg=lost n=2 suppressed=0",
		"level=WARN msg=lost n=2 suppressed=0 ended=2026-01-02T03:00:00.001Z")
}

// TestEndWithoutATimer: a bounded logger whose Start was not called still begins a repetition again.
func TestEndWithoutATimer(t *testing.T) {
	t.Parallel()
	r := newRecorder()
	for _, after := range []time.Duration{0, 1, 2 * time.Minute, 2*time.Minute + 1} {
		r.log(after, slog.LevelWarn, "lost")
	}
	r.expect(t, "level=WARN msg=lost", "level=WARN msg=lost suppressed=1")
}

func TestSingleLinesHaveNoEnd(t *testing.T) {
	t.Parallel()
	r := newRecorder()
	r.log(0, slog.LevelWarn, "a")
	r.log(0, slog.LevelError, "a")
	r.log(0, slog.LevelInfo, "a")
	r.writeDue(start.Add(time.Hour), false)
	r.expect(t, "level=WARN msg=a", "level=ERROR msg=a", "level=INFO msg=a")
	if len(r.all.messages) != 0 {
		t.Errorf("%d messages are kept", len(r.all.messages))
	}
}

func TestEventsAreCompleteUpToARate(t *testing.T) {
	t.Parallel()
	r := newRecorder()
	for i := range 100 {
		r.log(time.Duration(i)*time.Millisecond, slog.LevelInfo, "hot", slog.Int("key", i))
	}
	if n := len(r.lines()); n != events.lines {
		t.Errorf("%d lines at once", n)
	}
	r.writeDue(start.Add(time.Minute), false)
	lines := r.lines()
	if last := lines[len(lines)-1]; len(lines) != 11 || last != "level=INFO msg=hot key=10 suppressed=89" {
		t.Errorf("%d lines, the last: %s", len(lines), last)
	}
	r.writeDue(start.Add(10*time.Minute), false)
	if n := len(r.lines()); n != 11 {
		t.Errorf("%d lines at the end", n)
	}
}

// TestTenLinesInAnyMinute logs for an hour lines that differ each time, as an error with the port of a connection does,
// in bursts and steadily, at all levels, and checks each minute. Suppressed lines are written once there is room.
func TestTenLinesInAnyMinute(t *testing.T) {
	t.Parallel()
	for _, level := range []slog.Level{slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		for _, pause := range []int{1, 7, 59, 61, 130} { // seconds between two bursts
			out := &times{}
			h, sum := New(out), 0
			for second := range 3600 {
				now := start.Add(time.Duration(second) * time.Second)
				for i := range 30 {
					if second%pause == 0 {
						sum++
						logAt(h, now.Sub(start), level, "read failed",
							slog.Any("err", fmt.Errorf("port %d", 20000+second*31+i)))
					}
				}
				h.writeDue(now, false)
			}
			out.judge(t, fmt.Sprint(level, " every ", pause, " s"))
			h.writeDue(start.Add(2*time.Hour), true)
			if out.sum < sum { // that a repetition has ended may be a line more
				t.Errorf("%v every %d s: %d of %d lines are written or counted", level, pause, out.sum, sum)
			}
		}
	}
}

// times is a slog.Handler that keeps the time of each line, and adds up the number of lines for which they stand.
type times struct {
	slog.Handler
	at  []time.Time
	sum int
}

func (w *times) Enabled(context.Context, slog.Level) bool { return true }

func (w *times) Handle(_ context.Context, r slog.Record) error {
	w.at = append(w.at, r.Time)
	w.sum++
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "suppressed" {
			w.sum += int(a.Value.Int64())
		}
		return true
	})
	return nil
}

func (w *times) judge(t *testing.T, what string) {
	t.Helper()
	for i := perMinute; i < len(w.at); i++ {
		if took := w.at[i].Sub(w.at[i-perMinute]); took < time.Minute {
			t.Fatalf("%s: %d lines in %v", what, perMinute+1, took)
		}
	}
}

func TestDebugIsNotBounded(t *testing.T) {
	t.Parallel()
	r := newRecorder()
	r.Handler = New(slog.NewTextHandler(&r.out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	for range 50 {
		r.log(0, slog.LevelDebug, "a")
	}
	if n := len(r.lines()); n != 50 {
		t.Errorf("%d lines", n)
	}
	if h := New(slog.NewTextHandler(&r.out, nil)); h.Enabled(context.Background(), slog.LevelDebug) {
		t.Error("a level that is off is enabled")
	}
}

func TestHandler_DistinguishesAttributes(t *testing.T) {
	t.Parallel()
	r := newRecorder()
	proxy := r.WithAttrs([]slog.Attr{slog.String("listener", "proxy")})
	admin := r.WithAttrs([]slog.Attr{slog.String("listener", "admin")})
	for range 2 {
		logAt(proxy, 0, slog.LevelWarn, "wrong token", slog.String("from", "a"))
		logAt(proxy, 0, slog.LevelWarn, "wrong token", slog.String("from", "b"))
		logAt(admin, 0, slog.LevelWarn, "wrong token")
		r.log(0, slog.LevelError, "refused", slog.Any("err", errors.New("line 3")))
		r.log(0, slog.LevelError, "refused", slog.Any("err", errors.New("line 4")))
		logAt(r.WithGroup("client"), 0, slog.LevelWarn, "lost", slog.String("reason", "1"))
		logAt(r.WithGroup("client"), 0, slog.LevelWarn, "lost", slog.String("reason", "2"))
	}
	r.expect(t, `level=WARN msg="wrong token" listener=proxy from=a`, `level=WARN msg="wrong token" listener=admin`,
		`level=ERROR msg=refused err="line 3"`, `level=ERROR msg=refused err="line 4"`,
		`level=WARN msg=lost client.reason=1`)
	r.out.Reset()
	r.writeDue(start.Add(time.Second), false)
	if got := r.out.String(); !strings.Contains(got, "listener=proxy from=b suppressed=2") ||
		!strings.Contains(
			got,
			"listener=admin suppressed=0",
		) || !strings.Contains(got, "client.reason=2 client.suppressed=2") {
		t.Error(got)
	}
}

// TestHandler_BoundsItsMemory logs texts that a client could choose, and more messages than there are.
func TestHandler_BoundsItsMemory(t *testing.T) {
	t.Parallel()
	r := newRecorder()
	for i := range 1000 {
		r.log(0, slog.LevelWarn, "bad", slog.Any("err", fmt.Errorf("%d%s", i, strings.Repeat("x", i))))
	}
	if n := len(r.lines()); n != maxVariants+1 {
		t.Errorf("%d lines of one message", n)
	}
	for i := range 1000 {
		r.log(0, slog.LevelWarn, fmt.Sprint("message ", i))
	}
	if n := len(r.all.messages); n > maxMessages+1 {
		t.Errorf("%d messages are kept", n)
	}
	if n := len(r.lines()); n != maxVariants+1+maxMessages {
		t.Errorf("%d lines", n)
	}
}

// TestLogger_ConcurrentUse uses the clock and many goroutines.
func TestLogger_ConcurrentUse(t *testing.T) {
	t.Parallel()
	r := newRecorder()
	log := Logger(slog.New(r.Handler))
	if Of(log) != r.Handler {
		t.Error("a bounded logger is bounded again")
	}
	stop := Start(log)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 200 {
				log.With("server", i).Warn("lost")
			}
		})
	}
	all.Wait()
	stop()
	if n := len(r.lines()); n < 16 || n > 40 {
		t.Errorf("%d lines:\n%s", n, r.out.String())
	}
	Start(slog.New(slog.DiscardHandler))()
	if n := Of(slog.New(slog.DiscardHandler)).Stats().Suppressed; n != 0 {
		t.Errorf("%d suppressed by a logger that is not bounded", n)
	}
}
