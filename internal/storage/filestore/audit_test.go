package filestore

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/internal/rules"
)

// TestAudit_NobodyHidesWhatOthersDid states that any number of changes of one caller drops no change of a caller with
// fewer changes, that the file never outgrows its bound, and that both hold after a restart.
func TestAudit_NobodyHidesWhatOthersDid(t *testing.T) {
	t.Parallel()
	d := newRAM()
	o := boot(t, d)
	o.audit.max = 16 << 10
	block := rules.Override{Key: "topic?id=victim", Action: rules.ActionBlock, Author: "ann"}
	put, err := o.Put(ctx, block)
	if err != nil {
		t.Fatal(err)
	}
	const changes = 1010
	for i := range changes {
		e := limitTo("topic?id=warm", float64(i+1))
		e.Author = "mallory"
		if _, err := o.Put(ctx, e); err != nil {
			t.Fatal(err)
		}
		if n := len(d.files[auditFile]); n > o.audit.max || n != o.audit.bytes {
			t.Fatalf("%d bytes after %d changes, %d known", n, i+1, o.audit.bytes)
		}
	}
	for name, again := range map[string]*Overrides{"now": o, "after a restart": boot(t, d.reboot())} {
		if again.Missing() != "" {
			t.Errorf("%s: %s", name, again.Missing())
		}
		all := audit(t, again, 1<<20)
		if len(all) < 20 || all[0].After.Rate != changes || all[len(all)-1].Author != "ann" {
			t.Errorf("%s: %d changes, newest %+v, oldest %+v", name, len(all), all[0].After, all[len(all)-1])
		}
		found, err := again.FindChanges(ctx, rules.AuditQuery{ID: put.ID, Limit: 9})
		if err != nil || len(found) != 1 || found[0].After.Action != rules.ActionBlock {
			t.Errorf("%s: of the victim %+v, %v", name, found, err)
		}
		older, err := again.FindChanges(ctx, rules.AuditQuery{Before: all[1].Revision, Limit: 1})
		if err != nil || len(older) != 1 || older[0].Revision != all[2].Revision {
			t.Errorf("%s: before %d: %+v, %v", name, all[1].Revision, older, err)
		}
	}
	if n := len(audit(t, o, -1)); n != 0 {
		t.Errorf("limit -1 gave %d", n)
	}
}

// TestAudit_KeepsThirtyDays states that a change is kept for thirty days, and not much longer.
func TestAudit_KeepsThirtyDays(t *testing.T) {
	t.Parallel()
	o, now := boot(t, newRAM()), t0
	o.now = func() time.Time { return now }
	for day := range 70 {
		now = t0.Add(time.Duration(day) * 24 * time.Hour)
		if _, err := o.Put(ctx, limitTo("topic?id=42", 1)); err != nil {
			t.Fatal(err)
		}
		oldest := now.Sub(o.audit.lines[0].at)
		if oldest > keepAudit+24*time.Hour || day >= 30 && oldest < keepAudit {
			t.Fatalf("on day %d the oldest change is %v old", day, oldest)
		}
	}
}

// TestAudit_Room states that only the oldest changes of a caller are dropped, that a caller loses no change while its
// changes take fewer bytes than another caller keeps, and that no more is dropped than the room needs.
func TestAudit_Room(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		log := auditLog{max: 1 << 10}
		line := func(size int) auditLine {
			return auditLine{at: t0, author: rapid.SampledFrom([]string{"", "ann", "bob", "cid"}).Draw(rt, "author"),
				text: make([]byte, size)}
		}
		for log.bytes < log.max {
			log.add(line(rapid.IntRange(1, 100).Draw(rt, "size")))
		}
		had, next := map[string]int{}, line(50)
		kept := log.withRoom(next)
		for _, l := range log.lines {
			had[l.author] += len(l.text)
		}
		left, most := map[string]int{}, 0
		for _, l := range kept.lines {
			left[l.author] += len(l.text)
			most = max(most, left[l.author])
		}
		if kept.bytes+50 > log.max || kept.bytes < log.max/2 {
			rt.Fatalf("%d of %d bytes are left", kept.bytes, log.bytes)
		}
		for author, n := range had {
			if left[author] < n && left[author]+100 < most {
				rt.Fatalf("%q keeps %d of %d, and another one %d", author, left[author], n, most)
			}
		}
	})
}

