package requestlog_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/accesslog"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/requestlog"
)

// said is the log of the program.
type said struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// count returns the number of lines with a text.
func (s *said) count(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.text.String(), text)
}

// denials is a log of denials that runs until the test ends it.
type denials struct {
	*requestlog.Denials
	said   said
	reopen chan os.Signal
	end    func()
}

// openDenials opens a log and runs it. Inside a bubble the clock is the bubble's.
func openDenials(t *testing.T, to string, rate int) *denials {
	t.Helper()
	d := &denials{reopen: make(chan os.Signal, 1)}
	var err error
	d.Denials, err = requestlog.OpenDenials(requestlog.DenialsConfig{To: to, Form: accesslog.DenialLogfmt, Rate: rate,
		Reopen: d.reopen, Log: slog.New(slog.NewTextHandler(&d.said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := d.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	d.end = func() { cancel(); running.Wait() }
	return d
}

// deny records a denial of a target, now.
func (d *denials) deny(target string) {
	d.Record(gate.Denial{At: time.Now(), Client: hottype.ParseClient("192.0.2.7"), Rules: rules.Default(), Rule: "topic",
		Reason: hottype.ReasonHot, Limit: 10, Retry: time.Second,
		Request: &hottype.Request{Method: "GET", Host: "news.example", Target: target}})
}

// targets returns the targets of a file's lines, and for a line that counts lines the number.
func targets(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		if _, n, counts := strings.Cut(strings.TrimSuffix(line, "\n"), " left_out="); counts {
			all = append(all, "+"+n)
			continue
		}
		var e accesslog.Entry
		if err := accesslog.Denials.Parse(strings.TrimSuffix(line, "\n"), &e); err != nil {
			t.Fatalf("%s%v", line, err)
		}
		all = append(all, e.Request.Target)
	}
	return strings.Join(all, " ")
}

// Of a second, the first lines of the rate are written, and the others are counted in one line.
func TestDenials_BoundsLinesInASecond(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "denials.log")
	synctest.Test(t, func(t *testing.T) {
		d := openDenials(t, path, 3)
		for second := range 2 {
			for i := range 5 + second {
				d.deny(fmt.Sprintf("/%d/%d", second, i))
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		late := gate.Denial{At: time.Now().Add(-time.Second), Client: hottype.ParseClient("192.0.2.7"), Key: "late?id=1"}
		d.deny("/2/0")
		d.Record(late)
		d.Record(late)
		d.Record(late)
		d.end()
		const want = "/0/0 /0/1 /0/2 +2 /1/0 /1/1 /1/2 +3 /2/0 /late?id=1 /late?id=1 +1"
		if got := targets(t, path); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if st := d.Stats(); st != (requestlog.DenialStats{Written: 9, LeftOut: 6}) {
			t.Errorf("%+v", st)
		}
	})
}

// A clock that was set back does not end the lines, and without a maximum all are written.
func TestDenials_RateFollowsTheClock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		bound := openDenials(t, filepath.Join(dir, "bound"), 1)
		free := openDenials(t, filepath.Join(dir, "free"), requestlog.NoMaximum)
		now := time.Now()
		for _, after := range []time.Duration{0, time.Hour, time.Hour, 0} {
			for _, d := range []*denials{bound, free} {
				d.Record(gate.Denial{At: now.Add(after), Key: hottype.Key(fmt.Sprintf("t?after=%v", after))})
			}
		}
		bound.end()
		free.end()
	})
	if got := targets(t, filepath.Join(dir, "bound")); got != "/t?after=0s /t?after=1h0m0s /t?after=0s +1" {
		t.Error(got)
	}
	if got := targets(t, filepath.Join(dir, "free")); strings.Count(got, "/t") != 4 {
		t.Error(got)
	}
}

// A line has redacted values only, and is short however long its parts are.
func TestDenials_RedactsAndCuts(t *testing.T) {
	t.Parallel()
	set, err := rules.ParseWith("rules.yaml", []byte(`
redact: {token: hash}
rules:
  - {name: user, match: {path: "/user/{token}/end"}, params: [path.token], hot: {rate: 1}}
  - {name: "*", params: ["*"], hot: {rate: 1}}
`), rules.Options{Secret: []byte("0123456789abcdef")})
	if err != nil {
		t.Fatal(err)
	}
	path, long := filepath.Join(t.TempDir(), "denials.log"), strings.Repeat("SECRET", 250)
	synctest.Test(t, func(t *testing.T) {
		d := openDenials(t, path, requestlog.NoMaximum)
		for _, target := range []string{"/a?token=SECRET&id=4", "/a?tok%65n=SECRET", "/user/SECRET/end",
			"/user/" + long + "/end?a=" + strings.Repeat("b", 1500), "/" + strings.Repeat("p\xff", 5000), "/a?x=\"\n"} {
			d.Record(gate.Denial{At: time.Now(), Client: hottype.Client{Name: strings.Repeat("c", 5000)}, Rules: set,
				Key: hottype.Key("t?id=" + strings.Repeat("k", 5000)), Request: &hottype.Request{
					Method: strings.Repeat("M", 5000), Host: strings.Repeat("\x00", 5000), Target: target}})
		}
		d.end()
	})
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) != 7 || strings.Contains(string(text), "SECRET") || strings.Contains(string(text), "kkk") {
		t.Errorf("%d lines:\n%s", len(lines), text)
	}
	for i, want := range []string{`target="/a?id=4&token=hash-`, `target="/a?token=hash-`, "target=/user/masked/end",
		"target=/user/masked/end", "target=/masked", `target="/a?x=%22%0A"`} {
		if !strings.Contains(lines[i], want) || len(lines[i]) > 5000 || !strings.Contains(lines[i], " key=t ") {
			t.Errorf("%s lacks %s", lines[i], want)
		}
	}
}

