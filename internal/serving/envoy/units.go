package envoy

import (
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

const (
	day  = 24 * time.Hour
	year = 365 * day // also the longest window that a limit may have
)

// unit is a unit of Envoy's limits: its name in files, its number in messages, its length.
type unit struct {
	name string
	code ratelimitv3.RateLimitResponse_RateLimit_Unit
	of   time.Duration
}

// units are all of them, shortest first. A month has 30 days and a year 365, as in
// envoyproxy/ratelimit.
var units = []unit{
	{"second", ratelimitv3.RateLimitResponse_RateLimit_SECOND, time.Second},
	{"minute", ratelimitv3.RateLimitResponse_RateLimit_MINUTE, time.Minute},
	{"hour", ratelimitv3.RateLimitResponse_RateLimit_HOUR, time.Hour},
	{"day", ratelimitv3.RateLimitResponse_RateLimit_DAY, day},
	{"week", ratelimitv3.RateLimitResponse_RateLimit_WEEK, 7 * day},
	{"month", ratelimitv3.RateLimitResponse_RateLimit_MONTH, 30 * day},
	{"year", ratelimitv3.RateLimitResponse_RateLimit_YEAR, year},
}
