// Package textfile reads the small files that operators write: configurations, rules, tokens and secrets.
package textfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
)

const (
	// MaxSize bounds a file that Read reads, in bytes: some 40,000 rules.
	MaxSize = 4 << 20
	// MaxSecret bounds a file that Secret reads, in bytes.
	MaxSecret = 4 << 10
)

// Read reads a file. Before it reads any of it, it rejects a file that is not a regular file, because such a file may
// have no end or wait for a writer, and a file that is larger than MaxSize. Errors are of type *fs.PathError.
func Read(path string) ([]byte, error) { return read(path, MaxSize) }

// Secret reads a file that holds a token or a secret, and returns it without the white space around it. An empty file
// is an error.
func Secret(path string) (string, error) {
	data, err := read(path, MaxSecret)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(data))
	if text == "" {
		return "", fmt.Errorf("%s is empty; write one with: openssl rand -hex 24 > %[1]s", path)
	}
	return text, nil
}

// SecretFile is a secret that is read from its file for each use, so that it can be replaced while a program runs. Any
// number of goroutines may use it.
type SecretFile struct {
	Path string

	mu   sync.Mutex
	last string
}

// Read returns the secret. While the file cannot be used, it returns the last secret that could be read, or "" if there
// was none, and the error.
func (f *SecretFile) Read() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, err := Secret(f.Path)
	if err == nil {
		f.last = text
	}
	return f.last, err
}

func read(path string, maxSize int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // otherwise the opening of a FIFO waits for a writer
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	case info.Size() > maxSize:
		return nil, &fs.PathError{Op: "read", Path: path,
			Err: fmt.Errorf("%d bytes are over the limit of %d", info.Size(), maxSize)}
	}
	return io.ReadAll(io.LimitReader(f, maxSize))
}
