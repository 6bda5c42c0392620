package filestore

import (
	"bytes"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/persistent"
)

func persistentOf(texts map[string]string) (m persistent.Map[string]) {
	for id, text := range texts {
		m = m.With(id, text)
	}
	return m
}

func TestCopyOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	dir, of := filepath.Join(t.TempDir(), "state"), []string{"news", "127.0.0.1:6379"}
	var log bytes.Buffer
	open := func(of ...string) *OverridesCopy {
		t.Helper()
		c, err := OpenCopy(dir, of, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	load := func(c *OverridesCopy) (int64, map[string]string) {
		defer c.Close()
		return c.Load()
	}
	if revision, entries := load(open(of...)); revision != 0 || entries != nil || log.Len() > 0 {
		t.Errorf("a new directory has revision %d, %v: %s", revision, entries, &log)
	}
	c := open(of...)
	if _, err := OpenCopy(dir, of, slog.Default()); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("opened twice: %v", err)
	}
	entries := map[string]string{"a": `{"id":"a","key":"topic?id=<&>","action":"block"}`, "broken": "{"}
	for _, revision := range []int64{6, 7} {
		if err := c.Save(revision, persistentOf(entries)); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	if revision, got := load(open(of...)); revision != 7 || !maps.Equal(got, entries) {
		t.Errorf("revision %d, %v", revision, got)
	}
	if revision, _ := load(open("news", "127.0.0.1:6380")); revision != 0 ||
		!strings.Contains(log.String(), "another namespace or Redis") {
		t.Errorf("of another Redis: revision %d: %s", revision, &log)
	}
}

// A truncated or foreign file is set aside, and the next save writes a new one.
func TestDamagedCopyIsSetAside(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"cut in half": `{"version": 1, "of": ["news"], "revision": 7, "ent`, "empty": "", "none of ours": `[]`,
		"later format": `{"version": 2, "of": ["news"], "revision": 7, "entries": {}}`,
		"no revision":  `{"version": 1, "of": ["news"], "entries": {}}`,
	} {
		dir := t.TempDir()
		var log bytes.Buffer
		c, err := OpenCopy(dir, []string{"news"}, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, copyFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if revision, _ := c.Load(); revision != 0 || !strings.Contains(log.String(), "set aside") {
			t.Errorf("%s: revision %d: %s", name, revision, &log)
		}
		if aside, err := os.ReadFile(filepath.Join(dir, copyFile+".damaged")); err != nil || string(aside) != text {
			t.Errorf("%s: set aside: %q, %v", name, aside, err)
		}
		if err := c.Save(8, persistentOf(nil)); err != nil {
			t.Fatal(err)
		}
		if revision, _ := c.Load(); revision != 8 {
			t.Errorf("%s: revision %d after it was written again", name, revision)
		}
		c.Close()
	}
}
