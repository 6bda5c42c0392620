package statsd

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// receiveBuffer reads the size of the receive buffer. Linux reports the double
// of what may be used, the rest is for its own book-keeping.
func receiveBuffer(s socket) int64 {
	size := 0
	control(s, func(fd int) { size, _ = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF) })
	return int64(size / 2)
}

// dropsIndex is SK_MEMINFO_DROPS of linux/sock_diag.h.
const dropsIndex = 8

// socketDrops reads how many datagrams found the buffer full, modulo 2^32.
// There is no ready-made call for this option.
func socketDrops(s socket) (drops uint32, ok bool) {
	var info [dropsIndex + 1]uint32
	size := uint32(unsafe.Sizeof(info))
	control(s, func(fd int) {
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
			uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
		ok = errno == 0
	})
	return info[dropsIndex], ok
}

// control does nothing where the socket is closed.
func control(s socket, f func(fd int)) {
	if raw, err := s.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { f(int(fd)) })
	}
}
