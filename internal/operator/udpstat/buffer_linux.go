package udpstat

import (
	"cmp"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// receiveBuffer returns the number of bytes of a socket's receive buffer that can be used.
func receiveBuffer(conn *net.UDPConn) (int64, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, fmt.Errorf("udpstat: %w", err)
	}
	size, sizeErr := -1, error(nil)
	err = raw.Control(func(fd uintptr) {
		size, sizeErr = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF)
	})
	if err != nil || sizeErr != nil {
		return -1, fmt.Errorf("udpstat: read the receive buffer back: %w", cmp.Or(err, sizeErr))
	}
	return int64(size) / 2, nil
}
