//go:build unix

package requestlog

import (
	"os"

	"golang.org/x/sys/unix"
)

// openStandard opens the standard output or error once more, or returns nil for another name. To a closed pipe the
// program could not write by os.Stdout: the runtime would end the program, because it does so for descriptors 1 and 2.
func openStandard(name string) (*os.File, error) {
	fd := map[string]int{"stdout": 1, "stderr": 2}[name]
	if fd == 0 {
		return nil, nil
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(own), name), nil
}