// TestOpen_SaysWhatIsMissing states that Missing reports exactly the files and lines that were removed from the
// directory.
func TestOpen_SaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	for says, take := range map[string]func(d *ram){
		"":                       func(*ram) {},
		"overrides.json is miss": func(d *ram) { delete(d.files, overridesFile) },
		"audit.jsonl does not":   func(d *ram) { delete(d.files, auditFile) },
		"has 2 changes, and 3": func(d *ram) {
			_, rest, _ := strings.Cut(string(d.files[auditFile]), "\n")
			d.files[auditFile] = []byte(rest)
		},
		"does not end with the last change": func(d *ram) {
			lines := strings.SplitAfter(string(d.files[auditFile]), "\n")
			d.files[auditFile] = []byte(lines[0] + lines[1])
		},
	} {
		d := newRAM()
		if o := boot(t, d); o.Missing() != "" {
			t.Errorf("a new directory: %s", o.Missing())
		} else {
			for i := range 3 {
				if _, err := o.Put(ctx, limitTo(fmt.Sprint("topic?id=", i), 1)); err != nil {
					t.Fatal(err)
				}
			}
		}
		again := d.reboot()
		take(again)
		o := boot(t, again)
		if got := o.Missing(); !strings.Contains(got, says) || (says == "") != (got == "") {
			t.Errorf("want %q, got %q", says, got)
		}
		if c, err := o.PutIf(ctx, limitTo("topic?id=9", 1), 0); err != nil || !c.At.After(t0) {
			t.Errorf("%s: %+v, %v", says, c, err)
		}
		if got := boot(t, again.reboot()).Missing(); got != "" {
			t.Errorf("%s: said again: %q", says, got)
		}
	}
}

// TestPut_WhatCannotBeReadAgain states that an override is not acknowledged if the file with it could not be read at
// the next start, and that others can be removed then.
func TestPut_WhatCannotBeReadAgain(t *testing.T) {
	t.Parallel()
	d := newRAM()
	o := boot(t, d)
	if o.max != maxFile || o.audit.max > maxFile {
		t.Errorf("files of %d and %d bytes are written, and of %d read", o.max, o.audit.max, maxFile)
	}
	o.max = 100 << 10
	o.file.min = o.max // so that a journal can hold more than fits into the file
	var err error
	n := 0
	for ; err == nil; n++ {
		before := len(d.files[overridesFile])
		e := limitTo(fmt.Sprintf("topic?id=%d*%s", n, strings.Repeat("&", 2000)), 1)
		e.Reason = strings.Repeat("<", 1024) // JSON has six bytes for each
		if _, err = o.Put(ctx, e); len(d.files[overridesFile]) > o.max {
			t.Fatalf("%d bytes were written, after %d", len(d.files[overridesFile]), before)
		}
	}
	if !errors.Is(err, rules.ErrTooManyOverrides) || n < 3 || o.Check(ctx) != nil {
		t.Errorf("after %d: %v; %v", n, err, o.Check(ctx))
	}
	if got := list(t, boot(t, d.reboot())); len(got) != n-1 || len(list(t, o)) != n-1 {
		t.Errorf("%d overrides after a restart, want %d", len(got), n-1)
	}
	if err := o.Delete(ctx, list(t, o)[0].ID, "ann"); err != nil {
		t.Error(err)
	}
	if err := o.Close(); err != nil {
		t.Errorf("the journal cannot be merged: %v", err)
	}
}

// TestTrim_WritesNothingThatCannotBeReadAgain states that Trim leaves a file that a person wrote without indentation,
// if it would be too long with it. That is no fault of the disk.
func TestTrim_WritesNothingThatCannotBeReadAgain(t *testing.T) {
	t.Parallel()
	d := newRAM()
	text := `{"version":1,"overrides":[{"id":"a","key":"topic?id=1","action":"block","until":"2026-03-14T13:00:00Z"},` +
		`{"id":"b","key":"topic?id=2","action":"block"},{"id":"c","key":"topic?id=3","action":"block"}]}`
	d.files[overridesFile] = []byte(text)
	o := boot(t, d)
	o.max = len(text)
	if n, err := o.Trim(t0.Add(2 * time.Hour)); n != 0 || !errors.Is(err, rules.ErrTooManyOverrides) ||
		string(d.files[overridesFile]) != text {
		t.Errorf("%d, %v: %s", n, err, d.files[overridesFile])
	}
	if err := o.Check(ctx); err != nil {
		t.Error(err)
	}
}

// TestCheck_NamesAFullDisk states that a disk which cannot be written is known until it can be written again.
func TestCheck_NamesAFullDisk(t *testing.T) {
	t.Parallel()
	d := newRAM()
	o := boot(t, d)
	if _, err := o.Put(ctx, limitTo("topic?id=1", 1)); err != nil || o.Check(ctx) != nil {
		t.Fatal(err, o.Check(ctx))
	}
	for range 2 { // the audit, then overrides.json
		d.failAt = d.writes + 1
		if _, err := o.Put(ctx, limitTo("topic?id=1", 2)); err == nil {
			t.Error("it was stored")
		}
		d.failAt = d.writes + 1
		if err := o.Check(ctx); err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("while the disk is full: %v", err)
		}
		if err := o.Check(ctx); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	}
	if got := list(t, boot(t, d.reboot())); len(got) != 1 || got[0].Rate != 1 {
		t.Errorf("%+v", got)
	}
}
