package filestore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/internal/rules"
)

func TestRulesCopyOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	c := NewRulesCopy(dir, "news")
	if s, err := c.Load(); s != nil || err != nil {
		t.Errorf("without a directory: %v, %v", s, err)
	}
	stored, err := (*rules.Stored)(nil).With(rules.Revision{At: time.Unix(1, 0).UTC(), Text: "a"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Save(stored); err != nil {
			t.Fatal(err)
		}
	}
	if s, err := NewRulesCopy(dir, "news").Load(); err != nil || !cmp.Equal(s, stored) {
		t.Errorf("%v, %s", err, cmp.Diff(s, stored))
	}
	if s, err := NewRulesCopy(dir, "olds").Load(); s != nil || err != nil {
		t.Errorf("of another namespace: %v, %v", s, err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%v, %v: want the copy alone", files, err)
	}
}

func TestDamagedRulesCopies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := NewRulesCopy(dir, "news")
	for _, text := range []string{"", "{",
		`{"hotparam_rules":1,"version":1,"current":{"version":1,"text":"a","hash":"b"}}`} {
		if err := os.WriteFile(c.Path(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := c.Load(); s != nil || err == nil || !strings.Contains(err.Error(), c.Path()) {
			t.Errorf("%q: %v, %v", text, s, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := NewRulesCopy(filepath.Join(dir, "file"), "news").Save(&rules.Stored{}); err == nil {
		t.Error("saved in a file")
	}
}
