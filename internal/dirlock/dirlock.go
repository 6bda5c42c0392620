// Package dirlock locks directories for one process at a time.
package dirlock

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// Lock is a directory that this process holds until Close.
type Lock struct{ file *os.File }

// Close releases the directory. It unlocks before it closes: a process that is being forked holds a copy of the file
// until it executes its program, and closing alone would leave the lock to it for that long.
func (l *Lock) Close() error { return errors.Join(unlock(l.file), l.file.Close()) }

// Take holds a directory for this process until the lock is closed. name is the name of the file, so that several
// things in a directory can be held apart. The kernel keeps the lock, so it cannot outlive a crash. The file itself
// stays, with the number of the last holder in it.
func Take(dir, name string) (*Lock, error) {
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("dirlock: %w", err)
	}
	held, err := tryLock(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("dirlock: %s cannot be locked: %w", path, err), f.Close())
	}
	if !held {
		holder := holderOf(f)
		return nil, errors.Join(fmt.Errorf("dirlock: %s is in use by %s: stop it, or give this process a state directory "+
			"of its own", dir, holder), f.Close())
	}
	// Only the message above needs the number; without it the lock is held too.
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return &Lock{f}, nil
}

func holderOf(f *os.File) string {
	text, err := io.ReadAll(io.LimitReader(f, 32))
	if pid, convErr := strconv.Atoi(string(bytes.TrimSpace(text))); err == nil && convErr == nil {
		return fmt.Sprintf("process %d", pid)
	}
	return "another process"
}
