//go:build unix

package dirlock_test

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hotparam/pipeline/internal/dirlock"
)

func TestTake_NamesWhoHoldsTheDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := dirlock.Take(dir, "lock")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dirlock.Take(dir, "lock"); err == nil || !strings.Contains(err.Error(), "is in use by process ") {
		t.Errorf("the second one: %v", err)
	}
	other, err := dirlock.Take(dir, "other.lock")
	if err != nil {
		t.Errorf("under another name: %v", err)
	}
	for _, l := range []*dirlock.Lock{first, other} {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A copy of the descriptor stands for a process that is being forked meanwhile.
func TestLock_IsReleasedAlthoughACopyOfItsFileIsOpen(t *testing.T) {
	dir := t.TempDir()
	lock, err := dirlock.Take(dir, "lock")
	if err != nil {
		t.Fatal(err)
	}
	copied, err := unix.Dup(int(lock.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(copied) }()
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := dirlock.Take(dir, "lock")
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
}
