package tail_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/internal/counting/tail"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// logFile is a log with the lines that were read of it.
type logFile struct {
	t     *testing.T
	path  string
	tail  *tail.Tail
	lines chan string
	stop  func()
}

func newLog(t *testing.T, text string) *logFile {
	l := &logFile{t: t, path: filepath.Join(t.TempDir(), "access.log"), lines: make(chan string, 10000)}
	if text != "" {
		l.write(text)
	}
	return l
}

func (l *logFile) follow(cfg tail.Config) {
	l.t.Helper()
	cfg.Path, cfg.Log = l.path, slog.New(slog.DiscardHandler)
	if cfg.Poll == 0 {
		cfg.Poll = 5 * time.Millisecond
	}
	tl, err := tail.New(cfg)
	if err != nil {
		l.t.Fatal(err)
	}
	l.tail = tl
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- tl.Run(ctx, func(line []byte) { l.lines <- string(line) }) }()
	l.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			l.t.Errorf("Run: %v", err)
		}
	})
	l.t.Cleanup(l.stop)
}

func (l *logFile) append(path, text string) {
	l.t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *logFile) write(text string) { l.t.Helper(); l.append(l.path, text) }

// want waits for exactly these lines.
func (l *logFile) want(lines ...string) {
	l.t.Helper()
	for _, w := range lines {
		select {
		case got := <-l.lines:
			if got != w {
				l.t.Fatalf("got %q, want %q", got, w)
			}
		case <-time.After(10 * time.Second):
			l.t.Fatalf("%q does not come", w)
		}
	}
}

func TestTail_FollowsRotationAndTruncation(t *testing.T) {
	t.Parallel()
	l := newLog(t, "")
	l.follow(tail.Config{MaxLine: 20})
	for l.tail.Stats().Errors == 0 { // it was looked for and is not there
		l.yield()
	}
	l.write("one\ntw")
	l.want("one")
	l.write("o\r\n\nfour\n")
	l.want("two", "", "four")
	l.write(strings.Repeat("x", 50))
	l.write("x\nafter a long one\n")
	l.want("after a long one")

	if err := os.Rename(l.path, l.path+".1"); err != nil {
		t.Fatal(err)
	}
	l.append(l.path+".1", "still to the old one\n")
	l.want("still to the old one")
	l.write("new\nrest of a li")
	l.append(l.path+".1", "a slow writer\n")
	l.want("a slow writer", "new")

	if err := os.Truncate(l.path, 0); err != nil {
		t.Fatal(err)
	}
	for l.tail.Stats().Truncations == 0 { // a file that grows at once looks as if it had only grown
		l.yield()
	}
	l.write("a\n")
	l.want("a")

	if err := os.Remove(l.path); err != nil {
		t.Fatal(err)
	}
	l.write("b\n")
	l.want("b")
	l.stop()
	s := l.tail.Stats()
	if s.Lines != 10 || s.TooLong != 1 || s.Rotations != 2 || s.Truncations != 1 || len(l.lines) != 0 {
		t.Errorf("%+v, %d lines more", s, len(l.lines))
	}
}

// yield lets the follower poll.
func (l *logFile) yield() {
	tick := time.NewTimer(time.Millisecond)
	<-tick.C
}

// A file that is there already is read from its end, so that a restart counts no line twice.
func TestTail_SkipsExistingLines(t *testing.T) {
	t.Parallel()
	l := newLog(t, "old\n")
	l.follow(tail.Config{})
	for l.tail.Stats().Lines < 3 { // it may not have opened the file yet
		l.write("new\n")
		l.yield()
	}
	l.stop()
	for line := range len(l.lines) {
		if got := <-l.lines; got != "new" {
			t.Errorf("line %d is %q", line, got)
		}
	}
}

