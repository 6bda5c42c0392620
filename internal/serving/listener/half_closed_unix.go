//go:build unix

package listener

import (
	"errors"

	"golang.org/x/sys/unix"
)

// hasHungUp reports whether nothing more can be written to a socket.
func hasHungUp(fd uintptr) bool {
	state := []unix.PollFd{{Fd: int32(fd)}}
	n, err := unix.Poll(state, 0)
	return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
}
