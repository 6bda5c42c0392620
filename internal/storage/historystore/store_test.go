package historystore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/history"
)

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// running is a Store whose Run goes on until stop.
func running(t *testing.T, cfg Config) (s *Store, stop func()) {
	t.Helper()
	s = New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return s, stop
}

// await polls until a condition holds.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	poll, end := time.NewTicker(5*time.Millisecond), time.After(30*time.Second)
	defer poll.Stop()
	for !ok() {
		select {
		case <-poll.C:
		case <-end:
			t.Fatal("waited in vain for " + what)
		}
	}
}

func written(t *testing.T, s *Store, n uint64) {
	t.Helper()
	await(t, fmt.Sprintf("%d to be written", n), func() bool { return s.Stats().Written >= n })
}

// minute hands over the seconds of a minute in which key i has i requests a second.
func minute(s *Store, at time.Time, keys int) {
	for second := range 60 {
		one := &history.Second{At: at.Add(time.Duration(second) * time.Second), Allowed: 10, Denied: 1,
			DeniedBy: map[string]float64{"hot": 1}}
		for i := range keys {
			one.Keys = append(one.Keys, history.KeySecond{
				Key: hottype.Key(fmt.Sprintf("topic?id=%d", i)), Rule: "topic", State: history.Hot,
				Rate: float64(i), Allowed: 2, Denied: 1, Clients: 7,
			})
		}
		s.Second(one)
	}
}

func became(at time.Time, key hottype.Key) history.Event {
	return history.Event{At: at, Kind: "became_hot", Key: string(key), Detail: []byte(`{"rate":9}`),
		Span: &history.Span{Key: key, Rule: "topic", State: history.Hot, From: at, Peak: 9}}
}

func cooled(at time.Time, key hottype.Key) history.Event {
	return history.Event{At: at, Kind: "cooled", Key: string(key), Detail: []byte(`{}`),
		Span: &history.Span{Key: key, State: history.Hot, Until: at, Peak: 12}}
}

var all = history.Query{From: noon.Add(-24 * time.Hour), To: noon.Add(24 * time.Hour), Limit: 1000}

