package requestlog

import (
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"
)

// A line after a torn one begins on a line of its own. The deadline of a full pipe tears the line.
func TestSink_StartsNewLineAfterTornLine(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{name: "pipe", file: w, log: slog.New(slog.DiscardHandler)}
	torn, written := []byte(strings.Repeat("a", 10<<20)+"\n"), make(chan bool)
	go func() { written <- s.write(torn) }()
	if _, err := r.Read(make([]byte, 1)); err != nil { // the write has begun
		t.Fatal(err)
	}
	if err := w.SetWriteDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if <-written || s.write(torn) { // nothing of the second line is written
		t.Error("a torn line counts as written")
	}
	if err := w.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		text, _ := io.ReadAll(r)
		read <- strings.TrimLeft(string(text), "a")
	}()
	if !s.write([]byte("next\n")) || !s.write([]byte("last\n")) {
		t.Error("the pipe has room again")
	}
	w.Close()
	if got := <-read; got != "\nnext\nlast\n" {
		t.Errorf("%q", got)
	}
}
