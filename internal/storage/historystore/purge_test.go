package historystore

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A purge removes the key, and nothing else, from answers and from the bytes on the disk.
func TestStore_PurgeLeavesNothingOfAKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, stop := runStore(t, Config{Dir: dir, Keys: 5})
	s.Event(hotEvent(noon, "topic?id=3"))
	for i := range 10 {
		recordMinute(s, noon.Add(time.Duration(i)*time.Minute), 5)
	}
	s.Event(cooledEvent(noon.Add(9*time.Minute), "topic?id=3"))
	awaitWritten(t, s, 2)
	rows, err := s.Purge(t.Context(), "topic?id=3") // the last minute is under way
	if err != nil || rows != 9+1+2 {
		t.Errorf("%d rows, %v; want 9 minutes, a span, 2 events", rows, err)
	}
	if rows, err := s.Purge(t.Context(), "topic?id=none"); rows != 0 || err != nil {
		t.Errorf("what is not there: %d, %v", rows, err)
	}
	inFiles := func(what string) (found bool) {
		files, err := filepath.Glob(filepath.Join(dir, folderName, "*"))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			found = found || bytes.Contains(data, []byte(what))
		}
		return found
	}
	stop()
	if inFiles("topic?id=3") || !inFiles("topic?id=4") {
		t.Error("the file still has the key, or another one is gone")
	}
	s, _ = runStore(t, Config{Dir: dir, Keys: 5})
	q := all
	q.Key = "topic?id=3"
	if a := read(t, s, q); len(a.Keys)+len(a.Spans)+len(a.Events) != 0 {
		t.Errorf("%+v", a)
	}
	if q.Key = "topic?id=4"; len(read(t, s, q).Keys) != 10 {
		t.Errorf("%+v", read(t, s, q).Keys)
	}
}

func TestStore_PurgeFailsIfNothingRuns(t *testing.T) {
	t.Parallel()
	s := New(Config{Dir: t.TempDir()})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Purge(ctx, "topic?id=3"); err == nil {
		t.Error("nothing is open, and nothing is said")
	}
}
