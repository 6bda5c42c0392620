package textfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, name, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRead(t *testing.T) {
	t.Parallel()
	link := filepath.Join(t.TempDir(), "link") // Kubernetes mounts links
	if err := os.Symlink(write(t, "largest", strings.Repeat("x", MaxSize)), link); err != nil {
		t.Fatal(err)
	}
	if data, err := Read(link); err != nil || len(data) != MaxSize {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	for path, want := range map[string]string{
		write(t, "larger", strings.Repeat("x", MaxSize+1)): "larger: 4194305 bytes are over the limit of 4194304",
		t.TempDir():                           "not a regular file",
		os.DevNull:                            "not a regular file",
		filepath.Join(t.TempDir(), "missing"): "missing: no such file",
	} {
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

func TestSecret(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"": "is empty; write one with: openssl", " \n": "is empty",
		strings.Repeat("x", MaxSecret+1): "4097 bytes are over the limit of 4096",
	} {
		if _, err := Secret(write(t, "secret", content)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if text, err := Secret(write(t, "secret", " four words of text\n")); err != nil || text != "four words of text" {
		t.Errorf("%q, %v", text, err)
	}
}
