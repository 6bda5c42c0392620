package filestore

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/rules"
)

// step is one call of a store.
type step struct {
	key int
	act string
}

var steps = rapid.Custom(func(t *rapid.T) step {
	return step{rapid.IntRange(0, 3).Draw(t, "key"),
		rapid.SampledFrom([]string{"put", "put", "put", "delete", "record", "trim", "check", "reopen"}).Draw(t, "act")}
})

// model is what a store has to hold: overrides by ID, without their times, and the number of audit entries.
type model struct {
	rates map[string]float64
	audit int
}

// after returns the model after a step that succeeded.
func (m model) after(s step, n int) model {
	id := rules.OverrideID(s.name())
	_, had := m.rates[id]
	next := model{maps.Clone(m.rates), m.audit}
	switch {
	case s.act == "put":
		next.rates[id] = float64(n + 1)
	case s.act == "delete" && had:
		delete(next.rates, id)
	case s.act != "record":
		return m
	}
	next.audit++
	return next
}

func modelOf(t testing.TB, o *Overrides) model {
	m := model{map[string]float64{}, len(audit(t, o, 99))}
	for _, e := range list(t, o) {
		m.rates[e.ID] = e.Rate
	}
	return m
}

func (s step) name() string { return fmt.Sprintf("topic?id=%d", s.key) }

func (s step) do(o *Overrides, n int) (err error) {
	switch s.act {
	case "put":
		_, err = o.Put(ctx, limitTo(s.name(), float64(n+1)))
	case "delete":
		if err = o.Delete(ctx, rules.OverrideID(s.name()), "ann"); errors.Is(err, rule.ErrNoOverride) {
			return nil
		}
	case "record":
		err = o.Record(ctx, rules.Change{Action: rules.ChangeReset, Of: s.name(), Author: "ann"})
	case "trim":
		_, err = o.Trim(t0)
	case "check":
		err = o.Check(ctx)
	}
	return err
}

// TestWritesFailInTurn lets each write of a random history fail, by an error or by a crash in its midst. Answered
// changes hold, and also after each restart; a change that a crash kept from being answered may or may not hold then;
// and the audit always ends with the change that holds. After an orderly stop overrides.json alone holds everything.
func TestWritesFailInTurn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		history := rapid.SliceOfN(steps, 1, 30).Draw(rt, "steps")
		room := rapid.SampledFrom([]int{1, 600, 2000, minJournal}).Draw(rt, "journal")
		d := newRAM()
		d.failAt = rapid.IntRange(0, 2*len(history)).Draw(rt, "fail at")
		d.crash = rapid.Bool().Draw(rt, "crash")
		d.torn = rapid.IntRange(0, 1000).Draw(rt, "torn")
		start := func(d *ram) *Overrides {
			o := boot(t, d)
			o.file.min = room
			return o
		}
		o, want := start(d), model{rates: map[string]float64{}}
		unanswered := want
		for i, s := range history {
			if s.act == "reopen" {
				_ = o.Close() // an error loses nothing
				o = start(d)
			}
			unanswered = want.after(s, i)
			if err := s.do(o, i); err == nil {
				want = unanswered
			} else if d.writes < d.failAt || d.failAt == 0 {
				rt.Fatalf("step %d: %v", i, err)
			}
			if diff := cmp.Diff(want, modelOf(t, o), models); diff != "" {
				rt.Fatalf("after step %d %+v: %s", i, s, diff)
			}
			if d.crashed {
				break
			}
		}
		disk := d.reboot()
		again := start(disk)
		got := modelOf(t, again)
		if diff := cmp.Diff(want, got, models); diff != "" && (!d.crashed || !cmp.Equal(unanswered, got, models)) {
			rt.Fatalf("after a start: %s", diff)
		}
		if missing := again.Missing(); missing != "" && !d.crashed {
			rt.Fatalf("nothing is missing: %s", missing)
		}
		if again.last != nil && !again.last.At.Equal(audit(t, again, 1)[0].At) {
			rt.Fatalf("the audit ends with %+v, and %+v holds", audit(t, again, 1), again.last)
		}
		if err := again.Close(); err != nil {
			rt.Fatal(err)
		}
		if left := disk.files[overridesJournal]; len(left) > 0 {
			rt.Fatal("a journal is left after an orderly stop")
		}
		if diff := cmp.Diff(got, modelOf(t, start(disk)), models); diff != "" {
			rt.Fatalf("after an orderly stop: %s", diff)
		}
	})
}

var models = cmp.Options{cmp.AllowUnexported(model{}), cmpopts.EquateEmpty()}

// TestTornFilesOnTheRealDisk opens a directory with the files that a crash leaves.
func TestTornFilesOnTheRealDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := open(t, dir)
	if _, err := o.Put(ctx, limitTo("topic?id=42", 100)); err != nil {
		t.Fatal(err)
	}
	want, changes := list(t, o), audit(t, o, 9)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	f := dirDisk(dir)
	for name, torn := range map[string]string{overridesFile + tempSuffix: `{"version": 1, "overr`,
		auditFile + tempSuffix: "{"} {
		if err := os.WriteFile(f.pathOf(name), []byte(torn), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(f.add(auditFile, []byte(`{"at":"2026-`)), f.add(overridesJournal, []byte("00"))); err != nil {
		t.Fatal(err)
	}
	again := open(t, dir)
	if diff := cmp.Diff(want, list(t, again)) + cmp.Diff(changes, audit(t, again, 9)); diff != "" {
		t.Error(diff)
	}
	if err := again.Delete(ctx, want[0].ID, "ann"); err != nil {
		t.Fatal(err)
	}
	if again := again.Missing(); !strings.Contains(again, "incomplete") {
		t.Error(again)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 3 {
		t.Errorf("%v, %v", left, err)
	}
	text, err := os.ReadFile(f.pathOf(auditFile))
	if err != nil || bytes.Count(text, []byte("\n")) != 2 || bytes.Contains(text, []byte(`"2026-{`)) {
		t.Errorf("%s, %v", text, err)
	}
}

// FuzzLoad states that any files are rejected with their name, or read, written and read again as the same.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(`{"version":1,"overrides":[{"id":"a","key":"topic?id=1","action":"block"}]}`),
		[]byte(`{"at":"2026-03-14T12:00:00Z","author":"ann","action":"put","id":"a"}`+"\n{"), []byte(nil))
	none := []byte(`{"version":1,"overrides":[]}`)
	f.Add(none, []byte(""), journalLine(generationOf(none),
		[]byte(`{"at":"2026-03-14T12:00:00Z","id":"a","after":{"id":"a","key":"topic?id=1","action":"block"}}`)))
	f.Fuzz(func(t *testing.T, overrides, changes, journal []byte) {
		d := newRAM()
		d.files[overridesFile], d.files[auditFile], d.files[overridesJournal] = overrides, changes, journal
		o, err := load(d, func() time.Time { return t0 })
		if err != nil {
			if !bytes.Contains([]byte(err.Error()), []byte("DIR/")) {
				t.Fatalf("no file in %v", err)
			}
			return
		}
		if _, err := o.Put(ctx, limitTo("topic?id=999", 1)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(list(t, o), list(t, boot(t, d.reboot()))); diff != "" {
			t.Fatal(diff)
		}
	})
}