// A line is written into the file that has the name: a new one a second after a move, or at once at SIGHUP.
func TestDenials_FollowsRotation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "denials.log")
	rename := func(to string) {
		if err := os.Rename(path, filepath.Join(dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		d := openDenials(t, path, requestlog.NoMaximum)
		d.deny("/first")
		synctest.Wait()
		rename("1")
		d.deny("/moved")
		time.Sleep(1001 * time.Millisecond)
		d.deny("/second")
		synctest.Wait()
		rename("2")
		d.reopen <- syscall.SIGHUP
		synctest.Wait()
		d.deny("/third")
		d.reopen <- syscall.SIGHUP // nothing was moved
		synctest.Wait()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1001 * time.Millisecond)
		d.deny("/fourth")
		d.end()
	})
	for name, want := range map[string]string{"1": "/first /moved", "2": "/second", "denials.log": "/fourth"} {
		if got := targets(t, filepath.Join(dir, name)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// While the file cannot be opened again, lines go on into the moved file, and the log says it once.
func TestDenials_KeepsMovedFile(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "logs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		d := openDenials(t, filepath.Join(dir, "denials.log"), requestlog.NoMaximum)
		if err := os.Rename(dir, dir+".old"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5001 * time.Millisecond)
		d.deny("/moved")
		synctest.Wait()
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		d.deny("/again")
		d.end()
		if n := d.said.count("cannot be opened again"); n != 1 {
			t.Errorf("it was said %d times:\n%s", n, &d.said.text)
		}
	})
	if moved, again := targets(t, filepath.Join(dir+".old", "denials.log")), targets(t, filepath.Join(dir,
		"denials.log")); moved != "/moved" || again != "/again" {
		t.Errorf("%s, %s", moved, again)
	}
}

// A full disk is said once, and the denials that have no line are counted.
func TestDenials_CountsLinesOfAFullDisk(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	synctest.Test(t, func(t *testing.T) {
		d := openDenials(t, "/dev/full", requestlog.NoMaximum)
		for range 20 {
			d.deny("/full")
			time.Sleep(time.Second)
		}
		d.end()
		if st := d.Stats(); st != (requestlog.DenialStats{Lost: 20}) || d.said.count("cannot be written") != 1 {
			t.Errorf("%+v:\n%s", st, &d.said.text)
		}
	})
}
