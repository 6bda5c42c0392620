package tail

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"
)

// reader is a tail under test whose polls are made by hand.
type reader struct {
	t    *testing.T
	tail *Tail
	path string
	got  []string
}

func follow(t *testing.T, opt Options) *reader {
	r := &reader{t: t, path: filepath.Join(t.TempDir(), "access.log")}
	r.tail = New(r.path, opt)
	t.Cleanup(r.tail.close)
	return r
}

func (r *reader) poll(want ...string) {
	r.t.Helper()
	r.got = nil
	r.tail.follow(func(line []byte) { r.got = append(r.got, string(line)) })
	if !slices.Equal(r.got, want) {
		r.t.Errorf("read %q, want %q", r.got, want)
	}
}

func (r *reader) append(text string) {
	r.t.Helper()
	f, err := os.OpenFile(r.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
		f.Close()
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func TestALogsLife(t *testing.T) {
	t.Parallel()
	r := follow(t, Options{MaxLine: 20})
	r.poll() // there is no file yet
	r.append("one\ntw")
	r.poll("one")
	r.append("o\r\n")
	r.poll("two")
	r.append(strings.Repeat("x", 50))
	r.poll()
	r.append("x\nafter a long one\n")
	r.poll("after a long one")

	if err := os.Rename(r.path, r.path+".1"); err != nil {
		t.Fatal(err)
	}
	r.poll() // nobody has made the new one yet
	f, err := os.OpenFile(r.path+".1", os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("still to the old one\n"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	r.append("new\n")
	r.poll("still to the old one", "new")

	if err := os.Truncate(r.path, 0); err != nil {
		t.Fatal(err)
	}
	r.append("a\n")
	r.poll("a")
	want := Stats{Lines: 6, TooLong: 1, Rotations: 2, Errors: 1}
	if got := r.tail.Stats(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestRunBeginsAtTheEnd(t *testing.T) {
	t.Parallel()
	for _, fromStart := range []bool{false, true} {
		r := follow(t, Options{FromStart: fromStart, Poll: time.Millisecond})
		r.append("old\n")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		lines, ended := make(chan string, 10), make(chan error, 1)
		go func() { ended <- r.tail.Run(ctx, func(line []byte) { lines <- string(line) }) }()
		if fromStart {
			if got := <-lines; got != "old" {
				t.Errorf("read %q first, want old", got)
			}
		} else {
			cancel() // what stands there by now is old
		}
		if fromStart {
			r.append("new\n")
			if got := <-lines; got != "new" {
				t.Errorf("read %q, want new", got)
			}
			cancel()
		}
		if err := <-ended; err != nil || len(lines) != 0 {
			t.Errorf("ended with %v and %d lines more", err, len(lines))
		}
	}
}

func TestStreamEndsWithItsInput(t *testing.T) {
	t.Parallel()
	var got []string
	tail := New("-", Options{})
	err := tail.stream(t.Context(), iotest.OneByteReader(strings.NewReader("a\nb\nlast")), func(l []byte) { got = append(got, string(l)) })
	if err != nil || !slices.Equal(got, []string{"a", "b", "last"}) {
		t.Errorf("%q, %v", got, err)
	}
	if err := tail.stream(t.Context(), iotest.ErrReader(io.ErrUnexpectedEOF), nil); err == nil {
		t.Error("a broken input is no error")
	}
}

// However a stream is cut into pieces, its lines are the same, and no more than
// max bytes are held.
func TestSplitterDoesNotSeePieces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab\n\r"))).Draw(t, "text")
		s := splitter{max: 5}
		var got []string
		add := func(l []byte) { got = append(got, string(l)) }
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			s.feed([]byte(rest[:n]), add)
			if cap(s.part) > 64 {
				t.Fatalf("holds %d bytes", cap(s.part))
			}
			rest = rest[n:]
		}
		s.end(add)
		var want []string
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			if len(line) <= 5 {
				want = append(want, strings.TrimSuffix(line, "\r"))
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q gave %q, want %q", text, got, want)
		}
	})
}
