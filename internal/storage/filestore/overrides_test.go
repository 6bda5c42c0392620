package filestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

var t0 = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

func limitTo(key string, rate float64) rules.Override {
	return rules.Override{Key: key, Action: rules.ActionLimit, Rate: rate, Author: "ann"}
}

func open(t *testing.T, dir string) *Overrides {
	t.Helper()
	o, err := OpenOverrides(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.Close() })
	return o
}

func boot(t testing.TB, d disk) *Overrides {
	t.Helper()
	o, err := load(d, func() time.Time { return t0 })
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func list(t testing.TB, o *Overrides) []rules.Override {
	t.Helper()
	l, err := o.Live(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return rules.SortedOverrides(l)
}

func audit(t testing.TB, o *Overrides, limit int) []rules.Change {
	t.Helper()
	a, err := o.Audit(ctx, limit)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestOverridesOutliveTheProcess(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state", "of", "news")
	o := open(t, dir)
	put, err := o.Put(ctx, limitTo("topic?id=42", 100))
	if err != nil || put.ID != rules.OverrideID("topic?id=42") || put.Created.IsZero() {
		t.Fatalf("got %+v, %v", put, err)
	}
	if _, err := o.Put(ctx, rules.Override{ID: "front", Key: "topic?id=7", Action: rules.ActionExempt}); err != nil {
		t.Fatal(err)
	}
	if err := o.Delete(ctx, "front", "bob"); err != nil {
		t.Fatal(err)
	}
	if err := o.Delete(ctx, "front", "bob"); !errors.Is(err, rule.ErrNoOverride) {
		t.Errorf("deleting twice: %v", err)
	}
	before := audit(t, o, 10)
	if err := errors.Join(o.Close(), o.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Put(ctx, limitTo("topic?id=1", 1)); !errors.Is(err, errClosed) {
		t.Errorf("put after close: %v", err)
	}

	again := open(t, dir)
	if diff := cmp.Diff([]rules.Override{put}, list(t, again)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before, audit(t, again, 10)); diff != "" {
		t.Error(diff)
	}
	if before[0].Action != rules.ChangeDelete || before[0].Author != "bob" || before[0].Before.ID != "front" ||
		len(before) != 3 {
		t.Errorf("audit %+v", before)
	}
}

// A reset changes no override, and is in the audit all the same, also after a restart.
func TestAuditHasMoreThanOverrides(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := open(t, dir)
	if _, err := o.Put(ctx, limitTo("topic?id=42", 5)); err != nil {
		t.Fatal(err)
	}
	reset := rules.Change{Author: "bob", Action: rules.ChangeReset, Of: "client 192.0.2.7"}
	if err := o.Record(ctx, reset); err != nil {
		t.Fatal(err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	o = open(t, dir)
	audit, err := o.Audit(ctx, 10)
	if err != nil || len(audit) != 2 || len(list(t, o)) != 1 {
		t.Fatalf("%+v, %v, %+v", audit, err, list(t, o))
	}
	reset.At, reset.Revision = audit[0].At, audit[0].Revision
	if diff := cmp.Diff(reset, audit[0]); diff != "" || reset.Revision <= audit[1].Revision {
		t.Errorf("%s", diff)
	}
}

// Shadow mode outlives the process, in list and audit.
func TestShadowModeOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := open(t, dir)
	tried := limitTo("topic?id=42", 100)
	tried.Mode = hottype.ModeShadow
	put, err := o.Put(ctx, tried)
	if err != nil || !put.InShadow() {
		t.Fatalf("%+v, %v", put, err)
	}
	before := audit(t, o, 10)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, dir)
	if diff := cmp.Diff([]rules.Override{put}, list(t, again)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before, audit(t, again, 10)); diff != "" || !before[0].After.InShadow() {
		t.Errorf("%s%+v", diff, before)
	}
}

func TestSecondProcessIsRejected(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := open(t, dir)
	_, err := OpenOverrides(dir)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("in use by process %d", os.Getpid())) {
		t.Fatalf("got %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
}

func TestUnusableOverrideIsRejected(t *testing.T) {
	t.Parallel()
	o := boot(t, newRAM())
	for _, bad := range []rules.Override{
		{},
		{Key: "topic?id=1", Action: "stop"},
		{Key: "topic?id=1", Action: rules.ActionLimit},
		{Key: "topic?id=1", Action: rules.ActionBlock, ID: "A b"},
		{Key: "topic?id=1", Action: rules.ActionBlock, Until: t0},
	} {
		if _, err := o.Put(ctx, bad); err == nil {
			t.Errorf("%+v was stored", bad)
		}
	}
	if n := len(audit(t, o, 10)); n != 0 {
		t.Errorf("%d changes on record", n)
	}
}

func TestDamagedFilesAreNeverTakenForEmpty(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, content, says string }{
		{overridesFile, "", "overrides.json line 1 cannot be used"},
		{overridesFile, "{\"version\": 1,\n \"overrides\": [{]}", "overrides.json line 2 cannot be used"},
		{overridesFile, `{"version": 1, "overrides": [`, "move it away to start without overrides"},
		{overridesFile, `{"version": "1"}`, "overrides.json line 1"},
		{overridesFile, `{}`, "missing"},
		{overridesFile, `[]`, "overrides.json"},
		{overridesFile, `{"version": 2, "overrides": []}`, "start the newer program"},
		{overridesFile, `{"version": 1, "overrides": [{"id": "", "key": "a", "action": "block"}]}`, "override 1"},
		{overridesFile,
			`{"version": 1, "overrides": [{"id": "a", "key": "a", "action": "block"}, {"id": "a", "key": "b", "action": "block"}]}`, `override 2 ("a")`},
		{overridesFile, `{"version": 1, "overrides": [{"id": "a", "key": "a", "action": "stop"}]}`, `"stop"`},
		{auditFile, "{}\nnonsense\n", "audit.jsonl line 2"},
	} {
		d := newRAM()
		d.files[c.file] = []byte(c.content)
		if _, err := load(d, time.Now); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %q: got %v, want %q", c.file, c.content, err, c.says)
		}
	}
}

func TestTrimRemovesWhatEnded(t *testing.T) {
	t.Parallel()
	d := newRAM()
	o := boot(t, d)
	for i := range 3 {
		e := limitTo(fmt.Sprintf("topic?id=%d", i), 1)
		if i > 0 {
			e.Until = t0.Add(time.Duration(i) * time.Hour)
		}
		if _, err := o.Put(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		after time.Duration
		gone  int
		left  int
	}{{time.Minute, 0, 3}, {time.Hour, 1, 2}, {time.Hour, 0, 2}, {24 * time.Hour, 1, 1}} {
		if gone, err := o.Trim(t0.Add(c.after)); gone != c.gone || err != nil {
			t.Errorf("after %s: %d gone, %v", c.after, gone, err)
		}
		if n := len(list(t, boot(t, d.reboot()))); n != c.left {
			t.Errorf("after %s: %d left on the disk, want %d", c.after, n, c.left)
		}
	}
	if n := len(audit(t, o, 10)); n != 3 {
		t.Errorf("%d changes on record, want those of people only", n)
	}
}

// TestSubscribersSeeEveryChange checks that a change is delivered before the call that makes it returns, and that the
// last list delivered is the current one, however many changes are made at once.
func TestSubscribersSeeEveryChange(t *testing.T) {
	t.Parallel()
	o := open(t, t.TempDir())
	const writers, each = 8, 6
	var told atomic.Pointer[[]rules.Override]
	o.Subscribe(func(live rules.LiveOverrides) {
		l := rules.SortedOverrides(live)
		told.Store(&l)
	})
	if l := told.Load(); l == nil || len(*l) != 0 {
		t.Errorf("at first: %v", l)
	}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				key := fmt.Sprintf("topic?id=%d", w*each+i)
				if _, err := o.Put(ctx, limitTo(key, 1)); err != nil {
					t.Error(err)
				}
				if !slices.ContainsFunc(*told.Load(), func(o rules.Override) bool { return o.Key == key }) {
					t.Errorf("%s was set and not told", key)
				}
			}
		})
	}
	wg.Wait()
	if n := len(*told.Load()); n != writers*each {
		t.Errorf("%d of %d told", n, writers*each)
	}
	changes := audit(t, o, 1000)
	for i := 1; i < len(changes); i++ {
		if !changes[i].At.Before(changes[i-1].At) {
			t.Fatalf("change %d is not older than the one before it", i)
		}
	}
	if len(changes) != writers*each {
		t.Errorf("%d changes", len(changes))
	}
}
