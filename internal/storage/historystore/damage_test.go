package historystore

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/history"
)

// twoHours fills a directory with 90 minutes, and returns the first file of minutes and its contents.
func twoHours(t *testing.T, dir string) (path string, data []byte) {
	t.Helper()
	s, stop := runStore(t, Config{Dir: dir})
	for i := range 90 {
		recordMinute(s, noon.Add(time.Duration(i)*time.Minute), 10)
	}
	awaitWritten(t, s, 89)
	stop()
	path = fileOf(dir, noon, minutesKind)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, data
}

// The whole blocks of a damaged file are kept, the file is set aside, and all other files stay unchanged.
func TestStore_SetsDamagedFileAside(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		damage   func(data []byte) []byte
		minutes  int // of 90, 60 of them in the file
		setAside uint64
	}{
		"none of ours": {damage: func([]byte) []byte { return bytes.Repeat([]byte("no history "), 1000) },
			minutes: 30, setAside: 1},
		"another version": {damage: func(b []byte) []byte { return bytes.Replace(b, []byte("1\n"), []byte("9\n"), 1) },
			minutes: 30, setAside: 1},
		"cut in half": {damage: func(b []byte) []byte { return b[:len(b)/2] }, minutes: 30 + 29},
		"empty":       {damage: func([]byte) []byte { return nil }, minutes: 30},
		"a bit":       {damage: func(b []byte) []byte { b[len(b)/2] ^= 1; return b }, minutes: 30 + 29, setAside: 1},
		"zeros": {damage: func(b []byte) []byte { clear(b[len(b)/2 : len(b)/2+4096]); return b },
			minutes: 30 + 29, setAside: 1},
		"more behind": {damage: func(b []byte) []byte { return append(b, make([]byte, 100)...) },
			minutes: 90, setAside: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path, data := twoHours(t, dir)
			save(t, path, one.damage(data))
			var log bytes.Buffer
			s, stop := runStore(t, Config{Dir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
			a := read(t, s, all)
			if len(a.Totals) != one.minutes || len(a.Keys) != 10*one.minutes || s.Failing() != nil ||
				s.Stats().SetAside != one.setAside {
				t.Errorf("%d minutes, %d keys, %+v, %v", len(a.Totals), len(a.Keys), s.Stats(), s.Failing())
			}
			recordMinute(s, noon, 1) // the file goes on
			recordMinute(s, noon.Add(time.Minute), 1)
			awaitWritten(t, s, 1)
			stop()
			if !strings.Contains(log.String(), filepath.Base(path)) && one.setAside > 0 {
				t.Error("the log does not name the file: ", log.String())
			}
			if _, err := os.Stat(path + damagedEnd); (err == nil) != (one.setAside > 0) {
				t.Error(err)
			}
		})
	}
}

// A file that is damaged while the program runs is mended when a question finds it. What lasts, lasts.
func TestStore_MendsDamageFoundByAQuery(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(path string, data []byte) error{
		"damaged": func(path string, data []byte) error { return os.WriteFile(path, data[:len(data)/2], 0o600) },
		"deleted": func(path string, _ []byte) error { return os.Remove(path) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path, data := twoHours(t, dir)
			s, _ := runStore(t, Config{Dir: dir})
			s.Event(hotEvent(noon, "topic?id=9"))
			awaitWritten(t, s, 1)
			if err := errors.Join(change(path, data), os.Remove(fileOf(dir, noon, eventsKind))); err != nil {
				t.Fatal(err)
			}
			recordMinute(s, noon, 10) // into the file
			s.Second(&history.Second{At: noon.Add(time.Minute)})
			await(t, "the rest to be read", func() bool {
				a, err := s.Read(t.Context(), all)
				return err == nil && len(a.Totals) >= 30 && len(a.Totals) < 90 && len(a.Spans) == 1 &&
					a.Spans[0].Until.IsZero()
			})
			if spans := read(t, crash(t, s), all).Spans; len(spans) != 1 || !spans[0].From.Equal(noon) {
				t.Errorf("after a crash: %+v", spans)
			}
		})
	}
}

