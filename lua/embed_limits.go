package lua

import _ "embed"

var (
	//go:embed cl_throttle.lua
	clThrottle string
	//go:embed in_flight.lua
	inFlight string
	//go:embed limit_refund.lua
	limitRefund string
	//go:embed limit_exchange.lua
	limitExchange string
)

// CLThrottle is the script that stands in for CL.THROTTLE; see cl_throttle.lua.
func CLThrottle() string { return clThrottle }

// InFlight is the script that bounds how many calls run at the same time; see
// in_flight.lua.
func InFlight() string { return inFlight }

// Refund is the script that takes charges back; see limit_refund.lua.
func Refund() string {
	return buckets() + windows() + limitAnchoredWindow + limitSlidingLog + limitWarmingUp + limitRefund
}

// Exchange is the script that shares the sums of windows; see limit_exchange.lua.
func Exchange() string { return limitExchange }
