//go:build !linux

package statsd

import "errors"

func newReceiver(s socket) (receiver, error) { return newSingle(s), nil }

// canShare reports that a port has one socket on this system.
const canShare = false

func sharePort(uintptr) error { return errors.New("sockets cannot share a port on this system") }

func growBuffer(s socket, size int) { _ = s.SetReadBuffer(size) }

// receiveBufferSize and socketDrops have no information on this system.
func receiveBufferSize(socket) int64 { return 0 }

func socketDrops(socket) (drops uint32, ok bool) { return 0, false }
