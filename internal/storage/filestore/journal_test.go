package filestore

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/internal/persistent"
	"github.com/hotparam/pipeline/internal/rules"
)

// put stores overrides of several keys, and returns the lists after each of them.
func put(t testing.TB, o *Overrides, n int) (lists [][]rules.Override) {
	t.Helper()
	for i := range n {
		if _, err := o.Put(ctx, limitTo(fmt.Sprint("topic?id=", i%3), float64(i+1))); err != nil {
			t.Fatal(err)
		}
		lists = append(lists, list(t, o))
	}
	return lists
}

// TestJournal_IsReadUpToEachByte cuts a journal at each of its bytes, as a crash may. The changes of the whole lines
// hold, the others do not, a cut line is reported, and the next change is read again.
func TestJournal_IsReadUpToEachByte(t *testing.T) {
	t.Parallel()
	d := newRAM()
	lists := put(t, boot(t, d), 4)
	text := d.files[overridesJournal]
	if n := bytes.Count(text, []byte("\n")); n != 3 {
		t.Fatalf("%d lines in %s", n, text)
	}
	changes := bytes.SplitAfter(d.files[auditFile], []byte("\n"))
	for cut := range len(text) + 1 {
		whole := bytes.Count(text[:cut], []byte("\n"))
		disk := d.reboot()
		disk.files[overridesJournal] = text[:cut]
		disk.files[auditFile] = bytes.Join(changes[:min(whole+2, 4)], nil) // it was written first
		o := boot(t, disk)
		if diff := cmp.Diff(lists[whole], list(t, o)); diff != "" {
			t.Fatalf("cut at %d: %s", cut, diff)
		}
		torn := cut > 0 && text[cut-1] != '\n'
		if strings.Contains(o.Missing(), "incomplete") != torn || !torn && o.Missing() != "" {
			t.Fatalf("cut at %d: %q", cut, o.Missing())
		}
		if n := len(audit(t, o, 9)); n != whole+1 {
			t.Fatalf("cut at %d: %d changes in the audit", cut, n)
		}
		want := put(t, o, 1)[0]
		if diff := cmp.Diff(want, list(t, boot(t, disk.reboot()))); diff != "" {
			t.Fatalf("cut at %d, after the next change: %s", cut, diff)
		}
	}
}

// TestJournal_DamageIsNeverTakenForEmpty changes each byte of a journal. A damaged line before others is an error that
// names it. A damaged last line cannot be told from a torn one: it is reported and does not hold.
func TestJournal_DamageIsNeverTakenForEmpty(t *testing.T) {
	t.Parallel()
	d := newRAM()
	lists := put(t, boot(t, d), 4)
	text := d.files[overridesJournal]
	last := bytes.LastIndexByte(text[:len(text)-1], '\n') // it ends the line before the last one
	for i := range text {
		disk := d.reboot()
		disk.files[overridesJournal] = slices.Clone(text)
		disk.files[overridesJournal][i] ^= 1
		o, err := load(disk, time.Now)
		switch {
		case i < last:
			if err == nil || !strings.Contains(err.Error(), "DIR/overrides.journal line ") ||
				!strings.Contains(err.Error(), "move it away") {
				t.Fatalf("byte %d: %v", i, err)
			}
		case err != nil || o.Missing() == "":
			t.Fatalf("byte %d: %v, %q", i, err, o.Missing())
		case i > last && !cmp.Equal(list(t, o), lists[2]):
			t.Fatalf("byte %d: %s", i, cmp.Diff(lists[2], list(t, o)))
		}
	}
	disk := d.reboot()
	delete(disk.files, overridesJournal)
	if o := boot(t, disk); !cmp.Equal(list(t, o), lists[0]) || o.Missing() == "" {
		t.Errorf("without the journal: %v, %q", list(t, o), o.Missing())
	}
	line := journalLine(generationOf(d.files[overridesFile]), []byte(`{"id":"a","after":{"id":"a"}}`))
	disk.files[overridesJournal] = line
	if _, err := load(disk, time.Now); err == nil || !strings.Contains(err.Error(), "DIR/overrides.journal") {
		t.Errorf("an unusable override: %v", err)
	}
}