// followLater follows a file that appears later, with a first line. Events alone make the tail read.
func followLater(t *testing.T) *logFile {
	l := newLog(t, "")
	l.follow(tail.Config{Poll: time.Hour})
	for l.tail.Stats().Errors == 0 { // it was looked for and is not there
		l.yield()
	}
	l.write("first\n")
	l.want("first")
	return l
}

// Lines that are in the file at the end are handed on.
func TestTail_EmitsRestAtEnd(t *testing.T) {
	t.Parallel()
	l := followLater(t)
	var want []string
	for range 1000 {
		want = append(want, "line")
	}
	l.write(strings.Repeat("line\n", 1000))
	l.stop()
	l.want(want...)
}

// A file system event is enough; reading does not wait for the clock.
func TestTail_ReadsOnFileEvents(t *testing.T) {
	t.Parallel()
	l := followLater(t)
	l.write("second\n")
	l.want("second")
	if err := os.Rename(l.path, l.path+".1"); err != nil {
		t.Fatal(err)
	}
}

func TestTail_ReadsInput(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]io.Reader{
		"whole":  strings.NewReader("a\nb\nlast"),
		"pieces": iotest.OneByteReader(strings.NewReader("a\nb\nlast")),
		"at end": iotest.DataErrReader(strings.NewReader("a\nb\nlast")),
	} {
		tl, err := tail.New(tail.Config{Path: tail.Stdin, Input: r})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		err = tl.Run(t.Context(), func(line []byte) { got = append(got, string(line)) })
		if err != nil || !slices.Equal(got, []string{"a", "b", "last"}) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	tl, _ := tail.New(tail.Config{Path: tail.Stdin, Input: iotest.ErrReader(io.ErrUnexpectedEOF)})
	if err := tl.Run(t.Context(), func([]byte) {}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a broken input gives %v", err)
	}
	if _, err := tail.New(tail.Config{}); err == nil {
		t.Error("a tail of nothing")
	}
}

// A pipe without a writer does not hold up the end.
func TestTail_EndsDespiteSilentPipe(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	defer r.Close()
	tl, _ := tail.New(tail.Config{Path: tail.Stdin, Input: r})
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan string, 1)
	done := make(chan error, 1)
	go func() { done <- tl.Run(ctx, func(line []byte) { got <- string(line) }) }()
	if _, err := w.WriteString("a\n"); err != nil {
		t.Fatal(err)
	}
	if line := <-got; line != "a" {
		t.Errorf("got %q", line)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// The lines are the same however the input is cut into pieces.
func TestTail_LinesDoNotDependOnReadSize(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab\n\r"))).Draw(t, "text")
		var pieces []io.Reader
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			pieces = append(pieces, strings.NewReader(rest[:n]))
			rest = rest[n:]
		}
		tl, err := tail.New(tail.Config{Path: tail.Stdin, Input: io.MultiReader(pieces...), MaxLine: 5})
		if err != nil {
			t.Fatal(err)
		}
		var got, want []string
		if err := tl.Run(context.Background(), func(b []byte) { got = append(got, string(b)) }); err != nil {
			t.Fatal(err)
		}
		long := uint64(0)
		for line := range strings.Lines(text) {
			if line = strings.TrimSuffix(line, "\n"); len(line) > 5 {
				long++
			} else {
				want = append(want, strings.TrimSuffix(line, "\r"))
			}
		}
		if s := tl.Stats(); !slices.Equal(got, want) || s.TooLong != long || s.Lines != uint64(len(want)) {
			t.Fatalf("%q gave %q, want %q, %+v", text, got, want, s)
		}
	})
}

func BenchmarkLines(b *testing.B) {
	line := []byte(
		`192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] "GET /topic?id=42&lang=en HTTP/1.1" 200 2326 "-" "Mozilla/5.0"` +
			"\n")
	text := bytes.Repeat(line, 10000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		tl, _ := tail.New(tail.Config{Path: tail.Stdin, Input: bytes.NewReader(text)})
		if err := tl.Run(b.Context(), func([]byte) {}); err != nil {
			b.Fatal(err)
		}
	}
}
