//go:build !linux

package udpstat

import (
	"errors"
	"net"
)

// receiveBuffer returns an error, because the size is not known.
func receiveBuffer(*net.UDPConn) (int64, error) {
	return -1, errors.New("udpstat: the granted receive buffer can be read on Linux only")
}
