package program

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/operator/admin/live"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/textfile"
)

const goodRules = `namespace: news
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 200}, limit: {rate: 100}}
redis: {addr: ["10.0.0.1:6379"]}
`

// reloading is a reloader of an aggregator on a file, with a clock of the test.
type reloading struct {
	*Reloader
	t       *testing.T
	path    string
	watch   textfile.Watch
	now     time.Time
	said    bytes.Buffer
	applied []*rules.Set
	bad     error // what check says
}

func startReloading(t *testing.T, text string, args ...string) *reloading {
	t.Helper()
	r := &reloading{t: t, path: filepath.Join(t.TempDir(), "hotparam.yaml"), now: time.Now()}
	r.write(text)
	p, err := config.Build(&config.Aggregator{}, "aggregator", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Parse(append(args, "--config", r.path)); err != nil {
		t.Fatal(err)
	}
	r.Reloader = NewReloader(p, nil, func(*rules.Set) error { return r.bad },
		func(set *rules.Set) { r.applied = append(r.applied, set) }, slog.New(slog.NewTextHandler(&r.said, nil)))
	return r
}

func (r *reloading) write(text string) {
	r.t.Helper()
	if err := os.WriteFile(r.path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// after checks the file as often as a program does until time d has passed, and returns the log of that time.
func (r *reloading) after(d time.Duration) string {
	r.said.Reset()
	for end := r.now.Add(d); r.now.Before(end); {
		r.now = r.now.Add(textfile.Look)
		r.checkFile(&r.watch, r.now, false)
	}
	return r.said.String()
}

func (r *reloading) wantApplied(when string, n int) {
	r.t.Helper()
	if len(r.applied) != n {
		r.t.Errorf("%s: applied %d times, want %d", when, len(r.applied), n)
	}
}

// A file that is rejected changes nothing. The log names the file and the remedy, and the metrics report the failure
// until a valid file comes.
func TestReloader_RejectedFileChangesNothing(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"empty":         {"", []string{"is empty", "write at least one rule"}},
		"comments only": {"# nothing\n", []string{"has no rules", "write at least one rule"}},
		"no rules":      {"namespace: news\nredis: {addr: ['10.0.0.1:6379']}\n", []string{"has no rules"}},
		"an empty list": {"namespace: news\nrules: []\nredis: {addr: ['10.0.0.1:6379']}\n",
			[]string{"has no rules"}},
		"no YAML":         {"rules: [", []string{"hotparam.yaml:1"}},
		"unknown setting": {goodRules + "tally: {flsh: 1s}\n", []string{"hotparam.yaml:5", "tally.flush"}},
		"namespace":       {strings.Replace(goodRules, "news", "olds", 1), []string{": namespace; restart it"}},
		"setting": {strings.Replace(goodRules, "10.0.0.1", "10.0.0.2", 1),
			[]string{": redis.addr; restart it"}},
		"setting taken out": {strings.Replace(goodRules, "redis:", "proxy: {listen: '127.0.0.1:1'}\nmirror:", 1),
			[]string{"mirror.addr"}},
		"listeners": {goodRules + "admin: {listen: '127.0.0.1:9'}\nstatsd: {listen: ['127.0.0.1:8']}\n",
			[]string{": admin.listen, statsd.listen; restart it"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startReloading(t, goodRules)
			r.after(2 * textfile.Settle)
			before := r.Stats()
			r.write(tt.text)
			said := r.after(2 * textfile.Settle)
			r.wantApplied("refused", 0)
			for _, want := range append(tt.want, "level=ERROR", r.path, "the rules from before hold") {
				if !strings.Contains(said, want) {
					t.Errorf("does not say %q:\n%s", want, said)
				}
			}
			if st := r.Stats(); st.Success || st.Hash != before.Hash || st.Timestamp != before.Timestamp {
				t.Errorf("metrics %+v after %+v", st, before)
			}
			if said := r.after(time.Minute); said != "" {
				t.Errorf("said again: %s", said)
			}
			r.write(goodRules)
			r.after(2 * textfile.Settle)
			if st := r.Stats(); !st.Success || st.Hash != before.Hash || st.Timestamp <= before.Timestamp {
				t.Errorf("metrics %+v after the old file came back", st)
			}
		})
	}
	t.Run("what the rules do not know themselves", func(t *testing.T) {
		t.Parallel()
		r := startReloading(t, goodRules)
		r.bad = errors.New("too few counters")
		r.write(strings.Replace(goodRules, "200", "300", 1))
		if said := r.after(2 * textfile.Settle); !strings.Contains(said, "too few counters") || len(r.applied) > 0 {
			t.Errorf("applied %d times: %s", len(r.applied), said)
		}
	})
}

// Values of flags do not depend on the file, and settings of other programs are ignored.
func TestReloader_IgnoresFlagsAndForeignSettings(t *testing.T) {
	t.Parallel()
	r := startReloading(t, goodRules, "--redis.addr", "10.9.9.9:6379")
	r.write(strings.Replace(goodRules, "10.0.0.1", "10.0.0.2", 1) + "proxy: {listen: '127.0.0.1:1'}\n")
	if said := r.after(2 * textfile.Settle); strings.Contains(said, "ERROR") {
		t.Error(said)
	}
	r.wantApplied("settings of others", 1)
}

func TestReloader_LogsRemovedSettings(t *testing.T) {
	t.Parallel()
	r := startReloading(t, goodRules+"overrides:\n  - {key: 'topic?id=1', action: block}\n")
	r.write(goodRules)
	said := r.after(2 * textfile.Settle)
	if !strings.Contains(said, "level=WARN") || !strings.Contains(said, `removed="overrides[topic?id=1]"`) {
		t.Errorf("does not list the override:\n%s", said)
	}
	r.wantApplied("a good file", 1)
	r.write(strings.Replace(goodRules, "200", "300", 1))
	if said := r.after(2 * textfile.Settle); strings.Contains(said, "WARN") ||
		!strings.Contains(said, "configuration read again") {
		t.Errorf("nothing was removed: %s", said)
	}
	r.wantApplied("another good file", 2)
}

// writerFunc is a function that receives the lines that are written.
type writerFunc func(line string)

func (f writerFunc) Write(line []byte) (int, error) {
	f(string(line))
	return len(line), nil
}

// The metrics agree with a log line when it is written, because a program that waits for the line reads them next.
func TestReloader_LogsAfterItsMetrics(t *testing.T) {
	t.Parallel()
	r := startReloading(t, goodRules+"overrides:\n  - {key: 'topic?id=1', action: block}\n")
	before, lines := r.Stats(), 0
	r.log = slog.New(slog.NewTextHandler(writerFunc(func(line string) {
		lines++
		if st := r.Stats(); st.Success == strings.Contains(line, "ERROR") || st.Success && st.Hash == before.Hash {
			t.Errorf("metrics %+v while this is logged: %s", st, line)
		}
	}), nil))
	for _, text := range []string{"rules: oops\n", goodRules} {
		r.write(text)
		r.after(2 * textfile.Settle)
	}
	if lines != 3 {
		t.Errorf("%d lines, want an error, what was removed, and that the file was read", lines)
	}
}

// A file that is being written is read when it no longer changes. Its first half is not applied, even if it is a valid
// file.
func TestReloader_WaitsForSettledFile(t *testing.T) {
	t.Parallel()
	second := "  - {name: page, match: {path: /page}, params: [id], hot: {rate: 200}, limit: {rate: 100}}\n"
	r := startReloading(t, goodRules)
	r.after(2 * textfile.Settle)
	long := strings.Replace(goodRules, "redis:", second+"redis:", 1)
	for n := 0; n < len(long); n += 40 {
		r.write(long[:n])
		if said := r.after(textfile.Settle - textfile.Look); said != "" {
			t.Fatalf("after %d bytes: %s", n, said)
		}
	}
	r.write(long)
	r.after(textfile.Settle - textfile.Look)
	r.wantApplied("a moment after the last write", 0)
	r.after(2 * textfile.Look)
	r.wantApplied("still", 1)
	if n := len(r.applied[0].Rules); n != 2 {
		t.Errorf("%d rules", n)
	}
	r.said.Reset()
	for range textfile.SettleTimeout/textfile.Look + 2 {
		r.write(long + strings.Repeat("#", int(r.now.Unix()%7)+1))
		r.now = r.now.Add(textfile.Look)
		if err := os.Chtimes(r.path, r.now, r.now); err != nil {
			t.Fatal(err)
		}
		r.checkFile(&r.watch, r.now, false)
	}
	if said := r.said.String(); strings.Count(said, "keeps changing") != 1 || r.Stats().Success {
		t.Errorf("a file that never rests: %s", said)
	}
	r.after(2 * textfile.Settle)
	r.wantApplied("at rest in the end", 2)
}

// Editors rename a new file over the old one, Kubernetes exchanges a link in the
// path, others take the file away for a moment.
func TestReloader_FollowsReplacedFiles(t *testing.T) {
	t.Parallel()
	other := strings.Replace(goodRules, "200", "300", 1)
	r := startReloading(t, goodRules)
	if err := os.WriteFile(r.path+".new", []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(r.path+".new", r.path); err != nil {
		t.Fatal(err)
	}
	r.after(2 * textfile.Settle)
	r.wantApplied("renamed", 1)

	dir := filepath.Dir(r.path)
	for version, text := range map[string]string{"v1": other, "v2": goodRules} {
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, version, "hotparam.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(target, name string) {
		t.Helper()
		tmp := filepath.Join(dir, "tmp")
		if err := os.Symlink(target, tmp); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("v1", "..data")
	link("..data/hotparam.yaml", "hotparam.yaml")
	r.after(2 * textfile.Settle)
	r.wantApplied("a link to the same bytes", 1)
	link("v2", "..data")
	r.after(2 * textfile.Settle)
	r.wantApplied("the link exchanged", 2)

	if err := os.Remove(r.path); err != nil {
		t.Fatal(err)
	}
	r.after(textfile.Settle - textfile.Look)
	r.write(goodRules)
	if said := r.after(2 * textfile.Settle); said != "" {
		t.Errorf("gone for a moment: %s", said)
	}
	if err := os.Remove(r.path); err != nil {
		t.Fatal(err)
	}
	if said := r.after(2 * textfile.Settle); !strings.Contains(said, "cannot be read") ||
		!strings.Contains(said, "put it back") {
		t.Errorf("gone: %s", said)
	}
	r.write(goodRules)
	r.after(2 * textfile.Settle)
	if !r.Stats().Success {
		t.Error("put back, and still failing")
	}
}

func TestReloader_RunsWithoutFile(t *testing.T) {
	t.Parallel()
	r := NewReloader(nil, nil, nil, nil, quiet)
	if st := r.Stats(); !st.Success || st.Hash != 0 || st.Timestamp == 0 {
		t.Errorf("%+v", st)
	}
	c := r.addToAdmin(admin.Config{Config: live.Config{
		Status: func() []admin.Status { return []admin.Status{{Name: "a"}} },
	}})
	if list := c.Status(); len(list) != 1 {
		t.Errorf("status %v", list)
	}
	r.lastFailure = "oops"
	if list := c.Status(); len(list) != 2 || list[1].OK || !strings.Contains(list[1].Value, "oops") {
		t.Errorf("status of a failure %v", list)
	}
}