func read(t *testing.T, s *Store, q history.Query) *history.Answer {
	t.Helper()
	a, err := s.Read(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestWhatWasWrittenIsRead(t *testing.T) {
	t.Parallel()
	s, stop := running(t, Config{Dir: t.TempDir(), Keys: 2})
	s.Event(became(noon, "topic?id=3"))
	minute(s, noon, 4)
	minute(s, noon.Add(time.Minute), 1)
	s.Event(cooled(noon.Add(80*time.Second), "topic?id=3"))
	written(t, s, 3)
	key := func(at time.Time, id string, rate float64) history.KeyMinute {
		return history.KeyMinute{Minute: at, Key: hottype.Key("topic?id=" + id), Rule: "topic", State: history.Hot,
			Rate: rate, Peak: rate,
			Allowed: 120, Denied: 60, Clients: 7}
	}
	want := &history.Answer{
		From: all.From, To: all.To,
		Totals: []history.Total{{Minute: noon, Allowed: 600, Denied: 60, By: map[string]float64{"hot": 60}}},
		Keys:   []history.KeyMinute{key(noon, "2", 2), key(noon, "3", 3)}, // the two heaviest
		Spans: []history.Span{{Key: "topic?id=3", Rule: "topic", State: history.Hot, From: noon,
			Until: noon.Add(80 * time.Second), Peak: 12}},
		Events: []history.Event{
			{At: noon, Kind: "became_hot", Key: "topic?id=3", Detail: []byte(`{"rate":9}`)},
			{At: noon.Add(80 * time.Second), Kind: "cooled", Key: "topic?id=3", Detail: []byte(`{}`)},
		},
	}
	if diff := cmp.Diff(want, read(t, s, all)); diff != "" {
		t.Error(diff)
	}
	one := all
	one.Key, one.Limit = "topic?id=3", 1
	if a := read(t, s, one); len(a.Keys) != 1 || len(a.Totals) != 0 || len(a.Spans) != 1 || len(a.Events) != 1 ||
		!a.Truncated {
		t.Errorf("%+v", a)
	}
	one.From, one.To = noon.Add(70*time.Second), noon.Add(time.Hour)
	if a := read(t, s, one); len(a.Keys) != 0 || len(a.Spans) != 1 || len(a.Events) != 1 || a.Truncated {
		t.Errorf("%+v", a)
	}
	stop() // the second minute is written at the end
	if info, err := os.Stat(filepath.Join(s.cfg.Dir, "history.sqlite")); err != nil || info.Mode() != 0o600 {
		t.Errorf("others can read the file: %v, %v", info, err)
	}
	again, _ := running(t, s.cfg)
	await(t, "the file to be open", func() bool { return again.db.Load() != nil })
	if a := read(t, again, all); len(a.Totals) != 2 || len(a.Keys) != 3 {
		t.Errorf("after a restart: %+v", a)
	}
}

// A program that is killed leaves spans open. They end where its last minute does.
func TestOpenSpansEndAfterCrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, _ := running(t, Config{Dir: dir})
	s.Event(became(noon, "a?x=1"))
	minute(s, noon, 1)
	s.Event(became(noon.Add(30*time.Minute), "b?x=1")) // after the last minute
	s.Second(&history.Second{At: noon.Add(time.Minute)})
	written(t, s, 3)
	db := s.db.Load()
	if err := s.closeSpans(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	for i, span := range read(t, s, all).Spans {
		if want := []time.Time{noon.Add(time.Minute), noon.Add(30 * time.Minute)}[i]; !span.Until.Equal(want) {
			t.Errorf("%s ended at %v, want %v", span.Key, span.Until, want)
		}
	}
	s.Event(became(noon, "a?x=1")) // it is still hot, since the same time
	written(t, s, 4)
	if spans := read(t, s, all).Spans; len(spans) != 2 || !spans[0].Until.IsZero() {
		t.Errorf("%+v", spans)
	}
}

func TestRetention(t *testing.T) {
	t.Parallel()
	now := noon
	s, _ := running(t, Config{Dir: t.TempDir(), Keep: time.Hour, Now: func() time.Time { return now }})
	s.Event(became(noon, "a?x=1"))
	s.Event(cooled(noon.Add(time.Minute), "a?x=1"))
	minute(s, noon, 1)
	minute(s, noon.Add(50*time.Minute), 1)
	s.Second(&history.Second{At: noon.Add(55 * time.Minute)})
	written(t, s, 4)
	now = noon.Add(90 * time.Minute)
	if err := s.Trim(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := read(t, s, all); len(a.Totals) != 1 || len(a.Keys) != 1 || len(a.Spans) != 0 || len(a.Events) != 0 {
		t.Errorf("%+v", a)
	}
}

// A full file loses its oldest part and goes on.
func TestFileIsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const most = 1 << 20
	s, stop := running(t, Config{Dir: dir, MaxBytes: most, Keys: 100})
	for i := range 200 {
		minute(s, noon.Add(time.Duration(i)*time.Minute), 100)
		if i > 0 {
			written(t, s, uint64(i))
		}
	}
	a := read(t, s, history.Query{From: all.From, To: all.To, Limit: 100_000})
	last := a.Totals[len(a.Totals)-1].Minute
	if len(a.Totals) < 20 || len(a.Totals) > 190 || !last.Equal(noon.Add(198*time.Minute)) {
		t.Errorf("%d minutes are kept, the last is %v", len(a.Totals), last)
	}
	if st := s.Stats(); st.Bytes > most || st.Dropped+st.Failures > 0 {
		t.Errorf("%+v", st)
	}
	stop()
	if info, err := os.Stat(filepath.Join(dir, fileName)); err != nil || info.Size() > most {
		t.Errorf("%v, %v", info.Size(), err)
	}
}

// A file that is no history is renamed, and a new one begun.
func TestDamagedFileIsSetAside(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(t *testing.T, path string){
		"no database": func(t *testing.T, path string) { save(t, path, []byte(strings.Repeat("no database ", 1000))) },
		"cut in half": func(t *testing.T, path string) {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			save(t, path, b[:len(b)/2])
		},
		"a page of zeros": func(t *testing.T, path string) {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			clear(b[pageSize : 3*pageSize])
			save(t, path, b)
		},
		"another version": func(t *testing.T, path string) {
			db, err := openFile(t.Context(), path, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.ExecContext(t.Context(), "PRAGMA user_version = 99"); err != nil {
				t.Fatal(err)
			}
			_ = db.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s, stop := running(t, Config{Dir: dir})
			for i := range 20 {
				minute(s, noon.Add(time.Duration(i)*time.Minute), 100)
			}
			written(t, s, 19)
			stop()
			damage(t, filepath.Join(dir, fileName))
			s, _ = running(t, Config{Dir: dir})
			minute(s, noon, 1)
			minute(s, noon.Add(time.Minute), 1)
			written(t, s, 1)
			if a := read(t, s, all); len(a.Totals) != 1 || s.Stats().SetAside != 1 || s.Failing() != nil {
				t.Errorf("%+v, %+v", a, s.Stats())
			}
			if _, err := os.Stat(filepath.Join(dir, fileName+".damaged")); err != nil {
				t.Error(err)
			}
		})
	}
}

func save(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A directory that cannot be used costs the history and nothing else: nothing blocks, memory is
// bounded, and it is said.
func TestUnusableDirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	save(t, file, nil)
	s, _ := running(t, Config{Dir: filepath.Join(file, "dir")})
	await(t, "the failure", func() bool { return s.Failing() != nil })
	for range 2 * queued {
		s.Event(became(noon, "a?x=1"))
	}
	if _, err := s.Read(t.Context(), all); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Error(err)
	}
	if st := s.Stats(); st.Dropped < queued || !st.Failing {
		t.Errorf("%+v", st)
	}
	if err := s.Trim(t.Context()); err != nil {
		t.Error(err)
	}
}

// Text is kept as it is, whatever it contains.
func TestHostileText(t *testing.T) {
	t.Parallel()
	s, _ := running(t, Config{Dir: t.TempDir()})
	for i, text := range []string{`'; DROP TABLE minute; --`, "\x00", "\xff\xfe", "=1+1", "\u202e",
		strings.Repeat("x", 8<<10)} {
		at := noon.Add(time.Duration(i) * time.Minute)
		s.Second(&history.Second{At: at, Keys: []history.KeySecond{{Key: hottype.Key(text), Rule: text, Rate: 1}}})
		s.Second(&history.Second{At: at.Add(time.Minute)})
		written(t, s, uint64(i)+1)
		q := history.Query{From: at, To: at.Add(time.Minute), Key: hottype.Key(text), Limit: 10}
		if a := read(t, s, q); len(a.Keys) != 1 || a.Keys[0].Key != hottype.Key(text) || a.Keys[0].Rule != text {
			t.Errorf("%q: %+v", text, a)
		}
	}
}

// Two programs on one directory would count everything twice: the second keeps nothing until the first
// has ended.
func TestDirectoryIsOneProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, stop := running(t, Config{Dir: dir})
	first.Event(became(noon, "a?x=1"))
	written(t, first, 1)
	second, _ := running(t, Config{Dir: dir})
	await(t, "the second to say it", func() bool { return second.Failing() != nil })
	if err := second.Failing(); !strings.Contains(err.Error(), "is in use by") {
		t.Error(err)
	}
	stop()
	second.reopen(t.Context()) // what Run does every half minute
	if err := second.Failing(); err != nil {
		t.Error(err)
	}
}