// TestJournal_EditedFileHolds states that a file that was edited or replaced holds as it is, that later changes in the
// journal of the file before are reported, and that they do not return. Nothing is reported if the journal has no later
// changes, because the process was killed while it merged them.
func TestJournal_EditedFileHolds(t *testing.T) {
	t.Parallel()
	d := newRAM()
	o := boot(t, d)
	lists := put(t, o, 4)
	disk := d.reboot()
	disk.files[overridesFile] = bytes.Replace(disk.files[overridesFile], []byte(`"rate": 1`), []byte(`"rate": 9`), 2)
	edited := boot(t, disk)
	if got := list(t, edited); len(got) != 1 || got[0].Rate != 9 {
		t.Errorf("edited: %+v", got)
	}
	if got := edited.Missing(); !strings.Contains(got, "edited") || !strings.Contains(got, "3 later changes") ||
		len(audit(t, edited, 9)) != 4 {
		t.Errorf("%q, %d audit entries", got, len(audit(t, edited, 9)))
	}
	want := put(t, edited, 1)[0]
	if again := boot(t, disk.reboot()); !cmp.Equal(want, list(t, again)) || again.Missing() != "" {
		t.Errorf("after a change: %v, %q", list(t, again), again.Missing())
	}

	journal := d.files[overridesJournal]
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	disk = d.reboot()
	disk.files[overridesJournal] = journal
	if again := boot(t, disk); !cmp.Equal(lists[3], list(t, again)) || again.Missing() != "" {
		t.Errorf("killed while it merged: %v, %q", list(t, again), again.Missing())
	}
	for says, remove := range map[string][]string{"overrides.json is missing": {overridesFile},
		"edited, replaced or removed": {overridesFile, auditFile}} {
		disk = d.reboot()
		disk.files[overridesJournal] = journal
		for _, name := range remove {
			delete(disk.files, name)
		}
		if again := boot(t, disk); len(list(t, again)) != 0 || !strings.Contains(again.Missing(), says) {
			t.Errorf("without %v: %v, %q", remove, list(t, again), again.Missing())
		}
	}
}

// TestJournal_BeginsAgainAfterAnError states that the next change holds after a restart, although an error left a
// part of a line in the journal, or left the new file with the old journal.
func TestJournal_BeginsAgainAfterAnError(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*ram, *Overrides){
		"half a line that is not cut off": func(d *ram, _ *Overrides) {
			d.failAt, d.crash, d.torn = d.writes+2, true, 500
		},
		"the name of the file is not durable": func(d *ram, o *Overrides) {
			d.failAt, d.renamed, o.file.min, o.file.size = d.writes+2, true, 1, 1
		},
		"the journal is not removed": func(d *ram, o *Overrides) {
			d.failAt, o.file.min, o.file.size = d.writes+3, 1, 1
		},
	} {
		d := newRAM()
		o := boot(t, d)
		put(t, o, 2)
		fail(d, o)
		_, err := o.Put(ctx, limitTo("topic?id=9", 9))
		if removed := name == "the journal is not removed"; (err == nil) != removed {
			t.Fatalf("%s: %v", name, err)
		}
		o.file.min, d.crashed = minJournal, false
		want := put(t, o, 3)[2]
		again := boot(t, d.reboot())
		if diff := cmp.Diff(want, list(t, again)); diff != "" || again.Missing() != "" {
			t.Errorf("%s: %s%s", name, diff, again.Missing())
		}
	}
}

