package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/app/program"
	"github.com/hotparam/pipeline/internal/operator/replay"
)

// commandLine runs the program as main does.
func commandLine(t *testing.T, args ...string) int {
	t.Helper()
	return start(args)
}

// sampleLog is a log in which one topic goes viral.
func sampleLog() string {
	var log strings.Builder
	for n := range 3000 {
		id := 100 + n*n%500
		if n > 2000 && n < 2300 {
			id = 42
		}
		fmt.Fprintf(&log, "%d\t192.0.%d.%d\tGET\t/topic?id=%d&utm_source=x\n", 1_700_000_000+n/10, n%3, n%250, id)
	}
	return log.String()
}

func TestLearnWritesAFileThatIsValid(t *testing.T) {
	dir := t.TempDir()
	log, out := filepath.Join(dir, "access.tsv"), filepath.Join(dir, "hotparam.yaml")
	if err := os.WriteFile(log, []byte(sampleLog()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		code int
	}{
		{[]string{"learn", "--out", out, log}, 0},
		{[]string{"config", "validate", out}, 0},
		{[]string{"learn", "--out", out, log}, 1}, // it exists
		{[]string{"learn", filepath.Join(dir, "none")}, 1},
		{[]string{"learn", t.TempDir()}, 1}, // a directory without files
	} {
		if code := commandLine(t, tt.args...); code != tt.code {
			t.Errorf("hotparam %s: exit code %d, want %d", strings.Join(tt.args, " "), code, tt.code)
		}
	}
	set, _, err := program.Validate(out)
	if err != nil {
		t.Fatal(err)
	}
	if set.Rules[0].Name != "topic" || set.Rules[0].Params[0].Name != "id" {
		t.Errorf("rules %+v", set.Rules[0])
	}
	cmd := exec.Command(os.Args[0], "replay", "--config", out, "-o", "json", log)
	cmd.Env = append(os.Environ(), "HOTPARAM_TEST_MAIN=1")
	text, err := cmd.Output()
	var report struct{ Hot []struct{ Key string } }
	if err := errors.Join(err, json.Unmarshal(text, &report)); err != nil || report.Hot[0].Key != "topic?id=42" {
		t.Errorf("the viral topic is not hot with what was learned from it: %.2000s, %v", text, err)
	}
}

// A directory is read like its files, in any order and compression, without hidden files.
func TestOpenLogs_OpensFilesOfDirectories(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := sampleLog()
	half := strings.LastIndexByte(log[:len(log)/2], '\n') + 1
	var older bytes.Buffer
	z := gzip.NewWriter(&older)
	if _, err := io.WriteString(z, log[:half]); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"access.log": log[half:], "access.log.2.gz": older.String(), ".swp": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "old"), 0o700); err != nil {
		t.Fatal(err)
	}
	logs, err := openLogs([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	r, err := replay.Run(t.Context(), replay.Config{}, logs.replaySources(func(f *os.File) io.Reader { return f })...)
	if err != nil || r.Requests != 3000 || r.Malformed != 0 || len(r.Sources) != 2 {
		t.Errorf("%d requests, %+v: %v", r.Requests, r.Sources, err)
	}
}

func TestReplay_RejectsLogsWithoutGoodLine(t *testing.T) {
	dir := t.TempDir()
	bad, empty := filepath.Join(dir, "bad.log"), filepath.Join(dir, "empty.log")
	for path, text := range map[string]string{bad: "not\x1b[2J a log\nnor this\n", empty: ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"learn", bad}, {"learn", empty}, {"replay", bad}} {
		if code := commandLine(t, args...); code != 1 {
			t.Errorf("hotparam %s: exit code %d", strings.Join(args, " "), code)
		}
	}
}

// A pipe is read to its end, kept, and read again from its beginning, each time.
func TestOpenForRereading_SpoolsPipes(t *testing.T) {
	t.Parallel()
	for most, want := range map[int64]string{1 << 20: "", 100: "--max-spool"} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		go func() { // ends when all is written, or when the reader has closed
			defer w.Close()
			_, _ = w.WriteString(strings.Repeat("line\n", 100))
		}()
		f, err := spoolFile(r, most)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("at most %d bytes: %v", most, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		logs := logFiles{names: []string{"pipe"}, files: []*os.File{f}}
		for range 2 {
			sources := logs.replaySources(func(f *os.File) io.Reader { return io.NewSectionReader(f, 0, 1<<62) })
			text := make([]byte, 1000)
			if n, _ := sources[0].Reader.Read(text); n != 500 {
				t.Errorf("%d bytes", n)
			}
		}
		if _, err := os.Stat(f.Name()); err == nil {
			t.Errorf("%s still has its name", f.Name())
		}
		logs.Close()
	}
}

func TestLogFormat_QuotesShellArguments(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]logFormat{
		"":                 {Format: "auto"},
		" --format events": {Format: "events"},
		` --log-format '$remote_addr "$request" it'\''s'`: {Format: "auto", LogFormat: `$remote_addr "$request" it's`},
		" --log-format json:time=ts,client=ip,target=url": {Format: "auto", LogFormat: "json:time=ts,client=ip,target=url"},
	} {
		if got := f.shellArguments(); got != want {
			t.Errorf("%+v: %q, want %q", f, got, want)
		}
	}
}
