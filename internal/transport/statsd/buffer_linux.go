package statsd

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// growBuffer asks for a receive buffer: beyond the limit of the system where
// the program may (CAP_NET_ADMIN), else up to it.
func growBuffer(s socket, size int) {
	forced := false
	control(s, func(fd int) { forced = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, size) == nil })
	if !forced {
		_ = s.SetReadBuffer(size) // what counts is the reading back
	}
}

// receiveBuffer reads the size of the receive buffer. Linux reports the double
// of what may be used, the rest is for its own book-keeping.
func receiveBuffer(s socket) int64 {
	size := 0
	control(s, func(fd int) { size, _ = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF) })
	return int64(size / 2)
}

// canShare says that several sockets can share a port.
const canShare = true

// sharePort lets further sockets of this user bind the same port. The kernel
// spreads the senders over them, each always to the same one.
func sharePort(fd uintptr) error {
	return unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
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
