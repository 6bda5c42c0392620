package filestore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// readBases returns the text that is stored.
func readBases(t *testing.T, l *Latencies) string {
	t.Helper()
	text, err := l.ReadBases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestLatencies_OutliveTheProcess restarts a process, which has the latencies from before if its upstreams are the same
// servers.
func TestLatencies_OutliveTheProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const text = `{"default":{"seconds":0.04}}`
	for i, c := range []struct{ of, before, after string }{
		{"http://a", "", text}, {"http://a", text, text}, {"http://b", "", ""}, {"http://a", text, text},
	} {
		o, err := OpenOverrides(dir)
		if err != nil {
			t.Fatal(err)
		}
		l := o.Latencies(c.of)
		if got := readBases(t, l); got != c.before {
			t.Errorf("start %d: %q, want %q", i, got, c.before)
		}
		if c.after != "" {
			if err := l.WriteBases(t.Context(), []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		if got := readBases(t, l); got != c.after {
			t.Errorf("start %d, later: %q, want %q", i, got, c.after)
		}
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(dir, latenciesFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestLatencies_RefuseADamagedFile(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{", "[]", `{"version":2,"of":"http://a","upstreams":{}}`, `{}`} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, latenciesFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		l := &Latencies{disk: dirDisk(dir), of: "http://a"}
		if _, err := l.ReadBases(t.Context()); err == nil || !strings.Contains(err.Error(), latenciesFile) {
			t.Errorf("%q: %v", text, err)
		}
		if err := l.WriteBases(t.Context(), []byte("{}")); err != nil || readBases(t, l) != "{}" {
			t.Errorf("%q is not replaced: %v", text, err)
		}
	}
}