// A write to a full disk leaves no part of a block, and writing continues when there is room.
func TestStore_ContinuesAfterAFullDisk(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full here")
	}
	dir := t.TempDir()
	path := fileOf(dir, noon, minutesKind)
	s, _ := runStore(t, Config{Dir: dir})
	read(t, s, all) // the files are open
	if err := os.Symlink("/dev/full", path); err != nil {
		t.Fatal(err)
	}
	recordMinute(s, noon, 1)
	s.Second(&history.Second{At: noon.Add(time.Minute)})
	await(t, "the failure", func() bool { return s.Stats().Failures > 0 })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	recordMinute(s, noon.Add(time.Minute), 1)
	s.Second(&history.Second{At: noon.Add(2 * time.Minute)})
	awaitWritten(t, s, 1)
	if a := read(t, s, all); len(a.Totals) != 1 || s.Failing() != nil || s.Stats().Dropped != 1 {
		t.Errorf("%+v, %+v", a, s.Stats())
	}
}

var anyCost = rapid.SampledFrom([]hottype.Cost{"", hottype.CostTime, hottype.CostBytes, "response.X-Cost"})

// anyMinute draws a minute with keys of any bytes.
func anyMinute(t *rapid.T) history.Minute {
	number, would := rapid.Float64(), rapid.Float64Range(0, 1e12)
	m := history.Minute{Total: history.Total{Minute: time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "at"), 0).UTC(),
		Allowed: history.Requests(number.Draw(t, "allowed")), Denied: history.Requests(number.Draw(t, "denied")),
		By: rapid.MapOfN(rapid.String(), number, 0, 3).Draw(t, "by"), WouldDeny: would.Draw(t, "would")}}
	for i := range rapid.IntRange(0, 4).Draw(t, "keys") {
		m.Keys = append(m.Keys, history.KeyMinute{Minute: m.Total.Minute,
			Key:  hottype.Key(string(rune('a'+i)) + string(rapid.SliceOf(rapid.Byte()).Draw(t, "key"))),
			Rule: rapid.String().Draw(t, "rule"), State: rapid.SampledFrom(states).Draw(t, "state"),
			Cost: anyCost.Draw(t, "cost"), Rate: number.Draw(t, "rate"), Peak: number.Draw(t, "peak"),
			Allowed: history.Requests(number.Draw(t, "allowed")),
			Denied:  history.Requests(number.Draw(t, "denied")), WouldDeny: would.Draw(t, "would"),
			Clients: rapid.Int64().Draw(t, "clients")})
	}
	return m
}

// anyRecord draws an event, with or without a span.
func anyRecord(t *rapid.T) record {
	at := rapid.Custom(func(t *rapid.T) time.Time {
		return time.UnixMilli(rapid.Int64Range(1, 1<<43).Draw(t, "at")).UTC()
	})
	r := record{Event: history.Event{At: at.Draw(t, "at"), Kind: rapid.String().Draw(t, "kind"),
		Key: rapid.String().Draw(t, "key"), Detail: append([]byte{}, rapid.SliceOf(rapid.Byte()).Draw(t, "detail")...)},
		step: rapid.ByteRange(noStep, endsSpan).Draw(t, "step")}
	if r.step != noStep {
		r.Span = &history.Span{Key: hottype.Key(rapid.String().Draw(t, "key")), Rule: rapid.String().Draw(t, "rule"),
			State: rapid.SampledFrom(states).Draw(t, "state"), From: at.Draw(t, "from"),
			Peak: rapid.Float64().Draw(t, "peak"), Cost: anyCost.Draw(t, "cost")}
		if r.step == endsSpan {
			r.Span.Until = at.Draw(t, "until")
		}
	}
	return r
}