// A program that is started again within a minute tells its second part: the parts are one minute.
func TestPartsOfAMinuteAreAdded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for part, by := range []map[string]float64{{"hot": 3}, {"hot": 2, "ip_fixed": 4}} {
		s, stop := running(t, Config{Dir: dir})
		await(t, "the file to be open", func() bool { return s.db.Load() != nil })
		s.Second(&history.Second{
			At: noon.Add(time.Duration(30*part) * time.Second), Allowed: 10, Denied: 3, DeniedBy: by,
			Keys: []history.KeySecond{{Key: "a?x=1", Rate: float64(part), Allowed: 5}},
		})
		stop()
	}
	s, _ := running(t, Config{Dir: dir})
	a := read(t, s, all)
	want := []history.Total{{Minute: noon, Allowed: 20, Denied: 6, By: map[string]float64{"hot": 5, "ip_fixed": 4}}}
	if diff := cmp.Diff(want, a.Totals); diff != "" || len(a.Keys) != 1 || a.Keys[0].Allowed != 10 ||
		a.Keys[0].Peak != 1 {
		t.Errorf("%s, %+v", diff, a.Keys)
	}
}

// A question that ends within the minute under way, as all that end now do, gets that minute.
func TestTheMinuteUnderWayIsRead(t *testing.T) {
	for _, after := range []time.Duration{time.Millisecond, 999 * time.Millisecond, time.Second, 59 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			s, _ := running(t, Config{Dir: t.TempDir(), Now: func() time.Time { return noon }})
			minute(s, noon, 1)
			minute(s, noon.Add(time.Minute), 1) // ends the one before
			written(t, s, 1)
			a, err := s.Read(t.Context(), history.Query{From: noon.Add(-time.Hour), To: noon.Add(after), Limit: 10})
			if err != nil || len(a.Totals) != 1 || len(a.Keys) != 1 {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
}
