package run

import (
	"math"
	"runtime/debug"
)

// ballastSize is never touched, so that it takes address space and no memory. Garbage up to
// this size beside what the collector would let lie without it does.
const ballastSize = 32 << 20

// ballast makes the heap of a program that answers requests look larger to the collector. It
// runs when the heap has doubled, and such a program keeps a few megabytes while each request
// leaves some kilobytes behind: the collector would run 15 times a second and take a seventh
// of the CPU. The caller keeps what it gets alive. Who sets GOMEMLIMIT gets none: it counts
// there as memory in use.
func ballast() []byte {
	if debug.SetMemoryLimit(-1) != math.MaxInt64 {
		return nil
	}
	return make([]byte, ballastSize)
}
