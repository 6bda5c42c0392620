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

// runStore returns a Store whose Run continues until stop.
func runStore(t *testing.T, cfg Config) (s *Store, stop func()) {
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

func awaitWritten(t *testing.T, s *Store, n uint64) {
	t.Helper()
	await(t, fmt.Sprintf("%d to be written", n), func() bool { return s.Stats().Written >= n })
}

// recordMinute hands over the seconds of a minute in which key i has i requests a second.
func recordMinute(s *Store, at time.Time, keys int) {
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

func hotEvent(at time.Time, key hottype.Key) history.Event {
	return history.Event{At: at, Kind: "became_hot", Key: string(key), Detail: []byte(`{"rate":9}`),
		Span: &history.Span{Key: key, Rule: "topic", State: history.Hot, From: at, Peak: 9}}
}

func cooledEvent(at time.Time, key hottype.Key) history.Event {
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

func fileOf(dir string, at time.Time, kind string) string {
	return filepath.Join(dir, folderName, fileID{hourOf(at), kind}.fileName())
}

func TestStore_ReadsWhatWasWritten(t *testing.T) {
	t.Parallel()
	s, stop := runStore(t, Config{Dir: t.TempDir(), Keys: 2})
	s.Event(hotEvent(noon, "topic?id=3"))
	recordMinute(s, noon, 4)
	recordMinute(s, noon.Add(time.Minute), 1)
	s.Event(cooledEvent(noon.Add(80*time.Second), "topic?id=3"))
	awaitWritten(t, s, 3)
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
	if info, err := os.Stat(fileOf(s.cfg.Dir, noon, minutesKind)); err != nil || info.Mode() != 0o600 {
		t.Errorf("others can read the file: %v, %v", info, err)
	}
	again, _ := runStore(t, s.cfg)
	if a := read(t, again, all); len(a.Totals) != 2 || len(a.Keys) != 3 {
		t.Errorf("after a restart: %+v", a)
	}
}

// crash returns a Store on a copy of the files of a running Store, as a kill at this moment would leave them.
func crash(t *testing.T, s *Store) *Store {
	t.Helper()
	cfg := s.cfg
	cfg.Dir = t.TempDir()
	from := os.DirFS(filepath.Join(s.cfg.Dir, folderName))
	if err := os.CopyFS(filepath.Join(cfg.Dir, folderName), from); err != nil {
		t.Fatal(err)
	}
	again, _ := runStore(t, cfg)
	return again
}

// A program that is killed leaves spans open. They end where its last minute does, with the peak that it saw.
func TestStore_EndsOpenSpansAfterACrash(t *testing.T) {
	t.Parallel()
	s, _ := runStore(t, Config{Dir: t.TempDir()})
	s.Event(hotEvent(noon, "topic?id=40"))
	recordMinute(s, noon, 41)
	s.Event(hotEvent(noon.Add(30*time.Minute), "b?x=1")) // after the last minute
	s.Second(&history.Second{At: noon.Add(time.Minute)})
	awaitWritten(t, s, 3)
	for range 2 { // the second crash knows of the first
		s = crash(t, s)
		spans := read(t, s, all).Spans
		if len(spans) != 2 {
			t.Fatalf("%+v", spans)
		}
		for i, want := range []time.Time{noon.Add(time.Minute), noon.Add(30 * time.Minute)} {
			if !spans[i].Until.Equal(want) || spans[i].Peak != []float64{40, 9}[i] {
				t.Errorf("%+v, want it to end at %v", spans[i], want)
			}
		}
		s.Event(hotEvent(noon, "topic?id=40")) // it is still hot, since the same time
		awaitWritten(t, s, 1)
		a := read(t, s, all)
		if len(a.Spans) != 2 || !a.Spans[0].Until.IsZero() || len(a.Events) != 2 {
			t.Errorf("%+v, %+v", a.Spans, a.Events)
		}
	}
	s = crash(t, s)
	s.Event(hotEvent(noon, "topic?id=40"))
	s.Event(cooledEvent(noon.Add(5*time.Hour), "topic?id=40"))
	awaitWritten(t, s, 2)
	if spans := read(t, s, all).Spans; len(spans) != 2 || !spans[0].Until.Equal(noon.Add(5*time.Hour)) ||
		spans[0].Peak != 40 {
		t.Errorf("%+v", spans)
	}
}

// Hours are removed when they ended longer than Keep ago; spells that continue stay.
func TestStore_TrimKeepsLastingSpans(t *testing.T) {
	t.Parallel()
	now := noon
	s, _ := runStore(t, Config{Dir: t.TempDir(), Keep: time.Hour, Now: func() time.Time { return now }})
	s.Event(hotEvent(noon, "a?x=1"))
	s.Event(cooledEvent(noon.Add(time.Minute), "a?x=1"))
	s.Event(hotEvent(noon, "b?x=1"))
	recordMinute(s, noon, 1)
	recordMinute(s, noon.Add(70*time.Minute), 1)
	s.Second(&history.Second{At: noon.Add(75 * time.Minute)})
	awaitWritten(t, s, 5)
	for _, gone := range []bool{false, true} {
		if now = noon.Add(119 * time.Minute); gone {
			now = noon.Add(2 * time.Hour)
		}
		if err := s.Trim(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := map[bool][4]int{false: {2, 2, 2, 3}, true: {1, 1, 1, 0}}[gone]
		a := read(t, s, all)
		if got := [4]int{len(a.Totals), len(a.Keys), len(a.Spans), len(a.Events)}; got != want {
			t.Errorf("at %v: %v, want %v", now, got, want)
		}
	}
	spans := read(t, crash(t, s), all).Spans
	if len(spans) != 1 || spans[0].Key != "b?x=1" || !spans[0].From.Equal(noon) {
		t.Errorf("after a crash: %+v", spans)
	}
}

func bytesIn(t *testing.T, dir string) (sum int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, folderName, "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		sum += info.Size()
	}
	return sum
}

// Full files lose their oldest part, in hours and within a large hour, and recording continues.
func TestStore_BoundsFiles(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	for name, step := range map[string]time.Duration{"hours": time.Minute, "one hour": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s, stop := runStore(t, Config{Dir: dir, MaxBytes: most, Keys: 100})
			read(t, s, all) // the files are open
			for i := range 400 {
				at := noon.Add(time.Duration(i) * step)
				if step == 0 {
					at = noon.Add(time.Duration(i%60) * time.Minute)
				}
				recordMinute(s, at, 100)
				s.Event(hotEvent(at, "topic?id=77"))
				awaitWritten(t, s, uint64(2*i+1))
				if n := s.Stats().Bytes; n > most {
					t.Fatalf("%d bytes", n)
				}
			}
			a := read(t, s, history.Query{From: all.From, To: all.To, Limit: 100_000})
			if n := len(a.Totals); n < 20 || n > 300 || len(a.Spans) == 0 {
				t.Errorf("%d minutes are kept, %d spans", n, len(a.Spans))
			}
			if st := s.Stats(); st.Dropped+st.Failures > 0 {
				t.Errorf("%+v", st)
			}
			stop()
			if n := bytesIn(t, dir); n > most || n != s.Stats().Bytes {
				t.Errorf("%d bytes, the metric says %d", n, s.Stats().Bytes)
			}
		})
	}
}

// A minute that is larger than all files may be is not kept, and the remedy is said.
func TestStore_DropsALargeMinute(t *testing.T) {
	t.Parallel()
	s, _ := runStore(t, Config{Dir: t.TempDir(), MaxBytes: 1 << 20})
	recordOneKey(s, noon, strings.Repeat("x", 1<<20), history.Cold, 1, 0)
	s.Second(&history.Second{At: noon.Add(time.Minute)})
	await(t, "the failure", func() bool { return s.Failing() != nil })
	if err := s.Failing(); !strings.Contains(err.Error(), "raise history.max_bytes") {
		t.Error(err)
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
func TestStore_DropsRecordsInAnUnusableDirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	save(t, file, nil)
	s, _ := runStore(t, Config{Dir: filepath.Join(file, "dir")})
	await(t, "the failure", func() bool { return s.Failing() != nil })
	for range 2 * queued {
		s.Event(hotEvent(noon, "a?x=1"))
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

// Any text is stored unchanged.
func TestStore_KeepsAnyText(t *testing.T) {
	t.Parallel()
	s, _ := runStore(t, Config{Dir: t.TempDir()})
	for i, text := range []string{`'; DROP TABLE minute; --`, "\x00", "\xff\xfe", "=1+1", "\u202e",
		strings.Repeat("x", 8<<10)} {
		at := noon.Add(time.Duration(i) * time.Minute)
		s.Second(&history.Second{At: at, Keys: []history.KeySecond{{Key: hottype.Key(text), Rule: text, Rate: 1}}})
		s.Second(&history.Second{At: at.Add(time.Minute)})
		awaitWritten(t, s, uint64(i)+1)
		q := history.Query{From: at, To: at.Add(time.Minute), Key: hottype.Key(text), Limit: 10}
		if a := read(t, s, q); len(a.Keys) != 1 || a.Keys[0].Key != hottype.Key(text) || a.Keys[0].Rule != text {
			t.Errorf("%q: %+v", text, a)
		}
	}
}

// Two programs on one directory would count everything twice: the second keeps nothing until the first
// has ended.
func TestStore_LocksItsDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, stop := runStore(t, Config{Dir: dir})
	first.Event(hotEvent(noon, "a?x=1"))
	awaitWritten(t, first, 1)
	second, _ := runStore(t, Config{Dir: dir})
	await(t, "the second to say it", func() bool { return second.Failing() != nil })
	if err := second.Failing(); !strings.Contains(err.Error(), "is in use by") {
		t.Error(err)
	}
	stop()
	second.reopenArchive() // as Run does every half minute
	if err := second.Failing(); err != nil {
		t.Error(err)
	}
}

// A program that is started again within a minute records the second part of the minute: the parts add up to one
// minute.
func TestStore_AddsPartsOfAMinute(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for part, by := range []map[string]float64{{"hot": 3}, {"hot": 2, "ip_fixed": 4}} {
		s, stop := runStore(t, Config{Dir: dir})
		read(t, s, all) // the files are open
		s.Second(&history.Second{
			At: noon.Add(time.Duration(30*part) * time.Second), Allowed: 10, Denied: 3, DeniedBy: by,
			Keys: []history.KeySecond{{Key: "a?x=1", Rate: float64(part), Allowed: 5},
				{Key: hottype.Key(fmt.Sprintf("b?x=%d", part)), Rate: 1}},
		})
		stop()
	}
	s, _ := runStore(t, Config{Dir: dir})
	a := read(t, s, all)
	want := []history.Total{{Minute: noon, Allowed: 20, Denied: 6, By: map[string]float64{"hot": 5, "ip_fixed": 4}}}
	if diff := cmp.Diff(want, a.Totals); diff != "" || len(a.Keys) != 3 || a.Keys[0].Allowed != 10 ||
		a.Keys[0].Peak != 1 {
		t.Errorf("%s, %+v", diff, a.Keys)
	}
	for key, allowed := range map[hottype.Key]float64{"a?x=1": 10, "b?x=0": 0, "b?x=1": 0} {
		q := all
		q.Key = key
		if a := read(t, s, q); len(a.Keys) != 1 || a.Keys[0].Key != key ||
			a.Keys[0].Allowed != history.Requests(allowed) {
			t.Errorf("%s: %+v", key, a.Keys)
		}
	}
}

// A query that ends within the minute under way, as all queries that end now do, returns that minute.
func TestStore_ReadsTheMinuteUnderWay(t *testing.T) {
	for _, after := range []time.Duration{time.Millisecond, 999 * time.Millisecond, time.Second, 59 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			s, _ := runStore(t, Config{Dir: t.TempDir(), Now: func() time.Time { return noon }})
			recordMinute(s, noon, 1)
			recordMinute(s, noon.Add(time.Minute), 1) // ends the minute before
			awaitWritten(t, s, 1)
			a, err := s.Read(t.Context(), history.Query{From: noon.Add(-time.Hour), To: noon.Add(after), Limit: 10})
			if err != nil || len(a.Totals) != 1 || len(a.Keys) != 1 {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
}
