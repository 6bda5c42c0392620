//go:build unix

package requestlog_test

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/counting/accesslog"
	"github.com/hotparam/pipeline/internal/serving/requestlog"
)

// A pipe whose reader has left costs lines, and is written again for the next reader. A pipe that nobody reads blocks
// neither a request nor the end.
func TestDenials_SurvivesPipes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if _, err := requestlog.OpenDenials(requestlog.DenialsConfig{To: path, Form: accesslog.DenialJSON}); err == nil {
		t.Error("a pipe without a reader was opened")
	}
	reader := open()
	d := openDenials(t, path, requestlog.NoMaximum)
	read := func() string {
		line, err := bufio.NewReader(reader).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return line
	}
	d.deny("/read")
	if line := read(); !strings.Contains(line, "target=/read") {
		t.Error(line)
	}
	reader.Close()
	d.deny("/closed")
	await(t, func() bool { return d.Stats().Lost == 1 && d.said.count("cannot be written") == 1 })
	reader = open()
	d.deny("/again")
	if line := read(); !strings.Contains(line, "target=/again") && !strings.Contains(line, "left_out=1") {
		t.Error(line)
	}
	await(t, func() bool { return d.said.count("is written again") == 1 })

	for range 5000 { // more than the pipe and the queue hold
		d.deny("/" + strings.Repeat("a", 500))
	}
	if st := d.Stats(); st.Lost < 1000 {
		t.Errorf("%+v", st)
	}
	d.end()
	if d.said.count("the last ones are lost") != 1 {
		t.Error(&d.said.text)
	}
	reader.Close()
}

// await waits until ok.
func await(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come")
		}
	}
}
