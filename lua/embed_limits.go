package lua

import _ "embed"

var (
	//go:embed cl_throttle.lua
	clThrottle string
	//go:embed in_flight.lua
	inFlight string
)

// CLThrottle is the script that stands in for CL.THROTTLE; see cl_throttle.lua.
func CLThrottle() string { return clThrottle }

// InFlight is the script that bounds how many calls run at the same time; see
// in_flight.lua.
func InFlight() string { return inFlight }
