package filestore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/rules"
)

// step is one change or crash.
type step struct {
	key    int
	remove bool
}

func (s step) do(o *Overrides, n int) error {
	key := fmt.Sprintf("topic?id=%d", s.key)
	if s.remove {
		err := o.Delete(ctx, rules.OverrideID(key), "ann")
		if errors.Is(err, rule.ErrNoOverride) {
			return nil
		}
		return err
	}
	_, err := o.Put(ctx, limitTo(key, float64(n+1)))
	return err
}

// TestWritesFailInTurn lets each write of a random history fail, by an error or by a crash in its midst. Answered
// changes hold, the unanswered change may or may not hold, and no other does; and the audit always ends with the change
// that holds.
func TestWritesFailInTurn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			return step{key: rapid.IntRange(0, 3).Draw(rt, "key"), remove: rapid.Bool().Draw(rt, "remove")}
		}), 1, 12).Draw(rt, "steps")
		d := newRAM()
		d.failAt = rapid.IntRange(0, 2*len(steps)).Draw(rt, "fail at")
		d.crash = rapid.Bool().Draw(rt, "crash")
		d.torn = rapid.IntRange(0, 1000).Draw(rt, "torn")
		o := boot(t, d)
		var failed bool
		for i, s := range steps {
			before := list(t, o)
			err := s.do(o, i)
			if err != nil {
				failed = true
				if diff := cmp.Diff(before, list(t, o)); diff != "" {
					rt.Fatalf("a change that failed holds: %s", diff)
				}
			}
			if d.crashed {
				break
			}
		}
		if failed != (d.failAt > 0 && d.writes >= d.failAt) {
			rt.Fatalf("write %d of %d failed, told: %v", d.failAt, d.writes, failed)
		}
		again := boot(t, d.reboot())
		if diff := cmp.Diff(list(t, o), list(t, again), cmpopts.EquateEmpty()); diff != "" {
			rt.Fatalf("after a start: %s", diff)
		}
		if diff := cmp.Diff(audit(t, o, 99), audit(t, again, 99), cmpopts.EquateEmpty()); diff != "" {
			rt.Fatalf("audit after a start: %s", diff)
		}
	})
}

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
		if err := os.WriteFile(f.path(name), []byte(torn), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.add(auditFile, []byte(`{"at":"2026-`)); err != nil {
		t.Fatal(err)
	}
	again := open(t, dir)
	if diff := cmp.Diff(want, list(t, again)) + cmp.Diff(changes, audit(t, again, 9)); diff != "" {
		t.Error(diff)
	}
	if err := again.Delete(ctx, want[0].ID, "ann"); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 3 {
		t.Errorf("%v, %v", left, err)
	}
	text, err := os.ReadFile(f.path(auditFile))
	if err != nil || bytes.Count(text, []byte("\n")) != 2 || bytes.Contains(text, []byte(`"2026-{`)) {
		t.Errorf("%s, %v", text, err)
	}
}

// FuzzLoad states that any files are rejected with their name, or read, written and read again as the same.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(`{"version":1,"overrides":[{"id":"a","key":"topic?id=1","action":"block"}]}`),
		[]byte(`{"at":"2026-03-14T12:00:00Z","author":"ann","action":"put","id":"a"}`+"\n{"))
	f.Add([]byte(`{"version":1,"overrides":[]}`), []byte(""))
	f.Fuzz(func(t *testing.T, overrides, changes []byte) {
		d := newRAM()
		d.files[overridesFile], d.files[auditFile] = overrides, changes
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