// TestJournal_KeepsNoTextBeyondTrim states that after Trim neither file of the overrides has the text of an override
// that was removed or replaced before the last change.
func TestJournal_KeepsNoTextBeyondTrim(t *testing.T) {
	t.Parallel()
	d := newRAM()
	o := boot(t, d)
	secret := limitTo("topic?id=secret", 1)
	e, err := o.Put(ctx, secret)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Delete(ctx, e.ID, "ann"); err != nil {
		t.Fatal(err)
	}
	put(t, o, 1)
	if _, err := o.Trim(t0); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{overridesFile, overridesJournal} {
		if text := d.files[name]; bytes.Contains(text, []byte("secret")) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// TestJournal_GrowsAsFarAsItsFile states that a journal is merged when it has as many bytes as its file, and that its
// file is not written before.
func TestJournal_GrowsAsFarAsItsFile(t *testing.T) {
	t.Parallel()
	d := newRAM()
	o := boot(t, d)
	o.file.min = 2000
	merged, before := 0, d.files[overridesFile]
	for i := range 100 {
		put(t, o, 1)
		if n := len(d.files[overridesJournal]); n != o.file.bytes || n > 2000 {
			t.Fatalf("%d bytes in the journal after change %d, %d counted", n, i, o.file.bytes)
		}
		if after := d.files[overridesFile]; !bytes.Equal(before, after) {
			merged, before = merged+1, after
		}
	}
	if merged < 10 || merged > 50 {
		t.Errorf("%s was written %d times in 100 changes", overridesFile, merged)
	}
}

// TestBytes_BoundTheFiles compares the counted bytes of the overrides with the files.
func TestBytes_BoundTheFiles(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d, texts := newRAM(), persistent.Map[string]{}
		o := &Overrides{disk: d, now: time.Now, max: maxFile, audit: auditLog{max: maxAudit},
			file: newJournaledFile(d, overridesFile, overridesJournal)}
		c := newCopy(d, []string{"news", "127.0.0.1:6379"}, slog.Default())
		o.file.min, c.file.min = 1, 1 // each change writes the files
		for i := range rapid.IntRange(1, 8).Draw(t, "changes") {
			e := limitTo(fmt.Sprint("topic?id=", rapid.IntRange(0, 3).Draw(t, "key")), 1)
			e.Reason = rapid.SampledFrom([]string{"", "<&>", "a flood"}).Draw(t, "reason")
			e.ID, texts = e.DefaultID(), texts.With(e.Reason, e.Reason+e.Key)
			_, has := o.entries.Get(e.ID)
			var err error
			if has && rapid.Bool().Draw(t, "delete") {
				err, texts = o.Delete(ctx, e.ID, "ann"), texts.Without(e.Reason)
			} else {
				_, err = o.Put(ctx, e)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Save(int64(i+1), texts); err != nil {
				t.Fatal(err)
			}
			if err := o.writeFile(o.entries, o.last, len(o.audit.lines)); err != nil || c.Compact() != nil {
				t.Fatal(err)
			}
			for name, most := range map[string]int{overridesFile: bytesWith(o.bytes, o.last),
				copyFile: c.headBytes() + c.bytes} {
				if n := len(d.files[name]); n > most || n < most-envelopeBytes {
					t.Fatalf("%s has %d bytes, at most %d: %s", name, n, most, d.files[name])
				}
			}
		}
	})
}

// TestCopy_IsItsModel holds a copy against the last state that was saved, while writes fail and the process restarts.
func TestCopy_IsItsModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		d, log := newRAM(), slog.New(slog.DiscardHandler)
		d.failAt, d.torn = rapid.IntRange(0, 20).Draw(rt, "fail at"), rapid.IntRange(0, 1000).Draw(rt, "torn")
		d.crash = rapid.Bool().Draw(rt, "crash")
		start := func() *OverridesCopy {
			c := newCopy(d, []string{"news"}, log)
			c.file.min = 500
			c.Load()
			return c
		}
		c, known, saved := start(), persistent.Map[string]{}, persistent.Map[string]{}
		var revision int64
		for i := range rapid.IntRange(1, 30).Draw(rt, "steps") {
			id := fmt.Sprint("o", rapid.IntRange(0, 3).Draw(rt, "id"))
			switch rapid.IntRange(0, 5).Draw(rt, "act") {
			case 0:
				known = known.Without(id)
			case 1:
				_ = c.Compact()
			case 2:
				c = start()
			default:
				known = known.With(id, fmt.Sprintf(`{"id":%q,"rate":%d}`, id, i))
			}
			if c.Save(int64(i+1), known) == nil {
				revision, saved = int64(i+1), known
			}
			if d.crashed {
				break
			}
			gotRevision, got := newCopy(d.reboot(), []string{"news"}, log).Load()
			if gotRevision != revision || !maps.Equal(got, maps.Collect(saved.All())) {
				rt.Fatalf("step %d: revision %d, want %d: %v", i, gotRevision, revision, got)
			}
		}
		d = d.reboot()
		gotRevision, got := newCopy(d, []string{"news"}, log).Load()
		unsaved := d.crashed || gotRevision == revision+1 && maps.Equal(got, maps.Collect(known.All()))
		if !unsaved && (gotRevision != revision || !maps.Equal(got, maps.Collect(saved.All()))) {
			rt.Fatalf("revision %d, want %d: %v", gotRevision, revision, got)
		}
	})
}

// TestCopy_DamagedJournalIsSetAside states that the changes before a damaged line are used with a warning, and that the
// next Save begins again. Close leaves one file that holds everything.
func TestCopy_DamagedJournalIsSetAside(t *testing.T) {
	t.Parallel()
	dir, of := t.TempDir(), []string{"news"}
	var log bytes.Buffer
	open := func() *OverridesCopy {
		t.Helper()
		c, err := OpenCopy(dir, of, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c, state := open(), persistent.Map[string]{}
	for i := range 4 {
		state = state.With(fmt.Sprint("o", i), "text")
		if err := c.Save(int64(i+1), state); err != nil {
			t.Fatal(err)
		}
	}
	text, err := c.file.disk.read(copyJournal)
	if err != nil || bytes.Count(text, []byte("\n")) != 3 {
		t.Fatalf("%s, %v", text, err)
	}
	second := bytes.IndexByte(text, '\n') + 1
	text[second+20] ^= 1
	if err := c.lock.Close(); err != nil { // the process was killed
		t.Fatal(err)
	}
	if err := writeSynced(dirDisk(dir).pathOf(copyJournal), 0, text); err != nil {
		t.Fatal(err)
	}
	c = open()
	if revision, got := c.Load(); revision != 2 || len(got) != 2 || !strings.Contains(log.String(), "line 2") {
		t.Errorf("revision %d, %v: %s", revision, got, &log)
	}
	if aside, err := dirDisk(dir).read(copyJournal + ".damaged"); err != nil || !bytes.Equal(aside, text) {
		t.Errorf("set aside: %s, %v", aside, err)
	}
	for revision := range int64(2) {
		state = state.Without(fmt.Sprint("o", revision))
		if err := c.Save(revision+5, state); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := dirDisk(dir).read(copyJournal); err == nil {
		t.Error("a journal is left after Close")
	}
	log.Reset()
	c = open()
	defer c.Close()
	if revision, got := c.Load(); revision != 6 || !maps.Equal(got, maps.Collect(state.All())) || log.Len() > 0 {
		t.Errorf("revision %d, %v: %s", revision, got, &log)
	}
}
