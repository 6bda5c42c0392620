//go:build !linux

package statsd

// receiveBuffer and socketDrops know nothing on this system.
func receiveBuffer(socket) int64 { return 0 }

func socketDrops(socket) (drops uint32, ok bool) { return 0, false }
