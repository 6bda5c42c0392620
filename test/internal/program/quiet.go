package program

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"
)

// perMinute is the number of lines of a message that a program may write in any minute, whatever fails around it.
const perMinute = 10

var (
	textLine = regexp.MustCompile(`^time=(\S+) level=([A-Z]+)\S* msg=("(?:[^"\\]|\\.)*"|\S+)`)
	// rawLine is a line in the form of package log, which only a library writes that does not use our logger.
	rawLine = regexp.MustCompile(`^(\w+: )?20\d\d/\d\d/\d\d \d\d:\d\d:\d\d `)
)

// judgeLog fails the test of a program that wrote more than perMinute lines of a message in a minute, or lines that its
// logger does not bound. The lines after "stopping" do not count, because they sum up suppressed lines, once.
func judgeLog(t testing.TB, name, said string) {
	t.Helper()
	written := map[string][]time.Time{}
	for line := range strings.Lines(said) {
		if rawLine.MatchString(line) {
			t.Errorf("%s: a library writes past the logger: %s", name, line)
		}
		at, kind := logLine(line)
		if strings.HasSuffix(kind, "stopping") {
			return
		}
		if kind == "" || strings.HasPrefix(kind, "DEBUG") {
			continue
		}
		written[kind] = append(written[kind], at)
		of := written[kind]
		if n := len(of); n > perMinute && at.Sub(of[n-1-perMinute]) < time.Minute {
			t.Errorf("%s: %d lines in %v: %s", name, perMinute+1, at.Sub(of[n-1-perMinute]), kind)
			return
		}
	}
}

// logLine returns the time, and the level with the message, of a line in the form text or json, or "" for any other
// line.
func logLine(line string) (at time.Time, kind string) {
	var record struct {
		Time       time.Time
		Level, Msg string
	}
	if m := textLine.FindStringSubmatch(line); m != nil {
		at, _ = time.Parse(time.RFC3339Nano, m[1])
		return at, m[2] + " " + strings.Trim(m[3], `"`)
	}
	if json.Unmarshal([]byte(line), &record) != nil || record.Level == "" {
		return time.Time{}, ""
	}
	return record.Time, record.Level + " " + record.Msg
}
